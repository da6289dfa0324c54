// Where errors point and what they say.

import JSON
import Jinja
import Testing

@Suite struct ErrorTests {
  @Test func `unknown filters, tests, functions and tags are load errors with line and column`() {
    let cases: [(source: String, line: Int, column: Int, problem: String)] = [
      ("a\n  {{ x|nope }}", 2, 8, "unknown filter 'nope'"),
      ("{{ x is fish }}", 1, 9, "unknown test 'fish'"),
      ("{% if false %}\n\n{{ é ~ nope(1) }}{% endif %}", 3, 4, "unexpected character"),
      ("{% if false %}\n\n{{ 'é' ~ nope(1) }}{% endif %}", 3, 10, "unknown function 'nope'"),
      ("{% include 'x' %}", 1, 4, "unknown or misplaced tag 'include'"),
      ("{{ l|map('nope')|list }}", 1, 9, "unknown filter 'nope'"),
      ("{{ l|selectattr('a', 'nope')|list }}", 1, 16, "unknown test 'nope'"),
    ]
    for (source, line, column, problem) in cases {
      #expect(
        throws: JinjaError.syntax(at: JinjaPosition(line: line, column: column), problem: problem),
        "\(source)"
      ) { try JinjaTemplate(source: source) }
    }
  }

  @Test func `a block that is not closed is reported with what closes it`() {
    #expect(
      failure("{% if x %}{% endif %}\n{% if x %}\ntext")
        == .syntax(
          at: JinjaPosition(line: 2, column: 4),
          problem: "the block is not closed: expected elif or else or endif"))
  }

  @Test func `raise_exception carries the template's words`() {
    #expect(failure("\n{{ raise_exception('boom ' ~ 1) }}")?.description == "boom 1")
    #expect(
      failure("\n{{ raise_exception('boom') }}")
        == .raised(at: JinjaPosition(line: 2, column: 19), message: "boom"))
  }

  @Test func `runtime errors name the place of the operation`() {
    #expect(
      failure("line\n{{ messages[0].role.x.y }}", ["messages": [["role": "user"]]])?.description
        == "chat template failed at line 2, column 22: 'str object' has no attribute 'x'")
    #expect(
      failure("{{ 'a' + 1 }}")?.description
        == "chat template failed at line 1, column 8: can only concatenate str (not \"int\") to str")
  }

  @Test func `from_json loads, as published templates use it, and fails where it is reached`() throws {
    #expect(try render("{% if false %}{{ x|from_json }}{% endif %}ok") == "ok")
    #expect(failure("{{ '{}'|from_json }}")?.description.contains("No filter named 'from_json'") == true)
  }

  @Test func `text of the data is never read as template`() throws {
    #expect(try render("{{ x }}", ["x": "{{ 7*7 }}{% for %}{#"]) == "{{ 7*7 }}{% for %}{#")
  }

  @Test func `strftime_now formats the injected time`() throws {
    #expect(
      try render("{{ strftime_now('%d %b %Y, %A %H:%M:%S %j %U %p %y %-d/%-m %% %q') }}")
        == "02 Jan 2025, Thursday 03:04:05 002 00 AM 25 2/1 % %q")
  }

  @Test func `the calendar knows leap years, negative times and offsets`() {
    func text(_ seconds: Int, _ offset: Int = 0) -> String {
      CalendarTime(secondsSince1970: seconds, utcOffset: offset).formatted("%F %T %a %j %z")
    }
    #expect(text(0) == "1970-01-01 00:00:00 Thu 001 +0000")
    #expect(text(-1) == "1969-12-31 23:59:59 Wed 365 +0000")
    #expect(text(951_782_400) == "2000-02-29 00:00:00 Tue 060 +0000")
    #expect(text(1_709_251_199) == "2024-02-29 23:59:59 Thu 060 +0000")
    #expect(text(1_735_689_599, 3600) == "2025-01-01 00:59:59 Wed 001 +0100")
    #expect(text(1_735_689_600, -19_800) == "2024-12-31 18:30:00 Tue 366 -0530")
    #expect(text(.max).hasPrefix("9999-12-31") && text(.min).hasPrefix("1-01-01"))
  }
}
