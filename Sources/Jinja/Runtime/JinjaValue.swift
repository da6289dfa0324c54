// The values of a rendering, with Python's meaning of truth, type and identity.

import JSON

/// A value. Containers are immutable (the reference sandbox forbids their mutating methods; a list that is changed after
/// all is another one); only namespaces change.
enum JinjaValue {
  /// A missing variable, attribute or element; the payload says which, for error messages.
  indirect case undefined(Missing)
  case none
  case bool(Bool)
  case int(Int)
  /// Digits of an integer beyond 64 bits: it can be printed and compared, not computed with.
  case bigInteger(String)
  case double(Double)
  case string(String)
  /// Text marked safe by `safe` or `escape`: `+` escapes what is added to it.
  case markup(String)
  case list(JinjaList)
  case tuple(JinjaList)
  case dict(JinjaDict)
  /// A range or a dictionary view: iterable with a length, but not a list.
  case view(JinjaView)
  /// The result of `map`, `select` and the like: iterable once.
  case generator(JinjaGenerator)
  case namespace(JinjaNamespace)
  case loop(LoopState)
  case function(JinjaFunction)
}

enum Missing {
  case variable(String)
  case attribute(String, of: String)
  case element(String, of: String)

  var words: String {
    switch self {
    case .variable(let name): "'\(name)' is undefined"
    case .attribute(let name, let owner): "'\(owner)' has no attribute '\(name)'"
    case .element(let index, let owner): "\(owner) has no element \(index)"
    }
  }
}

/// Items with the depth of the deepest nesting, so that recursion over values can be bounded in O(1).
final class JinjaList {
  let items: [JinjaValue]
  let depth: Int

  init(_ items: [JinjaValue]) {
    self.items = items
    depth = 1 + items.reduce(0) { max($0, $1.depth) }
  }
}

/// A dictionary in insertion order; keys are any hashable values, equal as Python says (1 == 1.0 == True).
final class JinjaDict {
  private(set) var entries: [(key: JinjaValue, value: JinjaValue)] = []
  private(set) var depth = 1
  /// Places of the string keys; kept only for dictionaries too large for a linear search.
  private var places: [ByteKey: Int] = [:]
  private static let indexedFrom = 9

  init() {}

  init(_ entries: [(key: JinjaValue, value: JinjaValue)]) {
    for entry in entries { insert(entry.key, entry.value) }
  }

  init(_ object: JSONObject) {
    entries.reserveCapacity(object.count)
    for entry in object.entries { append(.string(entry.key), JinjaValue(entry.value)) }
  }

  /// Only while the dictionary is being built.
  func insert(_ key: JinjaValue, _ value: JinjaValue) {
    depth = max(depth, 1 + value.depth)
    if let place = place(of: key) { entries[place].value = value } else { append(key, value) }
  }

  private func append(_ key: JinjaValue, _ value: JinjaValue) {
    depth = max(depth, 1 + value.depth, 1 + key.depth)
    entries.append((key, value))
    guard entries.count >= Self.indexedFrom else { return }
    if entries.count == Self.indexedFrom {
      for (at, entry) in entries.enumerated() {
        if let text = entry.key.text { places[ByteKey(text)] = at }
      }
    } else if let text = key.text {
      places[ByteKey(text)] = entries.count - 1
    }
  }

  subscript(key: String) -> JinjaValue? {
    if entries.count >= Self.indexedFrom { return places[ByteKey(key)].map { entries[$0].value } }
    for entry in entries {
      if case .string(let text) = entry.key, text.utf8.elementsEqual(key.utf8) { return entry.value }
    }
    return nil
  }

  func place(of key: JinjaValue) -> Int? {
    if let text = key.text {
      if entries.count >= Self.indexedFrom { return places[ByteKey(text)] }
      return entries.firstIndex { $0.key.text?.utf8.elementsEqual(text.utf8) ?? false }
    }
    return entries.firstIndex { $0.key.isSameKey(as: key) }
  }
}

final class JinjaView {
  /// How Python prints it: `range(0, 3)`, `dict_keys([...])`.
  let name: String
  let items: [JinjaValue]
  let depth: Int
  /// Whether it can be indexed and printed without its items: ranges.
  let isRange: Bool

  init(name: String, items: [JinjaValue], isRange: Bool = false) {
    (self.name, self.items, self.isRange) = (name, items, isRange)
    depth = 1 + items.reduce(0) { max($0, $1.depth) }
  }
}

final class JinjaGenerator {
  private var items: [JinjaValue]
  let depth: Int

  init(_ items: [JinjaValue]) {
    self.items = items
    depth = 1 + items.reduce(0) { max($0, $1.depth) }
  }

  /// The items; none the second time.
  func take() -> [JinjaValue] {
    let all = items
    items = []
    return all
  }

  /// The next item alone.
  func takeFirst() -> JinjaValue? { items.isEmpty ? nil : items.removeFirst() }
}

final class JinjaNamespace {
  var attributes: [(name: String, value: JinjaValue)] = []

  subscript(name: String) -> JinjaValue? {
    attributes.first { $0.name == name }?.value
  }

  func set(_ name: String, _ value: JinjaValue) {
    if let at = attributes.firstIndex(where: { $0.name == name }) {
      attributes[at].value = value
    } else {
      attributes.append((name, value))
    }
  }
}

/// A callable: a global function, a macro or a method bound to its receiver.
final class JinjaFunction {
  let name: String
  let depth: Int
  let body: Body

  enum Body {
    case global(GlobalFunction)
    case method(MethodFunction, JinjaValue)
    case macro(Macro, Scope)
    case loop(LoopState)
  }

  init(name: String, body: Body) {
    (self.name, self.body) = (name, body)
    if case .method(_, let receiver) = body { depth = 1 + receiver.depth } else { depth = 1 }
  }
}

extension JinjaValue {
  init(_ json: JSONValue) {
    switch json {
    case .null: self = .none
    case .bool(let flag): self = .bool(flag)
    case .int(let value): self = .int(value)
    case .bigInteger(let digits): self = .bigInteger(digits)
    case .double(let value): self = .double(value)
    case .string(let text): self = .string(text)
    case .array(let items): self = .list(JinjaList(items.map(JinjaValue.init)))
    case .object(let object): self = .dict(JinjaDict(object))
    }
  }

  static func list(_ items: [JinjaValue]) -> JinjaValue { .list(JinjaList(items)) }
  static func tuple(_ items: [JinjaValue]) -> JinjaValue { .tuple(JinjaList(items)) }

  /// The text of a string, marked safe or not.
  var text: String? {
    switch self {
    case .string(let text), .markup(let text): text
    default: nil
    }
  }

  var isUndefined: Bool { if case .undefined = self { true } else { false } }
  var isNone: Bool { if case .none = self { true } else { false } }

  /// Levels of containers in this value.
  var depth: Int {
    switch self {
    case .list(let list), .tuple(let list): list.depth
    case .dict(let dict): dict.depth
    case .view(let view): view.depth
    case .generator(let generator): generator.depth
    case .function(let function): function.depth
    default: 0
    }
  }

  /// Python's truth: empty, zero and missing are false.
  var isTrue: Bool {
    switch self {
    case .undefined, .none: false
    case .bool(let flag): flag
    case .int(let value): value != 0
    case .double(let value): value != 0
    case .string(let text), .markup(let text): !text.utf8.isEmpty
    case .list(let list), .tuple(let list): !list.items.isEmpty
    case .dict(let dict): !dict.entries.isEmpty
    case .view(let view): !view.items.isEmpty
    case .bigInteger, .generator, .namespace, .loop, .function: true
    }
  }

  /// An integer, booleans counting as 0 and 1.
  var integer: Int? {
    switch self {
    case .int(let value): value
    case .bool(let flag): flag ? 1 : 0
    default: nil
    }
  }

  /// A number as a double.
  var number: Double? {
    switch self {
    case .double(let value): value
    case .bigInteger(let digits): Double(digits)
    default: integer.map(Double.init)
    }
  }

  /// Python's name of the type.
  var typeName: String {
    switch self {
    case .undefined: "Undefined"
    case .none: "NoneType"
    case .bool: "bool"
    case .int, .bigInteger: "int"
    case .double: "float"
    case .string: "str"
    case .markup: "Markup"
    case .list: "list"
    case .tuple: "tuple"
    case .dict: "dict"
    case .view(let view): view.isRange ? "range" : view.name
    case .generator: "generator"
    case .namespace: "Namespace"
    case .loop: "LoopContext"
    case .function: "function"
    }
  }

  /// Whether two dictionary keys are one; only hashable values are keys.
  func isSameKey(as other: JinjaValue) -> Bool {
    switch (self, other) {
    case (.none, .none): true
    case (.bigInteger(let a), .bigInteger(let b)): a == b
    case (.tuple(let a), .tuple(let b)):
      a.items.count == b.items.count && zip(a.items, b.items).allSatisfy { $0.isSameKey(as: $1) }
    default:
      if let a = text, let b = other.text {
        a.utf8.elementsEqual(b.utf8)
      } else if let a = integer, let b = other.integer {
        a == b
      } else if let a = number, let b = other.number {
        a == b
      } else {
        false
      }
    }
  }

  // MARK: Marked text

  /// The value with its texts marked, which are in it or its elements.
  var marked: JinjaValue {
    switch self {
    case .string(let text): .markup(text)
    case .list(let list): .list(list.items.map(\.marked))
    case .tuple(let list): .tuple(list.items.map(\.marked))
    default: self
    }
  }

  func marked(like other: JinjaValue) -> JinjaValue { if case .markup = other { marked } else { self } }

  /// Escapes the texts that are not marked, in it or its elements.
  mutating func escapeTexts(_ interpreter: Interpreter) throws(JinjaError) {
    switch self {
    case .string(let text):
      self = try interpreter.string(TextOperations.escapedHTML(text)).marked
    case .list(let list), .tuple(let list):
      var items = list.items
      for index in items.indices { try items[index].escapeTexts(interpreter) }
      self = .list(items)
    default: break
    }
  }

  var isHashable: Bool {
    switch self {
    case .list, .dict: false
    case .tuple(let list): list.items.allSatisfy(\.isHashable)
    default: true
    }
  }
}
