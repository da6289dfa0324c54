// `mlxserve verify`: whether a folder can be served or what a server has stored is whole, and what to do if not.

import Inference
import JSON
import Platform
import Server

enum VerifyCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let hasStores = flags.isSet(.stateDir) || flags.isSet(.prefixCacheDir)
    let stores = try stored(flags)
    guard !hasStores || flags.isSet(.model) else { return tell(stores, flags) }
    var configuration = try Loading.engineConfiguration(flags)
    // The check of the model leaves what is saved alone.
    configuration.prefixCacheFolder = nil
    var verification = Verification(configuration, checksums: !flags[.noChecksums])
    let asJSON = flags[.json]
    if !asJSON { Terminal.print("verifying \(Terminal.safe(configuration.modelPath))\n") }
    verification.run { finding in
      if !asJSON { Terminal.print(line(finding)) }
    }
    if asJSON {
      Terminal.print(json(verification.findings + stores, model: configuration.modelPath).text)
    } else {
      Terminal.print(
        "\n" + Paragraph.wrapped(verdict(verification.findings), column: 0, width: Terminal.textWidth))
      for finding in stores { Terminal.print(line(finding)) }
    }
    return (verification.findings + stores).contains { $0.status == .failed } ? 1 : 0
  }

  /// The findings on stores alone.
  private static func tell(_ findings: [Finding], _ flags: ParsedFlags) -> Int32 {
    if flags[.json] {
      Terminal.print(json(findings, model: nil).text)
    } else {
      for finding in findings { Terminal.print(line(finding)) }
    }
    return findings.contains { $0.status == .failed } ? 1 : 0
  }

  /// What the folders hold that a server keeps beyond its process. A server may use them meanwhile.
  static func stored(_ flags: ParsedFlags) throws -> [Finding] {
    var findings: [Finding] = []
    if let folder = flags[.stateDir] {
      findings += found(
        "stored records", try ResponseStore.check(folder: folder),
        advice:
          "the server skips these files and serves the others; restore them from a copy, or delete them.")
      if File.isDirectory(folder + "/library") {
        findings += found(
          "files and vector stores", try Archive.check(folder: folder + "/library"),
          advice:
            "start the server on it: it keeps what is whole, makes again what it can, and says at each file what is lost."
        )
      }
    }
    if let folder = flags[.prefixCacheDir] {
      findings += found(
        "saved prefixes", try PrefixStore.check(folder: folder),
        advice: "nothing: the server deletes them and computes them again.")
    }
    return findings
  }

  /// Faulty files that are told one by one.
  private static let mostFaults = 20

  private static func found(_ subject: String, _ report: FolderReport, advice: String) -> [Finding] {
    guard !report.faults.isEmpty else {
      return [Finding(status: .ok, subject: subject, detail: "\(report.whole) files, all of them whole")]
    }
    let told = report.faults.prefix(mostFaults).map { fault in
      Finding(status: .failed, subject: subject, detail: "\(fault.path): \(fault.problem)")
    }
    let sum = "\(report.faults.count) of \(report.faults.count + report.whole) files are not whole"
    return told + [Finding(status: .failed, subject: subject, detail: sum, advice: advice)]
  }

  /// Where the words of a finding start.
  private static let column = 22

  /// `ok      tokenizer     151 tokens ...`, wrapped with a hanging indent.
  static func line(_ finding: Finding) -> String {
    let head = padded(finding.status.rawValue, 8) + finding.subject
    let width = Terminal.textWidth
    let detail = Paragraph.wrapped(finding.detail, after: head, column: column, width: width)
    guard let advice = finding.advice else { return detail }
    let room = String(repeating: " ", count: column)
    return detail + "\n"
      + Paragraph.wrapped("What to do: " + advice, after: room, column: column, width: width)
  }

  private static func padded(_ text: String, _ count: Int) -> String {
    text + String(repeating: " ", count: max(1, count - text.count))
  }

  static func verdict(_ findings: [Finding]) -> String {
    let failed = findings.filter { $0.status == .failed }.count
    let notes = findings.filter { $0.status == .note }.count
    if failed > 0 { return "This model cannot be served: \(counted(failed, "check")) failed." }
    return notes > 0
      ? "This model can be served; \(counted(notes, "note")) above."
      : "This model can be served; every check passed."
  }

  /// - Parameter model: nil where none was looked at.
  static func json(_ findings: [Finding], model: String?) -> JSONValue {
    let isUsable = !findings.contains { $0.status == .failed }
    return [
      "model": model.map(JSONValue.string) ?? nil, "usable": .bool(isUsable),
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
