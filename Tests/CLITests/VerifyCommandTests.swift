// `mlxserve verify` on folders that are whole, and on folders with one thing wrong.

import JSON
import Platform
import Server
import Support
import Testing

@testable import CLI
@testable import Inference

@Suite struct VerifyCommandTests {
  private static let demo = TestData.fixtures + "/models/demo"

  private func findings(_ path: String, checksums: Bool = true) -> [Finding] {
    var verification = Verification(EngineConfiguration(modelPath: path, threads: 1), checksums: checksums)
    var reported: [Finding] = []
    verification.run { reported.append($0) }
    #expect(reported == verification.findings)
    return verification.findings
  }

  /// A copy of the demo model without some files and with others of new content.
  private func copy(without missing: [String] = [], with files: [String: [UInt8]] = [:]) throws -> String {
    var template = Array("/tmp/mlxserve-verify-XXXXXX".utf8CString)
    let made = template.withUnsafeMutableBufferPointer { $0.baseAddress.flatMap(mkdtemp) }
    let path = String(cString: try #require(made))
    for name in try File.names(in: Self.demo) where !missing.contains(name) && files[name] == nil {
      symlink(Self.demo + "/" + name, path + "/" + name)
    }
    for (name, bytes) in files { try write(path + "/" + name, bytes) }
    return path
  }

  private func write(_ path: String, _ bytes: [UInt8]) throws {
    let file = try #require(fopen(path, "w"))
    defer { fclose(file) }
    try #require(fwrite(bytes, 1, bytes.count, file) == bytes.count)
  }

  private func remove(_ path: String) {
    for name in (try? File.names(in: path)) ?? [] { unlink(path + "/" + name) }
    rmdir(path)
  }

  @Test func `a whole folder passes every check`() throws {
    let found = findings(Self.demo)
    #expect(!found.contains { $0.status == .failed || $0.status == .skipped }, "\(found)")
    #expect(
      found.map(\.subject).filter { $0 != "unused tensors" } == [
        "files", "checksums", "weights", "tokenizer", "bytes", "end of text", "chat template",
        "sampling", "memory", "fast and exact", "generation",
      ])
    let json = VerifyCommand.json(found, model: "m")
    #expect(json["usable"]?.boolValue == true && json["checks"]?.arrayValue?.count == found.count)
  }

  @Test(
    arguments: [
      ("model.safetensors", "files"), ("config.json", "files"), ("tokenizer.json", "tokenizer"),
    ])
  func `a missing file is named, and what does not need it is checked`(file: String, subject: String) throws {
    let path = try copy(without: [file])
    defer { remove(path) }
    let found = findings(path)
    let failed = found.filter { $0.status == .failed }
    #expect(failed.map(\.subject) == [subject])
    #expect(failed.first?.detail.contains(file == "model.safetensors" ? "safetensors" : file) == true)
    #expect(VerifyCommand.json(found, model: path)["usable"]?.boolValue == false)
    #expect(CommandLineTool.run(["verify", "--json", "--model", path]) == 1)
  }

  @Test func `a changed weight file is found by its digest`() throws {
    let digits = String(repeating: "0", count: 64)
    let path = try copy(with: ["SHA256SUMS": Array("\(digits)  model.safetensors\n".utf8)])
    defer { remove(path) }
    let wrong = findings(path).filter { $0.status == .failed }
    #expect(wrong.map(\.subject) == ["checksums"])
    #expect(wrong.first?.advice?.contains("download") == true)
    #expect(findings(path, checksums: false).contains { $0.status == .failed } == false)
  }

  @Test(
    arguments: [
      ("hidden_size", JSONValue.int(8), "weights"), ("num_hidden_layers", .int(1000), "weights"),
      ("model_type", .string("unheard_of"), "weights"), ("eos_token_id", .int(1 << 30), "end of text"),
    ] as [(String, JSONValue, String)])
  func `a setting that does not fit is named`(key: String, value: JSONValue, subject: String) throws {
    let bytes = try File.read(Self.demo + "/config.json", limit: 1 << 20)
    var config = try #require(JSONValue(parsing: bytes).objectValue)
    config[key] = value
    let path = try copy(
      without: key == "eos_token_id" ? ["generation_config.json"] : [],
      with: ["config.json": Array(JSONValue.object(config).text.utf8)])
    defer { remove(path) }
    let failed = findings(path).filter { $0.status == .failed }
    #expect(failed.map(\.subject).contains(subject), "\(failed)")
  }

  @Test func `the marker that the chat template writes after an answer ends it, whatever the files say`()
    throws
  {
    var settings = try #require(
      JSONValue(parsing: File.read(Self.demo + "/tokenizer_config.json", limit: 1 << 20)).objectValue)
    settings["eos_token"] = "<|endoftext|>"
    var config = try #require(
      JSONValue(parsing: File.read(Self.demo + "/config.json", limit: 1 << 20)).objectValue)
    config["eos_token_id"] = 2039
    let path = try copy(
      without: ["generation_config.json"],
      with: [
        "tokenizer_config.json": Array(JSONValue.object(settings).text.utf8),
        "config.json": Array(JSONValue.object(config).text.utf8),
      ])
    defer { remove(path) }
    let ends = findings(path).first { $0.subject == "end of text" }
    #expect(ends?.status == .ok)
    #expect(ends?.detail == #"2039 "<|endoftext|>", 2041 "<|im_end|>" (the chat template's)"#)
  }

  @Test func `bytes that no token has alone are told`() throws {
    let tokenizer = try JSONValue(parsing: File.read(Self.demo + "/tokenizer.json", limit: 1 << 24))
    var document = try #require(tokenizer.objectValue)
    var model = try #require(document["model"]?.objectValue)
    // The bytes F1 and 04 in the alphabet of byte-level tokens; one of them is left in a longer token.
    let vocabulary = try #require(model["vocab"]?.objectValue).entries.map { key, id in
      (["ñ": "ñññ", "Ą": "<unused>"][key] ?? key, id)
    }
    model["vocab"] = .object(JSONObject(vocabulary))
    document["model"] = .object(model)
    let path = try copy(with: ["tokenizer.json": Array(JSONValue.object(document).text.utf8)])
    defer { remove(path) }
    let found = findings(path).first { $0.subject == "bytes" }
    #expect(found?.status == .note)
    #expect(
      found?.detail
        == "no token has alone the bytes 0x04 0xF1: texts with them are left out of schemas, choices and grammars"
    )
  }

  @Test func `a marker beyond the model's tokens is a note, a word is a fault`() throws {
    let tokenizer = try JSONValue(parsing: File.read(Self.demo + "/tokenizer.json", limit: 1 << 24))
    func status(adding key: String) throws -> Finding.Status? {
      var document = try #require(tokenizer.objectValue)
      if key == "added_tokens" {
        var markers = try #require(document[key]?.arrayValue)
        markers.append(["id": 2048, "content": "<image_soft_token>", "special": true])
        document[key] = .array(markers)
      } else {
        var model = try #require(document["model"]?.objectValue)
        var words = try #require(model["vocab"]?.objectValue)
        words["zzzz"] = 2048
        model["vocab"] = .object(words)
        document["model"] = .object(model)
      }
      let path = try copy(with: ["tokenizer.json": Array(JSONValue.object(document).text.utf8)])
      defer { remove(path) }
      return findings(path).first { $0.subject == "tokenizer" }?.status
    }
    #expect(try status(adding: "added_tokens") == .note)
    #expect(try status(adding: "vocab") == .failed)
  }

  @Test(
    arguments: [
      ("chat_template.jinja", "{% if %}", "chat template"), ("tokenizer.json", "{}", "tokenizer"),
      ("generation_config.json", #"{"temperature": "hot"}"#, "sampling"),
      ("model.safetensors", "version https://git-lfs.github.com/spec/v1\n", "files"),
    ])
  func `a damaged file is named`(file: String, text: String, subject: String) throws {
    let path = try copy(with: [file: Array(text.utf8)])
    defer { remove(path) }
    #expect(findings(path).filter { $0.status == .failed }.map(\.subject).contains(subject))
  }

  @Test(.enabled(if: TestData.shared != nil, "shared test data is absent"))
  func `hostile weight files end in findings`() throws {
    let folder = (TestData.shared ?? "") + "/safetensors"
    for name in try File.names(in: folder) where name.hasSuffix(".safetensors") {
      let path = try copy(without: ["model.safetensors"])
      defer { remove(path) }
      symlink(folder + "/" + name, path + "/model.safetensors")
      let found = findings(path)
      #expect(found.contains { $0.status == .failed }, "\(name)")
      #expect(found.allSatisfy { VerifyCommand.line($0).utf8.count < 3000 }, "\(name)")
    }
  }

  @Test func `a finding is one row, wrapped under its words`() {
    let finding = Finding(
      status: .failed, subject: "files", detail: String(repeating: "word ", count: 20) + "end",
      advice: "download again.")
    let lines = VerifyCommand.line(finding).split(separator: "\n")
    #expect(lines[0].hasPrefix("FAILED  files         word word"))
    #expect(lines.dropFirst().allSatisfy { $0.hasPrefix(String(repeating: " ", count: 22)) })
    #expect(lines.last?.contains("What to do: download again.") == true)
    #expect(lines.allSatisfy { $0.count <= 100 })
  }

  @Test func `a folder that is none is a failure, and no folder a usage error`() {
    #expect(CommandLineTool.run(["verify", "--model", "/nonexistent/folder"]) == 1)
    #expect(CommandLineTool.run(["verify"]) == 2)
  }

  @Test func `stores are checked without a model, and what is damaged is named`() throws {
    var template = Array("/tmp/mlxserve-verify-XXXXXX".utf8CString)
    let made = template.withUnsafeMutableBufferPointer { $0.baseAddress.flatMap(mkdtemp) }
    let state = String(cString: try #require(made))
    defer {
      for folder in ["/responses", "/conversations", ""] { remove(state + folder) }
    }
    var settings = ResponseStore.Settings()
    settings.folder = state
    _ = try ResponseStore(settings)
    func flags(_ names: [String]) throws -> ParsedFlags {
      try ParsedFlags(names, flags: Flags.verify.flags + Flags.evaluatedModel.flags)
    }
    let whole = try VerifyCommand.stored(flags(["--state-dir", state]))
    #expect(whole.map(\.status) == [.ok])
    try write(state + "/responses/resp_1.record", Array("mlxserve-record-2 0\n".utf8))
    let damaged = try VerifyCommand.stored(flags(["--state-dir", state]))
    #expect(damaged.map(\.status) == [.failed, .failed])
    #expect(damaged[0].detail == state + "/responses/resp_1.record: it is damaged")
    #expect(throws: PlatformError.self) {
      try VerifyCommand.stored(flags(["--prefix-cache-dir", "/none/such"]))
    }
  }
}
