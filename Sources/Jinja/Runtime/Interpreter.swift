// Walks the syntax tree: statements, scopes, calls and the bounds of a rendering.
//
// Work is counted in units, eight to a step: a call or filter costs a step, a loop round four units, a
// statement two, an expression node one, text one per 16 bytes, other values one per element. So the step
// limit bounds time and memory whatever a template does.

import JSON

final class Interpreter {
  let program: Program
  let limits: JinjaLimits
  /// Places of `raise_exception` that do nothing.
  let passed: Set<JinjaPosition>
  /// Whether lists have `Methods.changes`.
  let changesLists: Bool
  let clock: @Sendable () -> CalendarTime
  /// Where the construct being evaluated stands; errors name it.
  var position = JinjaPosition(line: 1, column: 1)
  var scope = Scope(parent: nil)

  private var output = ""
  private var work = 0
  private let workLimit: Int
  private var calls = 0
  private var frames = 0
  private var globals: [JinjaValue?]
  private var namespaces: [JinjaNamespace] = []
  private var closures: [Scope] = []

  static let unitsPerStep = 8
  static let unitsPerRound = 4
  static let unitsPerStatement = 2
  /// Levels of recursion over tree and macros together. A level takes up to 0.8 KB of stack (measured), and
  /// connection threads have 512 KiB.
  static let maxFrames = 400
  /// Levels of containers in a value; JSON of a request brings up to 128 of its own.
  static let maxNesting = 200
  /// Elements of a list made by `+` or `*`.
  static let maxElements = 1_000_000

  enum Flow {
    case next
    case breakLoop
    case continueLoop
  }

  init(
    program: Program, limits: JinjaLimits, passed: Set<JinjaPosition>, changesLists: Bool,
    clock: @escaping @Sendable () -> CalendarTime
  ) {
    (self.program, self.limits, self.passed) = (program, limits, passed)
    (self.changesLists, self.clock) = (changesLists, clock)
    workLimit = limits.steps.multipliedReportingOverflow(by: Self.unitsPerStep).partialValue
    globals = Array(repeating: nil, count: program.names.count)
  }

  func run(_ variables: JSONObject) throws(JinjaError) -> String {
    for entry in variables.entries {
      if let id = program.symbols[entry.key] { globals[id] = JinjaValue(entry.value) }
    }
    _ = try execute(program.body)
    return output
  }

  /// Namespaces and macros can hold themselves; emptying them lets everything be released, and one by one,
  /// so that a long chain does not overflow the stack.
  func breakCycles() {
    for namespace in namespaces { namespace.attributes = [] }
    for scope in closures { scope.clear() }
  }

  // MARK: Bounds and errors

  @inline(never)
  func failure(_ problem: String) -> JinjaError { .failed(at: position, problem: problem) }

  @inline(never)
  func limitReached(_ problem: String) -> JinjaError { .limit(at: position, problem: problem) }

  @inline(never)
  func charge(units: Int) throws(JinjaError) {
    work += units
    guard work <= workLimit else { throw limitReached("more than \(limits.steps) steps") }
  }

  /// Charges for text that was read or made.
  func charge(text: String) throws(JinjaError) { try charge(units: text.utf8.count / 16) }

  func checkLength(_ bytes: Int) throws(JinjaError) {
    guard bytes <= limits.outputBytes else {
      throw limitReached("text longer than \(limits.outputBytes) bytes")
    }
  }

  /// Charges for a list of `count` elements about to be made.
  func charge(elements count: Int) throws(JinjaError) {
    guard count <= Self.maxElements else {
      throw limitReached("a list of more than \(Self.maxElements) elements")
    }
    try charge(units: count)
  }

  /// A string value, charged and bounded.
  func string(_ text: String) throws(JinjaError) -> JinjaValue {
    try checkLength(text.utf8.count)
    try charge(text: text)
    return .string(text)
  }

  @inline(never)
  func enterFrame() throws(JinjaError) {
    frames += 1
    work += 1
    if frames > Self.maxFrames {
      throw limitReached("nested more than \(Self.maxFrames) levels deep")
    }
    if work > workLimit { throw limitReached("more than \(limits.steps) steps") }
  }

  func leaveFrame() { frames -= 1 }

  // MARK: Output

  @inline(never)
  func emit(_ text: String) throws(JinjaError) {
    try charge(text: text)
    try checkLength(output.utf8.count + text.utf8.count)
    output += text
  }

  /// What `body` writes, in a scope of its own.
  @inline(never)
  func capture(_ body: [Statement]) throws(JinjaError) -> String {
    let outer = output
    output = ""
    let outerScope = scope
    scope = Scope(parent: outerScope)
    defer {
      output = outer
      scope = outerScope
    }
    _ = try execute(body)
    return output
  }

  // MARK: Statements

  @inline(never)
  func execute(_ body: [Statement]) throws(JinjaError) -> Flow {
    try enterFrame()
    defer { leaveFrame() }
    for statement in body {
      try charge(units: Self.unitsPerStatement)
      let flow = try execute(statement)
      if flow != .next { return flow }
    }
    return .next
  }

  @inline(never)
  private func execute(_ statement: Statement) throws(JinjaError) -> Flow {
    switch statement {
    case .text(let text): try emit(text)
    case .output(let expression): try write(expression)
    case .assign(let target, let expression): try runAssignment(target, expression)
    case .capture(let target, let filters, let body): try runCapture(target, filters, body)
    case .conditional(let branches, let otherwise): return try runConditional(branches, otherwise)
    case .loop(let loop): try runLoop(loop)
    case .macro(let macro): define(macro)
    case .callBlock(let block): try runCallBlock(block)
    case .filterBlock(let filters, let body): try runFilterBlock(filters, body)
    case .with(let assignments, let body): return try runWith(assignments, body)
    case .breakLoop: return .breakLoop
    case .continueLoop: return .continueLoop
    }
    return .next
  }

  @inline(never)
  private func write(_ expression: Expression) throws(JinjaError) {
    position = expression.position
    try emit(try text(of: try evaluate(expression)))
  }

  @inline(never)
  private func runAssignment(_ target: Target, _ expression: Expression) throws(JinjaError) {
    try assign(try evaluate(expression), to: target)
  }

  @inline(never)
  private func runFilterBlock(_ filters: [FilterCall], _ body: [Statement]) throws(JinjaError) {
    try emit(try text(of: try apply(filters, to: .string(try capture(body)))))
  }

  @inline(never)
  private func runCapture(_ target: Target, _ filters: [FilterCall], _ body: [Statement]) throws(JinjaError) {
    let value = try apply(filters, to: .string(try capture(body)))
    try assign(value, to: target)
  }

  @inline(never)
  private func runConditional(
    _ branches: [ConditionalBranch], _ otherwise: [Statement]
  ) throws(JinjaError) -> Flow {
    for branch in branches where try evaluate(branch.test).isTrue { return try execute(branch.body) }
    return otherwise.isEmpty ? .next : try execute(otherwise)
  }

  @inline(never)
  private func runWith(_ assignments: [(Target, Expression)], _ body: [Statement]) throws(JinjaError) -> Flow
  {
    let outer = scope
    // Values see the outer scope: one assignment does not see another.
    var values: [JinjaValue] = []
    for (_, expression) in assignments { values.append(try evaluate(expression)) }
    scope = Scope(parent: outer)
    defer { scope = outer }
    for ((target, _), value) in zip(assignments, values) { try assign(value, to: target) }
    return try execute(body)
  }

  private func apply(_ filters: [FilterCall], to value: JinjaValue) throws(JinjaError) -> JinjaValue {
    var result = value
    for filter in filters { result = try apply(filter, to: result) }
    return result
  }

  @inline(never)
  private func assign(_ value: JinjaValue, to target: Target) throws(JinjaError) {
    switch target {
    case .name(let name): scope.set(name, value)
    case .attribute(let name, let attribute, let at):
      position = at
      guard case .namespace(let namespace) = lookup(name) else {
        throw failure("cannot set attribute '\(attribute)': '\(program.names[name])' is not a namespace")
      }
      namespace.set(attribute, value)
    case .tuple(let targets, let at):
      position = at
      let items = try iterate(value)
      guard items.count == targets.count else {
        throw failure("cannot unpack \(items.count) values into \(targets.count) variables")
      }
      for (inner, item) in zip(targets, items) { try assign(item, to: inner) }
    }
  }

  /// Puts a list that has changed where it was found: under a name, or in a namespace. Others are copies.
  func replace(_ expression: Expression, with list: JinjaValue) {
    switch expression.kind {
    case .name(let name): if !scope.replace(name, list) { globals[name] = list }
    case .attribute(let base, let attribute):
      guard case .name(let name) = base.kind, case .namespace(let namespace) = lookup(name) else { return }
      namespace.set(attribute, list)
    default: break
    }
  }

  func makeNamespace() throws(JinjaError) -> JinjaNamespace {
    try charge(units: Self.unitsPerStep)
    let namespace = JinjaNamespace()
    namespaces.append(namespace)
    return namespace
  }

  @inline(never)
  func lookup(_ name: NameID) -> JinjaValue {
    if let value = scope.lookup(name) ?? globals[name] { return value }
    let word = program.names[name]
    if let function = Globals.table[word] {
      return .function(JinjaFunction(name: word, body: .global(function)))
    }
    return .undefined(.variable(word))
  }

  // MARK: Loops

  @inline(never)
  private func runLoop(_ loop: Loop) throws(JinjaError) {
    try runLoop(loop, over: try evaluate(loop.sequence), level: 0)
  }

  /// Runs a `for` statement over the elements of `value`, each round in a fresh scope.
  @inline(never)
  func runLoop(_ loop: Loop, over value: JinjaValue, level: Int) throws(JinjaError) {
    position = loop.position
    let outer = scope
    defer { scope = outer }
    // As in jinja2, `else` is for loops of which no round came to its end.
    var isOtherwise = true
    let state = LoopState(loop, over: try iterate(value), level: level, outer: outer)
    var next = 0
    while try fill(state, upTo: next) {
      try charge(units: Self.unitsPerRound)
      state.index = next
      next += 1
      scope = Scope(parent: outer, name: program.implicit.loop, value: .loop(state))
      try assign(state.items[state.index], to: loop.target)
      let flow = try execute(loop.body)
      if flow == .next { isOtherwise = false }
      if flow == .breakLoop { break }
    }
    guard isOtherwise else { return }
    scope = Scope(parent: outer)
    _ = try execute(loop.otherwise)
  }

  /// Finds the loop's elements as far as `index`, or all of them; false when there is none at `index`.
  ///
  /// As in jinja2, the filter judges an element when it is needed: it sees what earlier rounds have changed.
  @discardableResult
  func fill(_ state: LoopState, upTo index: Int = .max) throws(JinjaError) -> Bool {
    guard let filter = state.statement.filter else { return index < state.items.count }
    let inner = scope
    defer { scope = inner }
    while index >= state.items.count, let item = state.candidates.popFirst() {
      try charge(units: Self.unitsPerRound)
      scope = Scope(parent: state.outer)
      try assign(item, to: state.statement.target)
      if try evaluate(filter).isTrue { state.items.append(item) }
    }
    return index < state.items.count
  }

  /// `loop(items)` in a recursive loop: its text.
  func recurse(_ state: LoopState, _ value: JinjaValue) throws(JinjaError) -> JinjaValue {
    guard state.statement.isRecursive else {
      throw failure("'loop' is callable in recursive loops only")
    }
    return try called { () throws(JinjaError) in
      let outer = output
      let outerScope = scope
      output = ""
      scope = state.outer
      defer {
        output = outer
        scope = outerScope
      }
      try runLoop(state.statement, over: value, level: state.level + 1)
      return .string(output)
    }
  }

  // MARK: Macros

  @inline(never)
  private func define(_ macro: Macro) {
    closures.append(scope)
    scope.set(macro.id, .function(JinjaFunction(name: macro.name, body: .macro(macro, scope))))
  }

  @inline(never)
  private func runCallBlock(_ block: CallBlock) throws(JinjaError) {
    position = block.position
    let callee = try evaluate(block.callee)
    var arguments = try evaluate(block.arguments)
    let caller = JinjaFunction(name: "caller", body: .macro(block.caller, scope))
    arguments.named.append(("caller", .function(caller)))
    position = block.position
    try emit(try text(of: try call(callee, arguments)))
  }

  /// One level of macro recursion.
  @inline(never)
  private func called(
    _ body: () throws(JinjaError) -> JinjaValue
  ) throws(JinjaError) -> JinjaValue {
    guard calls < limits.depth else {
      throw limitReached("macros nested more than \(limits.depth) calls deep")
    }
    calls += 1
    defer { calls -= 1 }
    return try body()
  }

  @inline(never)
  func call(_ macro: Macro, in definition: Scope, _ arguments: Arguments) throws(JinjaError) -> JinjaValue {
    try called { () throws(JinjaError) in
      let outer = scope
      scope = Scope(parent: definition)
      defer { scope = outer }
      try bindParameters(of: macro, arguments, evaluatedIn: scope)
      return .string(try capture(macro.body))
    }
  }

  @inline(never)
  private func bindParameters(
    of macro: Macro, _ arguments: Arguments, evaluatedIn inner: Scope
  ) throws(JinjaError) {
    var named = arguments.named
    for (index, parameter) in macro.parameters.enumerated() {
      var value: JinjaValue?
      if index < arguments.positional.count { value = arguments.positional[index] }
      if let at = named.firstIndex(where: { $0.name == parameter.name }) {
        guard value == nil else { throw failure("\(macro.name)() got two values for '\(parameter.name)'") }
        value = named.remove(at: at).value
      }
      if value == nil, let initial = parameter.initial { value = try evaluate(initial) }
      inner.set(parameter.id, value ?? .undefined(.variable(parameter.name)))
    }
    if let at = named.firstIndex(where: { $0.name == "caller" }) {
      inner.set(program.implicit.caller, named.remove(at: at).value)
    }
    let surplus = arguments.positional.dropFirst(macro.parameters.count)
    if macro.takesVarargs {
      inner.set(program.implicit.varargs, .tuple(Array(surplus)))
    } else if !surplus.isEmpty {
      throw failure("\(macro.name)() takes at most \(macro.parameters.count) arguments")
    }
    if macro.takesKwargs {
      inner.set(program.implicit.kwargs, .dict(JinjaDict(named.map { (.string($0.name), $0.value) })))
    } else if let unknown = named.first {
      throw failure("\(macro.name)() has no parameter '\(unknown.name)'")
    }
  }
}
