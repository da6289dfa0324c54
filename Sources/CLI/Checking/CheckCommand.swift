// `mlxserve check`: whether answers are what their receipts say, and what differs between two receipts.

import Inference
import JSON
import Pipeline
import Platform

enum CheckCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    guard !flags.arguments.isEmpty else { throw UsageError.missingArgument("RECEIPT") }
    let receipts = try flags.arguments.flatMap { try ReceiptFiles.receipts($0) }
    if flags[.explain] { return try explain(receipts, asJSON: flags[.json]) }
    let (model, engine) = try ReceiptFiles.load(flags, like: receipts.first)
    defer { engine.stop() }
    let media = try flags.texts(.media).map { try File.read($0, limit: AttachedFiles.mediaLimit) }
    var differing = 0
    for (index, receipt) in receipts.enumerated() {
      let head = receipts.count == 1 ? "" : "\(index + 1)."
      let begin = Instant.now
      let passages = media.compactMap { receipt.passage(of: $0, for: model.media) }
      guard var report = try model.check(receipt, media: passages) else { return ExitCode.interrupted }
      let seconds = Instant.now.seconds(since: begin)
      if let key = flags[.signedBy], receipt.isSigned != true || receipt.signer != key {
        report.mismatches.append("it is not signed by \(key)")
      }
      if !report.isSame { differing += 1 }
      if flags[.json] {
        Terminal.print(report.json.text)
      } else {
        let signer = receipt.isSigned == true ? receipt.signer.map { "; signed by \($0)" } ?? "" : ""
        ReceiptFiles.tell(report.words + signer, after: head)
        Terminal.printError(
          Terminal.dimmedError("    \(counted(report.tokens, "token")) in \(fixed(seconds, 2)) s"))
      }
    }
    return differing == 0 ? ExitCode.success : ExitCode.checkFailed
  }

  private static func explain(_ receipts: [Receipt], asJSON: Bool) throws -> Int32 {
    guard receipts.count == 2 else {
      throw UsageError.unusable(
        flag: "explain", reason: "compares 2 receipts, and there are \(receipts.count)")
    }
    let words = receipts[0].differences(from: receipts[1])
    if asJSON {
      Terminal.print(JSONValue.array(words.map(JSONValue.string)).text)
    } else if words.isEmpty {
      Terminal.print("both are of the same answer")
    } else {
      for line in words { ReceiptFiles.tell(line, after: "-") }
    }
    return words.isEmpty ? ExitCode.success : ExitCode.checkFailed
  }
}
