// A page of a list, as OpenAI's clients walk through it.

import HTTP
import JSON
import OpenAI

extension Request {
  /// A page by the query's `after`, `before`, `limit` and `order`; the newest first unless asked otherwise.
  ///
  /// - Parameter oldestFirst: objects with an `id`.
  func listPage(_ oldestFirst: [JSONValue], limits: ClosedRange<Int> = 1...100, usual: Int = 20)
    throws(APIError)
    -> JSONValue
  {
    let limit = try integerQuery("limit", in: limits) ?? usual
    var ordered = oldestFirst
    switch query("order") {
    case nil, "desc": ordered.reverse()
    case "asc": break
    default: throw .invalidValue("order", "expected 'asc' or 'desc'")
    }
    func index(_ name: String) throws(APIError) -> Int? {
      guard let id = query(name) else { return nil }
      guard
        let index = ordered.firstIndex(where: { $0["id"]?.stringValue?.utf8.elementsEqual(id.utf8) ?? false })
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
    let page = isBackwards ? ordered[range].suffix(limit) : ordered[range].prefix(limit)
    return [
      "object": "list", "data": .array(Array(page)), "first_id": page.first?["id"] ?? nil,
      "last_id": page.last?["id"] ?? nil, "has_more": .bool(range.count > limit),
    ]
  }
}
