// A page of a list, as OpenAI's clients walk through it.

import HTTP
import JSON
import Wire

extension Request {
  /// Most objects of a page.
  static let listLimit = 100

  /// A page by the query's `after`, `before`, `limit` and `order`; the newest first unless asked otherwise.
  ///
  /// - Parameters:
  ///   - oldestFirst: ids of all objects.
  ///   - isUsuallyAscending: whether the oldest are first unless asked otherwise.
  ///   - object: the object of an index of these, which has an `id`; asked for those of the page.
  func listPage(
    _ oldestFirst: [String], limits: ClosedRange<Int> = 1...listLimit, usual: Int = 20,
    isUsuallyAscending: Bool = false, object: (Int) -> JSONValue
  ) throws(APIError) -> JSONValue {
    let limit = try integerQuery("limit", in: limits) ?? usual
    var ordered = Array(oldestFirst.indices)
    switch query("order") {
    case "desc": ordered.reverse()
    case "asc": break
    case nil: if !isUsuallyAscending { ordered.reverse() }
    default: throw .invalidValue("order", "expected 'asc' or 'desc'")
    }
    let (places, hasMore) = try page(of: ordered.map { oldestFirst[$0] }, limit: limit)
    let page = places.map { object(ordered[$0]) }
    return [
      "object": "list", "data": .array(page), "first_id": page.first?["id"] ?? nil,
      "last_id": page.last?["id"] ?? nil, "has_more": .bool(hasMore),
    ]
  }

  /// The places of a page among `ids`, by two members of the query that name an id, and whether there are more.
  ///
  /// - Parameter cursor: an id that the page comes after, in place of the first of the two.
  func page(
    of ids: [String], limit: Int, after afterName: String = "after", before beforeName: String = "before",
    cursor: String? = nil
  ) throws(APIError) -> (places: Range<Int>, hasMore: Bool) {
    func place(_ name: String, _ cursor: String? = nil) throws(APIError) -> Int? {
      guard let id = cursor ?? query(name) else { return nil }
      guard let place = ids.firstIndex(where: { $0.utf8.elementsEqual(id.utf8) }) else {
        throw .invalidValue(name, "there is no object '\(APIError.shortened(id))' in the list")
      }
      return place
    }
    let after = try place(afterName, cursor)
    let before = try place(beforeName)
    let start = after.map { $0 + 1 } ?? 0
    let range = start..<max(start, before ?? ids.count)
    // Before an object means those just before it.
    let places = after == nil && before != nil ? range.suffix(limit) : range.prefix(limit)
    return (places, range.count > limit)
  }
}
