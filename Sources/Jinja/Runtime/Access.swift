// Attributes, elements, slices and iteration.

extension Interpreter {
  @inline(never)
  func attribute(_ expression: Expression) throws(JinjaError) -> JinjaValue {
    guard case .attribute(let base, let name) = expression.kind else { return .none }
    let value = try evaluate(base)
    position = expression.position
    return try attribute(of: value, name)
  }

  /// `value.name`: an attribute or method first, then a key.
  func attribute(of value: JinjaValue, _ name: String) throws(JinjaError) -> JinjaValue {
    if case .undefined(let missing) = value { throw failure(missing.words) }
    if let method = Methods.method(name, of: value) {
      return .function(JinjaFunction(name: name, body: .method(method, value)))
    }
    switch value {
    case .dict(let dict):
      if let found = dict[name] { return found }
    case .namespace(let namespace):
      if let found = namespace[name] { return found }
    case .loop(let state):
      if let found = try loopAttribute(state, name) { return found }
    default: break
    }
    return .undefined(.attribute(name, of: Self.ownerName(value)))
  }

  private static func ownerName(_ value: JinjaValue) -> String {
    switch value {
    case .none: "None"
    default: value.typeName + " object"
    }
  }

  private func loopAttribute(_ state: LoopState, _ name: String) throws(JinjaError) -> JinjaValue? {
    let index = state.index
    func count() throws(JinjaError) -> Int {
      try fill(state)
      return state.items.count
    }
    switch name {
    case "index": return .int(index + 1)
    case "index0": return .int(index)
    case "revindex": return .int(try count() - index)
    case "revindex0": return .int(try count() - index - 1)
    case "first": return .bool(index == 0)
    case "last": return .bool(try !fill(state, upTo: index + 1))
    case "length": return .int(try count())
    case "depth": return .int(state.level + 1)
    case "depth0": return .int(state.level)
    case "previtem": return index > 0 ? state.items[index - 1] : .undefined(.attribute(name, of: "loop"))
    case "nextitem":
      let hasNext = try fill(state, upTo: index + 1)
      return hasNext ? state.items[index + 1] : .undefined(.attribute(name, of: "loop"))
    default: return nil
    }
  }

  @inline(never)
  func item(_ expression: Expression) throws(JinjaError) -> JinjaValue {
    guard case .item(let base, let key) = expression.kind else { return .none }
    let value = try evaluate(base)
    let index = try evaluate(key)
    position = expression.position
    return try item(of: value, index)
  }

  /// `value[key]`: a key or element first, then an attribute.
  func item(of value: JinjaValue, _ key: JinjaValue) throws(JinjaError) -> JinjaValue {
    switch value {
    case .undefined(let missing): throw failure(missing.words)
    case .dict(let dict):
      if let place = dict.place(of: key) { return dict.entries[place].value }
    case .list(let list), .tuple(let list):
      if let index = key.integer { return element(list.items, index, value) }
    case .view(let view) where view.isRange:
      if let index = key.integer { return element(view.items, index, value) }
    case .string(let text), .markup(let text):
      if let index = key.integer {
        try charge(text: text)
        guard let scalar = TextOperations.scalar(of: text, at: index) else {
          return .undefined(.element(String(index), of: Self.ownerName(value)))
        }
        return .string(String(scalar)).marked(like: value)
      }
    default: break
    }
    if let name = key.text { return try attribute(of: value, name) }
    return .undefined(.element(try text(of: key), of: Self.ownerName(value)))
  }

  /// Negative indices count from the end.
  private func element(_ items: [JinjaValue], _ index: Int, _ owner: JinjaValue) -> JinjaValue {
    let at = index < 0 ? items.count.addingReportingOverflow(index).partialValue : index
    guard items.indices.contains(at) else {
      return .undefined(.element(String(index), of: Self.ownerName(owner)))
    }
    return items[at]
  }

  // MARK: Slices

  @inline(never)
  func slice(_ expression: Expression) throws(JinjaError) -> JinjaValue {
    guard case .slice(let base, let bounds) = expression.kind else { return .none }
    let value = try evaluate(base)
    let start = try bound(bounds.start)
    let stop = try bound(bounds.stop)
    let step = try bound(bounds.step) ?? 1
    position = expression.position
    guard step != 0 else { throw failure("slice step cannot be zero") }
    func cut<Element>(_ items: [Element]) throws(JinjaError) -> [Element] {
      try charge(units: items.count / 4)
      return Self.slice(items, start, stop, step)
    }
    switch value {
    case .list(let list): return .list(try cut(list.items))
    case .tuple(let list): return .tuple(try cut(list.items))
    case .view(let view) where view.isRange:
      return .view(JinjaView(name: view.name, items: try cut(view.items), isRange: true))
    case .string(let text), .markup(let text):
      // The common cuts `[1:]` and `[:-1]` need no array of scalars, but the general case is as correct.
      var cutText = String.UnicodeScalarView()
      cutText.append(contentsOf: try cut(Array(text.unicodeScalars)))
      return try string(String(cutText)).marked(like: value)
    case .undefined(let missing): throw failure(missing.words)
    default: throw failure("'\(value.typeName)' object cannot be sliced")
    }
  }

  private func bound(_ expression: Expression?) throws(JinjaError) -> Int? {
    guard let expression else { return nil }
    let value = try evaluate(expression)
    if value.isNone { return nil }
    guard let index = value.integer else { throw failure("slice indices must be integers") }
    return index
  }

  /// Python's slice: bounds are clamped, negative ones count from the end.
  private static func slice<Element>(_ items: [Element], _ start: Int?, _ stop: Int?, _ step: Int)
    -> [Element]
  {
    let count = items.count
    func clamp(_ bound: Int?, _ initial: Int) -> Int {
      guard let bound else { return initial }
      let low = step > 0 ? 0 : -1
      let high = step > 0 ? count : count - 1
      let at = bound < 0 ? bound.addingReportingOverflow(count).partialValue : bound
      return min(max(at, low), high)
    }
    var at = clamp(start, step > 0 ? 0 : count - 1)
    let end = clamp(stop, step > 0 ? count : -1)
    if step == 1 { return at < end ? Array(items[at..<end]) : [] }
    var out: [Element] = []
    while step > 0 ? at < end : at > end {
      out.append(items[at])
      let (next, overflow) = at.addingReportingOverflow(step)
      if overflow { break }
      at = next
    }
    return out
  }

  // MARK: Iteration

  /// The elements of a value, as `for` sees them.
  func iterate(_ value: JinjaValue) throws(JinjaError) -> [JinjaValue] {
    switch value {
    case .undefined: return []
    case .list(let list), .tuple(let list): return list.items
    case .dict(let dict): return dict.entries.map(\.key)
    case .view(let view): return view.items
    case .generator(let generator): return generator.take()
    case .string(let text), .markup(let text):
      try charge(units: text.utf8.count)
      return text.unicodeScalars.map { .string(String($0)) }
    case .loop(let state):
      try fill(state)
      return Array(state.items[state.index...])
    default: throw failure("'\(value.typeName)' object is not iterable")
    }
  }

  /// `len(value)`.
  func length(of value: JinjaValue) throws(JinjaError) -> Int {
    switch value {
    case .undefined: return 0
    case .list(let list), .tuple(let list): return list.items.count
    case .dict(let dict): return dict.entries.count
    case .view(let view): return view.items.count
    case .string(let text), .markup(let text):
      try charge(text: text)
      return TextOperations.scalarCount(text)
    default: throw failure("object of type '\(value.typeName)' has no len()")
    }
  }
}
