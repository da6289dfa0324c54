// A page of a list, as OpenAI's clients walk through it.

import HTTP
import JSON
import OpenAI

extension Request {
  /// Most objects of a page.
  static let listLimit = 100

  /// A page by the query's `after`, `before`, `limit` and `order`; the newest first unless asked otherwise.
  ///
  /// - Parameters:
  ///   - oldestFirst: ids of all objects.
  ///   - object: the object of an index of these, which has an `id`; asked for those of the page.
  func listPage(
    _ oldestFirst: [String], limits: ClosedRange<Int> = 1...listLimit, usual: Int = 20,
    object: (Int) -> JSONValue
  ) throws(APIError) -> JSONValue {
    let limit = try integerQuery("limit", in: limits) ?? usual
    var ordered = Array(oldestFirst.indices)
    switch query("order") {
    case nil, "desc": ordered.reverse()
    case "asc": break
    default: throw .invalidValue("order", "expected 'asc' or 'desc'")
    }
    func index(_ name: String) throws(APIError) -> Int? {
      guard let id = query(name) else { return nil }
      guard
        let index = ordered.firstIndex(where: { oldestFirst[$0].utf8.elementsEqual(id.utf8) })
      else {
        throw .invalidValue(name, "there is no object '\(APIError.shortened(id))' in the list")
      }
      return index
    }
    var range = 0..<ordered.count
    if let after = try index("after") { range = after + 1..<ordered.count }
    var isBackwards = false
    if let before = try index("before") {
      range = min(range.lowerBound, before)..<before
      isBackwards = query("after") == nil
    }
    // Before an object means those just before it.
    let page = (isBackwards ? ordered[range].suffix(limit) : ordered[range].prefix(limit)).map(object)
    return [
      "object": "list", "data": .array(page), "first_id": page.first?["id"] ?? nil,
      "last_id": page.last?["id"] ?? nil, "has_more": .bool(range.count > limit),
    ]
  }
}
