// Filters over the attributes of files: comparisons, joined by `and` and `or`.

package import JSON

/// A filter of `filters` in a search.
package indirect enum AttributeFilter: Sendable, Equatable {
  case compare(Comparison, key: String, value: JSONValue)
  case all([AttributeFilter])
  case any([AttributeFilter])

  /// The operators of a comparison.
  package enum Comparison: String, Sendable, CaseIterable {
    case eq, ne, gt, gte, lt, lte
    case isIn = "in"
    case notIn = "nin"
  }

  private static let depth = 8
  private static let nodes = 64

  /// - Parameter name: the path of the filter, for errors.
  /// - Throws: 400 with the path of what is wrong.
  package init(_ value: JSONValue, name: String = "filters") throws(APIError) {
    var left = Self.nodes
    self = try Self.read(value, name, depth: 1, &left)
  }

  private static func read(
    _ value: JSONValue, _ name: String, depth: Int, _ left: inout Int
  ) throws(APIError) -> AttributeFilter {
    left -= 1
    guard left >= 0 else {
      throw .invalidValue("filters", "there are more than \(nodes) comparisons and groups")
    }
    guard depth <= Self.depth else {
      throw .invalidValue(name, "filters are nested more than \(Self.depth) deep")
    }
    var fields = try Fields(value, path: name)
    let kinds = Comparison.allCases.map(\.rawValue) + ["and", "or"]
    guard let kind = try fields.word("type", of: kinds) else { throw .missing("\(name).type") }
    if kind == "and" || kind == "or" {
      let inner = try fields.required("filters")
      guard let list = inner.arrayValue else {
        throw .wrongType("\(name).filters", expected: "an array", found: inner)
      }
      guard !list.isEmpty else { throw .invalidValue("\(name).filters", "it is empty") }
      var filters: [AttributeFilter] = []
      for (index, element) in list.enumerated() {
        filters.append(try read(element, "\(name).filters[\(index)]", depth: depth + 1, &left))
      }
      return kind == "and" ? .all(filters) : .any(filters)
    }
    let key = try fields.requiredString("key")
    let operand = try fields.required("value")
    let comparison = Comparison(rawValue: kind) ?? .eq
    if comparison == .isIn || comparison == .notIn {
      guard let list = operand.arrayValue else {
        throw .wrongType("\(name).value", expected: "an array", found: operand)
      }
      guard list.count <= 1_000 else {
        throw .invalidValue("\(name).value", "it has more than 1000 elements")
      }
      for (index, element) in list.enumerated() where !isScalar(element) {
        throw .wrongType("\(name).value[\(index)]", expected: "a string, number or boolean", found: element)
      }
    } else if !isScalar(operand) {
      throw .wrongType("\(name).value", expected: "a string, number or boolean", found: operand)
    }
    return .compare(comparison, key: key, value: operand)
  }

  private static func isScalar(_ value: JSONValue) -> Bool {
    value.stringValue != nil || value.boolValue != nil || value.doubleValue != nil
  }

  /// Whether attributes pass. A comparison with an attribute that is not there is false, except `ne` and `nin`; so is one of
  /// different types.
  package func accepts(_ attributes: JSONObject) -> Bool {
    switch self {
    case .all(let filters): return filters.allSatisfy { $0.accepts(attributes) }
    case .any(let filters): return filters.contains { $0.accepts(attributes) }
    case .compare(let comparison, let key, let value):
      let own = attributes[key]
      switch comparison {
      case .ne: return own.map { !Self.equal($0, value) } ?? true
      case .notIn:
        return own.map { own in !(value.arrayValue ?? []).contains { Self.equal(own, $0) } } ?? true
      case .eq: return own.map { Self.equal($0, value) } ?? false
      case .isIn: return own.map { own in (value.arrayValue ?? []).contains { Self.equal(own, $0) } } ?? false
      case .gt: return own.flatMap { Self.less(value, $0) } ?? false
      case .lt: return own.flatMap { Self.less($0, value) } ?? false
      case .gte: return own.map { Self.less(value, $0) == true || Self.equal($0, value) } ?? false
      case .lte: return own.map { Self.less($0, value) == true || Self.equal($0, value) } ?? false
      }
    }
  }

  private static func equal(_ a: JSONValue, _ b: JSONValue) -> Bool {
    if let x = a.stringValue, let y = b.stringValue { return x.utf8.elementsEqual(y.utf8) }
    if let x = a.boolValue, let y = b.boolValue { return x == y }
    if let x = a.doubleValue, let y = b.doubleValue { return x == y }
    return false
  }

  /// Nil for values that have no order. Strings are ordered by their scalars, as their UTF-8 is.
  private static func less(_ a: JSONValue, _ b: JSONValue) -> Bool? {
    if let x = a.stringValue, let y = b.stringValue { return x.utf8.lexicographicallyPrecedes(y.utf8) }
    if let x = a.doubleValue, let y = b.doubleValue { return x < y }
    return nil
  }
}
