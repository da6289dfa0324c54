// Hostile templates: every one ends soon, with a value or an error, on the stack of a connection thread.

import JSON
import Jinja
import Platform
import Support
import Synchronization
import Testing

/// Runs `body` on a thread with the stack of a connection thread, or a smaller one.
func onSmallStack<Result: Sendable>(
  _ bytes: Int = 512 << 10, _ body: @escaping @Sendable () -> Result
) throws -> Result? {
  let cell = Cell<Result>()
  let thread = try Thread(name: "small-stack", stackBytes: bytes) {
    let result = body()
    cell.value.withLock { $0 = result }
  }
  thread.join()
  return cell.value.withLock { $0 }
}

private final class Cell<Value: Sendable>: Sendable {
  let value = Mutex<Value?>(nil)
}

@Suite struct LimitTests {
  private func isLimit(_ error: JinjaError?) -> Bool {
    if case .limit = error { true } else { false }
  }

  @Test(.enabled(if: TestData.shared != nil, "the shared data is not beside the package"))
  func `the hostile corpus ends as listed, each in bounded time`() throws {
    let path = (TestData.shared ?? "") + "/jinja/bad_templates.json"
    let corpus = try #require(JSONValue(parsing: TestData.bytes(path)).arrayValue)
    #expect(corpus.count == 33)
    for entry in corpus {
      let name = try #require(entry["name"]?.stringValue)
      let source = try #require(entry["template"]?.stringValue)
      let start = Instant.now
      let error = try #require(
        onSmallStack { failure(source, ["messages": [["role": "user", "content": "x"]]]) } as JinjaError??)
      // The promise is a second; the machine of the tests may be shared.
      #expect(Instant.now.seconds(since: start) < 5, "\(name)")
      switch entry["expect"]?.stringValue {
      case "ok": #expect(error == nil, "\(name)")
      case "limit", "render-400": #expect(error != nil, "\(name)")
      case "load-error":
        guard case .syntax = error else {
          Issue.record("\(name): \(error.map { "\($0)" } ?? "no error")")
          continue
        }
      default: break
      }
    }
  }

  @Test func `sources nested at the limit parse, and deeper ones are refused at load`() throws {
    let pairs = [
      ("{{ ", "(", "1", ")", " }}"), ("{{ ", "[", "1", "]", " }}"), ("{{ ", "{'a': ", "1", "}", " }}"),
      ("{{ 1", "|default(2", "", ")", " }}"), ("", "{% if true %}", "x", "{% endif %}", ""),
      ("", "{% for i in [1] %}", "x", "{% endfor %}", ""), ("", "{% set x %}", "x", "{% endset %}", ""),
      ("", "{% filter trim %}", "x", "{% endfilter %}", ""),
      ("", "{% with a = 1 %}", "x", "{% endwith %}", ""),
    ]
    for (before, open, core, close, after) in pairs {
      @Sendable func source(_ depth: Int) -> String {
        before + String(repeating: open, count: depth) + core + String(repeating: close, count: depth) + after
      }
      let shallow = try #require(onSmallStack { failure(source(95)) } as JinjaError??)
      #expect(shallow == nil, "\(open)")
      let deep = try #require(onSmallStack { failure(source(101)) } as JinjaError??)
      guard case .syntax = deep else {
        Issue.record("\(open): \(deep.map { "\($0)" } ?? "no error")")
        continue
      }
    }
  }

  @Test func `chains of operators are bounded like nesting`() {
    for link in ["+ 1", "and 1", "or 0", ".a", "[0]", "|upper", "()"] {
      let source = "{{ x" + String(repeating: " " + link, count: 1000) + " }}"
      guard case .syntax(_, let problem) = failure(source) else {
        Issue.record("\(link): no error at load")
        continue
      }
      #expect(problem.contains("100"))
    }
  }

  @Test func `recursion through macros, calls and defaults stays on a small stack`() throws {
    func nest(_ open: String, _ core: String, _ close: String, _ count: Int) -> String {
      String(repeating: open, count: count) + core + String(repeating: close, count: count)
    }
    let bodies = [
      "{{ m() }}",
      "{% for i in [1] %}{% if true %}{% set x %}{{ 1 + (m() ~ [m()]) }}{% endset %}{% endif %}{% endfor %}",
      "{{ " + nest("[", "m()", "]", 80) + " }}",
      "{{ 1" + nest("|default(1 if m() else 2", "", ")", 40) + " }}",
      "{{ " + nest("dict(a=", "m()", ")", 80) + " }}", "{{ " + nest("'a'.join(", "m()", ")", 80) + " }}",
      "{{ " + nest("{1: ", "m()", "}", 80) + " }}", "{{ " + nest("1 < (", "m()", ")", 40) + " }}",
      "{{ " + nest("1 is eq ([1, ", "m()", "])", 30) + " }}", "{% call m() %}{{ caller() }}{% endcall %}",
      "{{ m()" + String(repeating: " + 1", count: 90) + " }}",
      nest("{% for i in [1] if m() %}", "x", "{% endfor %}", 10),
    ]
    for body in bodies {
      let source = "{% macro m(x=1) %}" + body + "{% endmacro %}{{ m() }}"
      let error = try #require(onSmallStack { failure(source) } as JinjaError??)
      #expect(isLimit(error), "\(body): \(error.map { "\($0)" } ?? "no error")")
    }
    let loop = try #require(
      onSmallStack { failure("{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}") } as JinjaError??)
    #expect(isLimit(loop))
  }

  @Test func `values nested or chained without end are stopped and released`() throws {
    let nested = "{% set n = namespace(l=[]) %}{% for i in range(1000) %}{% set n.l = [n.l] %}{% endfor %}"
    #expect(isLimit(try #require(onSmallStack { failure(nested) } as JinjaError??)))
    let chain =
      "{% set n = namespace(l=1) %}{% for i in range(50000) %}{% set n.l = namespace(l=n.l) %}{% endfor %}"
    #expect(try #require(onSmallStack { failure(chain) } as JinjaError??) == nil)
    let laughs =
      "{% set n = namespace(l=['x']) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% endfor %}"
    #expect(isLimit(failure(laughs + "{{ n.l }}")))
    #expect(isLimit(failure(laughs + "{{ n.l|tojson }}")))
    let twins =
      laughs
      + "{% set o = namespace(l=['x']) %}{% for i in range(60) %}{% set o.l = [o.l, o.l] %}{% endfor %}"
    #expect(isLimit(failure(twins + "{{ n.l == o.l }}")))
  }

  @Test func `lists and texts grow to a bound only`() {
    #expect(isLimit(failure("{{ ([1] * 2000000)|length }}")))
    #expect(isLimit(failure("{{ ([1] * 9223372036854775807)|length }}")))
    let double = "{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = n.l + n.l %}{% endfor %}"
    #expect(isLimit(failure(double)))
    let hoard =
      "{% set n = namespace(l=[]) %}{% for i in range(1000) %}{% set n.l = n.l + ['x' * 4000000] %}{% endfor %}"
    #expect(isLimit(failure(hoard)))
  }

  @Test func `the smallest and the largest integers are refused or taken, everywhere`() throws {
    let smallest = "(-9223372036854775807 - 1)"
    #expect(failure("{{ 2 ** \(smallest) }}") != nil)
    #expect(failure("{{ 2.0 ** \(smallest) }}") != nil)
    #expect(failure("{{ \(smallest)|abs }}") != nil)
    #expect(try render("{{ 'a'|center(\(smallest)) }}") == "a")
    #expect(try render("{{ 'a b c'.split(none, 9223372036854775807)|length }}") == "3")
    #expect(try render("{{ 'a b c'.rsplit(none, 9223372036854775807)|length }}") == "3")
    #expect(try render("{{ 'a,b'.split(',', \(smallest))|length }}") == "2")
    #expect(try render("{{ \(smallest) is divisibleby(-1) }}") == "True")
    #expect(failure("{{ \(smallest) // -1 }}") != nil)
    #expect(
      try render("{{ [1][\(smallest):9223372036854775807]|length }}{{ [1][::\(smallest)]|length }}") == "11")
    #expect(try render("{{ 'ab'[\(smallest)] }}{{ [1][\(smallest)] }}") == "")
  }

  @Test(arguments: ["[]", "()", "''", "(''|safe)"])
  func `nothing, many times, is nothing at once`(empty: String) throws {
    for count in ["4611686018427387904", "9223372036854775807"] {
      #expect(try render("{{ (\(empty) * \(count))|length }}{{ (\(count) * \(empty))|length }}") == "00")
    }
  }

  @Test func `limits are settable and name their place`() {
    var limits = JinjaLimits()
    limits.steps = 100
    #expect(
      failure("\n {% for i in [1] %}{{ range(1000) }}{% endfor %}", limits: limits)
        == .limit(at: JinjaPosition(line: 2, column: 28), problem: "more than 100 steps"))
    limits = JinjaLimits()
    limits.outputBytes = 10
    #expect(failure("12345678901", limits: limits)?.description.contains("longer than 10 bytes") == true)
    #expect(failure("1234567890", limits: limits) == nil)
    limits.range = 3
    #expect(failure("{{ range(3)|length }}", limits: limits) == nil)
    #expect(isLimit(failure("{{ range(4)|length }}", limits: limits)))
    limits = JinjaLimits()
    limits.depth = 10
    #expect(
      isLimit(
        failure(
          "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(10) }}", limits: limits)))
    #expect(
      failure("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(9) }}", limits: limits)
        == nil)
  }

  @Test func `mutated templates never crash and always end`() throws {
    var random = SeededGenerator(seed: 20_260_101)
    let lines = try TestData.bytes(TestData.fixtures + "/templates/expressions.jsonl").split(separator: 0x0A)
    let sources = try lines.map { try JSONValue(parsing: Array($0))["template"]?.stringValue ?? "" }
    var limits = JinjaLimits()
    limits.steps = 20_000
    limits.outputBytes = 1 << 16
    var refused = 0
    for _ in 0..<10_000 {
      let source = sources[Int.random(in: 0..<sources.count, using: &random)]
      let text = String(decoding: mutated(Array(source.utf8), using: &random), as: UTF8.self)
      if failure(text, ExpressionTests.variables, limits: limits) != nil { refused += 1 }
    }
    #expect(refused > 1000)
  }
}
