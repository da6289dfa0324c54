// Variables: a chain of scopes, innermost first.

/// One scope. `if` opens none; loop rounds, macro calls, captures and `with` do.
///
/// Scopes hold few names, so a linear search over interned IDs beats hashing.
final class Scope {
  private var variables: [(name: NameID, value: JinjaValue)] = []
  let parent: Scope?

  init(parent: Scope?) { self.parent = parent }

  /// The scope of a loop round, which begins with `loop` and the loop's variable.
  init(parent: Scope?, name: NameID, value: JinjaValue) {
    self.parent = parent
    variables.reserveCapacity(2)
    variables.append((name, value))
  }

  func set(_ name: NameID, _ value: JinjaValue) {
    if let at = variables.firstIndex(where: { $0.name == name }) {
      variables[at].value = value
    } else {
      variables.append((name, value))
    }
  }

  func lookup(_ name: NameID) -> JinjaValue? {
    var scope: Scope? = self
    while let current = scope {
      for variable in current.variables where variable.name == name { return variable.value }
      scope = current.parent
    }
    return nil
  }

  /// Gives a variable of this scope or one around it another value; false where there is none.
  func replace(_ name: NameID, _ value: JinjaValue) -> Bool {
    var scope: Scope? = self
    while let current = scope {
      if let at = current.variables.firstIndex(where: { $0.name == name }) {
        current.variables[at].value = value
        return true
      }
      scope = current.parent
    }
    return false
  }

  /// Forgets everything. Macros hold the scope that holds them: the interpreter ends that cycle so.
  func clear() { variables = [] }
}

/// What `loop` is inside a `for`.
final class LoopState {
  /// The elements that are known to have a round.
  var items: [JinjaValue]
  /// What the loop's filter has not judged yet.
  var candidates: ArraySlice<JinjaValue>
  var index = 0
  /// 0 for the outermost call of a recursive loop.
  let level: Int
  /// What `loop(...)` runs again, and the scope around it.
  let statement: Loop
  let outer: Scope
  var lastChanged: JinjaValue?

  init(_ statement: Loop, over values: [JinjaValue], level: Int, outer: Scope) {
    items = statement.filter == nil ? values : []
    candidates = statement.filter == nil ? [] : values[...]
    (self.level, self.statement, self.outer) = (level, statement, outer)
  }
}
