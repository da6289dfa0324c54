// The command line's grammar: flags, values, and what a person is told who typed something else.

import Testing

@testable import CLI

@Suite struct ParsedFlagsTests {
  private let flags = [
    Flag(.model, "DIR", ""),
    Flag(.port, "N", 0...65535, ""),
    Flag(.depth, "N,N", 0...100, ""),
    Flag(.temperature, "T", 0...2, ""),
    Flag(.isa, "NAME", choices: ["avx2", "portable"], ""),
    Flag(.json, ""),
    Flag(.apiKey, "KEY", "", isRepeatable: true),
  ]

  private func parse(_ arguments: String...) throws(UsageError) -> ParsedFlags {
    try ParsedFlags(arguments, flags: flags)
  }

  @Test func `values follow their flag or an equals sign`() throws {
    let parsed = try parse("--model", "a dir", "--port=8080", "--json", "--depth", "0,5,100")
    #expect(parsed[.model] == "a dir")
    #expect(parsed[.port] == 8080)
    #expect(parsed[.json])
    #expect(parsed[.depth] == [0, 5, 100])
    #expect(!parsed.isSet(.isa))
  }

  @Test func `a value may itself contain an equals sign or begin with dashes`() throws {
    #expect(try parse("--model=a=b")[.model] == "a=b")
    #expect(try parse("--model", "--port")[.model] == "--port")
  }

  @Test func `letters stand for the flags that people know`() throws {
    let parsed = try parse("-m", "a", "-p", "8080")
    #expect(parsed[.model] == "a" && parsed[.port] == 8080)
    let prompt = Flag(.prompt, "TEXT", "")
    #expect(try ParsedFlags(["-p", "hi"], flags: flags + [prompt])[.prompt] == "hi")
    #expect(throws: UsageError.missingValue(flag: "model", placeholder: "DIR")) { try parse("-m") }
    #expect(throws: UsageError.unknownFlag("-v", suggestion: nil)) { try parse("-v") }
  }

  @Test func `the first word is the model unless a flag names it`() throws {
    var parsed = try ParsedFlags(["a", "--port", "1", "b"], flags: flags, takesArguments: true)
    parsed.takeModel(several: false)
    #expect(parsed[.model] == "a" && parsed.arguments == ["b"])
    var named = try ParsedFlags(["a", "-m", "c"], flags: flags, takesArguments: true)
    named.takeModel(several: true)
    #expect(named[.model] == "c" && named.arguments == ["a"])
    var several = try ParsedFlags(["a", "b"], flags: flags, takesArguments: true)
    several.takeModel(several: true)
    #expect(several.texts(.model) == ["a", "b"] && several.arguments.isEmpty)
  }

  @Test func `help is a screen, and every flag is in the whole one`() {
    #expect(Help.overview(Command.all, isWhole: false).split(separator: "\n").count <= 40)
    for command in Command.all {
      let usual = Help.text(of: command, isWhole: false)
      #expect(usual.split(separator: "\n").count <= 45, "\(command.name)")
      let whole = Help.text(of: command, isWhole: true)
      for flag in command.flags {
        #expect(whole.contains("  --\(flag.name)"), "\(command.name) \(flag.name)")
      }
      for line in whole.split(separator: "\n") where !line.contains("/") {
        #expect(line.count <= Paragraph.usualWidth, "\(line)")
      }
    }
  }

  @Test func `some flags may be repeated`() throws {
    let parsed = try parse("--api-key", "a", "--json", "--api-key=b")
    #expect(parsed.texts(.apiKey) == ["a", "b"])
    #expect(parsed.texts(.model) == [])
  }

  @Test func `every name of a flag is one of some command, and the other way round`() {
    let names =
      Toggle.allCases.map(\.name) + TextFlag.allCases.map(\.name) + IntegerFlag.allCases.map(\.name)
      + DecimalFlag.allCases.map(\.name) + IntegersFlag.allCases.map(\.name)
    #expect(Set(names).count == names.count)
    #expect(Set(names) == Set(Command.all.flatMap(\.flags).map(\.name)))
    #expect(IntegerFlag.prefixCacheDirSize.name == "prefix-cache-dir-size")
  }

  @Test func `a mistyped flag is answered with the one that was meant`() {
    #expect(throws: UsageError.unknownFlag("--modle", suggestion: "--model")) { try parse("--modle", "x") }
    #expect(throws: UsageError.unknownFlag("-model", suggestion: "--model")) { try parse("-model", "x") }
    #expect(throws: UsageError.unknownFlag("--zzzzzzzz", suggestion: nil)) { try parse("--zzzzzzzz") }
  }

  @Test func `numbers outside their range are refused with the range`() {
    #expect(
      throws: UsageError.badValue(flag: "port", value: "70000", expected: "a whole number from 0 to 65535")
    ) { try parse("--port", "70000") }
    #expect(throws: UsageError.self) { try parse("--port", "8o80") }
    #expect(throws: UsageError.self) { try parse("--port", "") }
    #expect(throws: UsageError.self) { try parse("--temperature", "nan") }
    #expect(throws: UsageError.self) { try parse("--depth", "1,,2") }
    #expect(throws: UsageError.self) { try parse("--isa", "sse") }
  }

  private enum Level: String, CaseIterable { case avx2, avx512 }

  @Test func `a word stands for a case, or is refused with those that there are`() throws {
    func level(_ arguments: String...) throws -> Level? {
      try ParsedFlags(arguments, flags: flags).word(.isa)
    }
    #expect(try level("--isa", "avx2") == .avx2)
    #expect(try level() == nil)
    #expect(throws: UsageError.badValue(flag: "isa", value: "portable", expected: "one of avx2, avx512")) {
      try level("--isa", "portable")
    }
  }

  @Test func `what is missing or too much is named`() {
    #expect(throws: UsageError.missingValue(flag: "model", placeholder: "DIR")) { try parse("--model") }
    #expect(throws: UsageError.unwantedValue(flag: "json")) { try parse("--json=1") }
    #expect(throws: UsageError.repeatedFlag("port")) { try parse("--port", "1", "--port", "2") }
    #expect(throws: UsageError.unexpectedArgument("stray")) { try parse("stray") }
  }

  @Test func `edit distance counts insertions, deletions, substitutions and swaps`() {
    #expect(editDistance("", "abc") == 3)
    #expect(editDistance("kitten", "sitting") == 3)
    #expect(editDistance("bnech", "bench") == 1)
    #expect(suggest(for: "bnech", among: ["serve", "chat", "bench"]) == "bench")
    #expect(suggest(for: "download", among: ["serve", "chat", "bench"]) == nil)
  }

  @Test func `test hooks need a loopback address, and delays the hooks`() {
    #expect(CommandLineTool.run(["--model", "x", "--test-hooks", "--host", "0.0.0.0"]) == 2)
    #expect(CommandLineTool.run(["--model", "x", "--step-delay-ms", "5"]) == 2)
    #expect(CommandLineTool.run(["--model", "/nonexistent/folder", "--test-hooks"]) == 2)
  }

  @Test func `errors leave with 2`() {
    #expect(CommandLineTool.run(["--modle", "x"]) == 2)
    #expect(CommandLineTool.run(["frobnicate"]) == 2)
    #expect(CommandLineTool.run(["serve"]) == 2)
    #expect(CommandLineTool.run(["bench", "--model", "/nonexistent/folder"]) == 2)
    #expect(CommandLineTool.run(["--version"]) == 0)
  }
}

@Suite struct NumberFormatTests {
  @Test func `fixed rounds to the digits asked for`() {
    #expect(fixed(3.14159, 2) == "3.14")
    #expect(fixed(0.05, 1) == "0.1")
    #expect(fixed(-0.001, 1) == "0.0")
    #expect(fixed(-2.25, 2) == "-2.25")
    #expect(fixed(12, 0) == "12")
    #expect(fixed(0.007, 3) == "0.007")
    #expect(fixed(9e15, 0) == "9000000000000000")
  }

  @Test func `numbers too large for their digits are written as they are`() {
    #expect(fixed(9e14, 5) == "900000000000000.0")
    #expect(fixed(-9e14, 5) == "-900000000000000.0")
    #expect(fixed(1e300, 3) == "1e+300")
    #expect(fixed(.infinity, 2) == "inf")
    #expect(fixed(.nan, 2) == "nan")
  }
}
