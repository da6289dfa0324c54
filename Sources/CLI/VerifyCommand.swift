// `mlxserve verify`: whether a folder can be served, what is wrong with it, and what to do.

import Inference
import JSON
import Platform

enum VerifyCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let configuration = try Loading.engineConfiguration(flags)
    var verification = Verification(configuration, checksums: !flags.isSet("no-checksums"))
    let asJSON = flags.isSet("json")
    if !asJSON { Terminal.print("verifying \(configuration.modelPath)\n") }
    verification.run { finding in
      if !asJSON { Terminal.print(line(finding)) }
    }
    if asJSON {
      Terminal.print(json(verification.findings, model: configuration.modelPath).text)
    } else {
      Terminal.print("\n" + verdict(verification.findings))
    }
    return verification.findings.contains { $0.status == .failed } ? 1 : 0
  }

  /// Where the words of a finding start, and how wide they may be.
  private static let (column, width) = (22, 100)

  /// `ok      tokenizer     151 tokens ...`, wrapped with a hanging indent.
  static func line(_ finding: Finding) -> String {
    let head = padded(finding.status.rawValue, 8) + padded(finding.subject, column - 8)
    var lines: [String] = []
    for text in [finding.detail] + (finding.advice.map { ["What to do: " + $0] } ?? []) {
      var line = ""
      for word in text.split(separator: " ", omittingEmptySubsequences: false) {
        if !line.isEmpty, line.count + word.count >= width - column {
          lines.append(line)
          line = ""
        }
        line += (line.isEmpty ? "" : " ") + word
      }
      lines.append(line)
    }
    return head + lines.joined(separator: "\n" + String(repeating: " ", count: column))
  }

  private static func padded(_ text: String, _ count: Int) -> String {
    text + String(repeating: " ", count: max(1, count - text.count))
  }

  static func verdict(_ findings: [Finding]) -> String {
    let failed = findings.filter { $0.status == .failed }.count
    let notes = findings.filter { $0.status == .note }.count
    if failed > 0 { return "This folder cannot be served: \(failed) check\(failed == 1 ? "" : "s") failed." }
    return notes > 0
      ? "This folder can be served; \(notes) note\(notes == 1 ? "" : "s") above."
      : "This folder can be served; every check passed."
  }

  static func json(_ findings: [Finding], model: String) -> JSONValue {
    let isUsable = !findings.contains { $0.status == .failed }
    return [
      "model": .string(model), "usable": .bool(isUsable),
      "checks": .array(
        findings.map { finding in
          [
            "check": .string(finding.subject), "status": .string(finding.status.rawValue),
            "detail": .string(finding.detail), "advice": finding.advice.map(JSONValue.string) ?? nil,
          ]
        }),
    ]
  }
}
