// `mlxserve replay`: the requests of a recording, answered again by a server in this process, with their seeds.

import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Server
import Tokenizers

enum ReplayCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let values = try ReceiptFiles.values(try flags.argument("RECEIPT"))
    let lines = values.map { (value: $0, receipts: Receipt.all(in: $0["receipts"] ?? nil)) }.filter {
      !$0.receipts.isEmpty
    }
    guard let first = lines.first?.receipts.first else {
      throw PipelineError.receipt("this is no recording: 'mlxserve serve --record FILE' makes one")
    }
    let (model, engine) = try ReceiptFiles.load(flags, like: first)
    defer { engine.stop() }
    let app = App(model)
    defer { app.finish(seconds: 0) }
    var differing = 0
    for (index, line) in lines.enumerated() {
      let words = try differences(line.value, line.receipts, app, model)
      if !words.isEmpty { differing += 1 }
      let found = words.isEmpty ? "as recorded" : words.joined(separator: "; ")
      let path = line.value["path"]?.stringValue ?? ""
      if flags[.json] {
        let answer: JSONValue = [
          "line": .int(index + 1), "path": .string(path), "is_same": .bool(words.isEmpty),
          "differences": .array(words.map(JSONValue.string)),
        ]
        Terminal.print(answer.text)
      } else {
        ReceiptFiles.tell("\(path): \(found)", after: "\(index + 1).")
      }
    }
    if !flags[.json] {
      Terminal.print(
        "\(counted(lines.count, "request")), \(differing == 0 ? "none" : "\(differing)") different")
    }
    return differing == 0 ? ExitCode.success : ExitCode.checkFailed
  }

  /// What differs when a line is answered again, or where it has no request, when its receipts are checked.
  private static func differences(
    _ line: JSONValue, _ receipts: [Receipt], _ app: App, _ model: LoadedModel
  ) throws -> [String] {
    guard let body = line["request"]?.objectValue, let path = line["path"]?.stringValue else {
      return try receipts.compactMap { try model.check($0) }.filter { !$0.isSame }.map(\.words)
    }
    let request = try Request(
      "POST", path, headers: ["content-type": "application/json"],
      body: JSONValue.object(asked(body, like: receipts[0], path, model.id)).bytes)
    let response = app.respond(to: request, ConnectionContext())
    let answer = (try? JSONValue(parsing: try response.collectedBody())) ?? .null
    let again = Receipt.all(in: answer)
    guard response.status < 400, again.count == receipts.count else {
      let problem = answer["error"]?["message"]?.stringValue ?? answer["error"]?.stringValue
      return ["it is answered with \(response.status): \(problem ?? "\(again.count) receipts")"]
    }
    return zip(receipts, again).flatMap { told($0, $1, model) }
  }

  /// The body with the seed that was drawn for it, and an answer as a whole with a receipt.
  private static func asked(
    _ body: JSONObject, like receipt: Receipt, _ path: String, _ model: String
  ) -> JSONObject {
    var body = body
    body["model"] = .string(model)
    body["receipt"] = true
    body["stream"] = false
    body["background"] = nil
    body["stream_options"] = nil
    guard let seed = receipt.members["settings"]?["seed"] else { return body }
    guard path.hasPrefix("/api/") else {
      body["seed"] = seed
      return body
    }
    var options = body["options"]?.objectValue ?? JSONObject()
    options["seed"] = seed
    body["options"] = .object(options)
    return body
  }

  /// Differences of names and files, and the texts where the answers part.
  private static func told(_ old: Receipt, _ new: Receipt, _ model: LoadedModel) -> [String] {
    let words = old.differences(from: new).filter { !$0.hasPrefix("the model's name") }
    let (a, b) = (old.tokens, new.tokens)
    let index = zip(a, b).prefix { $0 == $1 }.map { _ in 0 }.count
    guard index < max(a.count, b.count) else { return words }
    func text(_ tokens: [Int32]) -> String {
      tokens.indices.contains(index)
        ? "'\(model.tokenizer.decode([tokens[index]], skipSpecialTokens: false))'" : "the end"
    }
    return words + ["\(text(a)) was written, \(text(b)) is now"]
  }
}
