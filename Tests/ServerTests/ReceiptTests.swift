// Receipts of the demo's answers: answers of random settings check, receipts that were tampered with do not.

import Compute
import HTTP
import Inference
import JSON
import Platform
import Support
import Testing
import Wire

@testable import Pipeline
@testable import Server

/// How many answers; `make receipts-test` takes ten thousand.
private let answerCount = getenv("MLXSERVE_RECEIPTS").flatMap { Int(String(cString: $0)) } ?? 150

@Suite struct ReceiptTests {
  // MARK: Random settings

  @Test func `answers of random settings check, and tampered receipts do not`() throws {
    let demo = try Demo()
    defer { demo.engine.stop() }
    let next = Monitor(0)
    let found = Monitor([Receipt]())
    // Many clients at a time, so that steps hold rows of up to 32 answers.
    let clients = try (0..<32).map { _ in
      try Thread(name: "client") {
        while case let index = next.update({ index in
          index += 1
          return index
        }), index <= answerCount {
          var random = SeededGenerator(seed: UInt64(index))
          let (path, body) = Ask.random(using: &random)
          let answer = try? demo.app.send("POST", path, body: body.text)
          let receipts = answer.map { Receipt.all(in: $0.json) } ?? []
          if receipts.isEmpty { Issue.record("\(answer?.text ?? "no answer"): \(body.text)") }
          found.update { $0 += receipts }
        }
      }
    }
    for client in clients { client.join() }
    let receipts = found.withLock { $0 }
    #expect(receipts.count >= answerCount)
    var random = SeededGenerator(seed: 77)
    for receipt in receipts {
      let report = try #require(try demo.model.check(receipt))
      #expect(report.isSame, "\(report.words): \(receipt.json.text)")
      let (tampered, what) = Tampering.change(receipt, using: &random)
      let refused = try demo.model.check(tampered)
      #expect(refused?.isSame == false, "\(what): \(tampered.json.text)")
      // Whoever makes the digest anew is found out by what the model takes.
      guard case (var sealed, let what)? = Tampering.changeOfAnswer(receipt, using: &random) else { continue }
      sealed.seal(nil)
      let found = try demo.model.check(sealed)
      #expect(sealed.isIntact && found?.isSame == false, "\(what): \(sealed.json.text)")
      if what == "a token" { #expect(found?.difference != nil) }
    }
  }

  @Test func `a byte of the weights, another template or tokenizer are told`() throws {
    let demo = try Demo()
    defer { demo.engine.stop() }
    let receipt = try demo.receipt(["prompt": "The capital of", "max_tokens": 12, "seed": 3])
    for (file, words) in [
      ("model.safetensors", "the digest of the weights differs"),
      ("chat_template.jinja", "the digest of the chat template differs"),
      ("tokenizer.json", "the digest of the tokenizer differs"),
      ("config.json", "the digest of the config.json differs"),
    ] {
      let other = try Demo(changing: file)
      defer { other.engine.stop() }
      let report = try #require(try other.model.check(receipt))
      #expect(report.mismatches.contains(words), "\(file): \(report.words)")
      #expect(!report.isSame)
    }
  }

  @Test func `the exact mode and another cache are told`() throws {
    let demo = try Demo()
    defer { demo.engine.stop() }
    let receipt = try demo.receipt(["prompt": "The capital of", "max_tokens": 12, "seed": 3])
    let other = try Demo { $0.computeMode = .exact }
    defer { other.engine.stop() }
    let report = try #require(try other.model.check(receipt))
    guard demo.engine.computeMode == .fast else { return }
    #expect(
      report.mismatches.contains { $0.hasPrefix("the arithmetic is int8-1 there and exact-1") },
      "\(report.words)")
    #expect(report.mismatches.contains("the type of the cache is q16 there and f32 here"))
    #expect(report.difference != nil || report.probabilitiesDiffer)
  }

  // MARK: Words

  @Test func `the first token that differs is told with both probabilities`() throws {
    let demo = try Demo()
    defer { demo.engine.stop() }
    var receipt = try demo.receipt(["prompt": "The capital of France is", "max_tokens": 12, "temperature": 0])
    var tokens = receipt.tokens
    let taken = tokens[5]
    tokens[5] = (tokens[5] + 1) % 2000
    receipt.members["answer"] = .array(tokens.map { .int(Int($0)) })
    let report = try #require(try demo.model.check(receipt))
    let difference = try #require(report.difference)
    #expect(difference.index == 5 && difference.written == tokens[5] && difference.taken == taken)
    let (written, likely) = (
      try #require(difference.writtenProbability), try #require(difference.takenProbability)
    )
    #expect(written < likely && likely <= 1)
    #expect(report.words.hasPrefix("differs at token 6: '"))
    #expect(report.words.contains("is what this model takes (probability 0."))
    #expect(report.words.hasSuffix("its own digest differs: it was changed after it was made"))
  }

  @Test func `two receipts are told apart in words`() throws {
    let demo = try Demo()
    defer { demo.engine.stop() }
    let one = try demo.receipt(["prompt": "The capital of", "max_tokens": 12, "seed": 3])
    let words = try demo.receipt([
      "prompt": "The capital of", "max_tokens": 12, "seed": 4, "temperature": 0.5,
    ])
    .differences(from: one)
    #expect(words.contains("the setting seed is 4 and 3"))
    #expect(words.contains("the setting temperature is 0.5 and 0.0"))
    #expect(one.differences(from: one).isEmpty)
    #expect(one.differences(from: one.withoutTexts).isEmpty)
  }

  // MARK: Forms and wires

  @Test func `without texts a receipt has the digest of the whole one`() throws {
    let demo = try Demo()
    defer { demo.engine.stop() }
    let (whole, bare) = (
      try demo.receipt(["prompt": "The capital of", "max_tokens": 12, "seed": 3, "stop": ["zzz"]]),
      try demo.receipt([
        "prompt": "The capital of", "max_tokens": 12, "seed": 3, "stop": ["zzz"], "receipt": "digest",
      ])
    )
    #expect(whole.isIntact && bare.isIntact && whole.hasTexts && !bare.hasTexts)
    #expect(whole.members["digest"] == bare.members["digest"])
    #expect(whole.withoutTexts.json == bare.json)
    #expect(!bare.json.text.contains("zzz") && bare.members["answer"]?["count"] == 12)
    #expect(throws: PipelineError.self) { _ = try demo.model.check(bare) }
  }

  @Test func `a key signs both forms, and a change breaks it`() throws {
    let key = try #require(Ed25519(seed: [UInt8](repeating: 7, count: 32)))
    let demo = try Demo { _ in
    } settings: {
      $0.receiptKey = key
    }
    defer { demo.engine.stop() }
    var receipt = try demo.receipt(["prompt": "The", "max_tokens": 3, "seed": 3])
    #expect(receipt.isSigned == true && receipt.signer == Base64.encode(key.publicKey))
    #expect(receipt.withoutTexts.isSigned == true)
    #expect(try demo.model.check(receipt)?.isSame == true)
    receipt.members["mlxserve"] = "9.9"
    #expect(receipt.isSigned == false)
  }

  @Test(arguments: Ask.wires)
  func `every wire has the receipt, whole and streamed, and it checks`(path: String, body: String) throws {
    let demo = try Demo()
    defer { demo.engine.stop() }
    let asked = #"{"model":"demo","receipt":true,\#(body)"#
    let whole = try demo.app.send("POST", path, body: asked + #","stream":false}"#)
    let streamed = try demo.app.send("POST", path, body: asked + #","stream":true}"#)
    let first = Receipt.all(in: whole.json)
    let lines = streamed.text.split(separator: "\n").map {
      $0.hasPrefix("data: ") ? String($0.dropFirst(6)) : String($0)
    }
    let second = lines.flatMap { Receipt.all(in: (try? JSONValue(parsing: $0)) ?? .null) }
    try #require(first.count == 1 && second.count == 1, "\(whole.text)\n\(streamed.text)")
    #expect(first[0].differences(from: second[0]).isEmpty)
    #expect(try demo.model.check(first[0])?.words.hasPrefix("all ") == true)
    let plain = try demo.app.send("POST", path, body: #"{"model":"demo",\#(body),"stream":false}"#)
    #expect(plain.status == 200 && !plain.text.contains("receipt"))
    let verified = try demo.app.send(
      "POST", "/v1/receipts/verify", body: asking(first[0].json))
    #expect(verified.json["is_same"] == true, "\(verified.text)")
  }

  @Test func `stored answers keep their receipts`() throws {
    let demo = try Demo()
    defer { demo.engine.stop() }
    for (path, body) in [
      ("/v1/responses", #""input":"Hi","max_output_tokens":4"#),
      ("/v1/chat/completions", #""messages":[{"role":"user","content":"Hi"}],"max_tokens":4"#),
    ] {
      let answer = try demo.app.send(
        "POST", path, body: #"{"model":"demo","store":true,"receipt":true,\#(body)}"#)
      let id = try #require(answer.json["id"]?.stringValue)
      let kept = Receipt.all(in: try demo.app.send("GET", path + "/" + id).json)
      #expect(kept.count == 1 && kept[0].json == Receipt.all(in: answer.json)[0].json)
    }
  }

  @Test func `what is no receipt, or has tokens that no model has, is refused`() throws {
    let demo = try Demo()
    defer { demo.engine.stop() }
    let receipt = try demo.receipt(["prompt": "The", "max_tokens": 3, "seed": 3])
    func verify(_ value: JSONValue) throws -> String {
      try demo.app.send("POST", "/v1/receipts/verify", body: asking(value)).refusal
    }
    #expect(try verify(["a": 1]) == "400 invalid_value receipt")
    #expect(try verify(["receipt": 2]) == "400 invalid_value receipt")
    for (name, value) in [
      ("prompt", [-1]), ("prompt", [1_099_511_627_776]), ("prompt", "x"), ("answer", [999_999]),
      ("rules", ["allowed": [2_147_483_647]]),
      ("rules", ["banned": [[-4]]]), ("rules", ["pattern": ["repeated": ["literal": "a"], "min": -1]]),
      ("rules", ["pattern": ["token": -1]]), ("rules", ["pattern": ["schema": ["type": "nothing"]]]),
      ("rules", ["reasoning": ["open": ""]]), ("settings", [:]), ("settings", ["max_tokens": 0]),
      ("settings", ["max_tokens": 3, "temperature": -1]), ("settings", ["max_tokens": 3, "order": ["x"]]),
    ] as [(String, JSONValue)] {
      var broken = receipt
      broken.members[name] = value
      #expect(try verify(broken.json).hasPrefix("400 "), "\(name) \(value.text)")
    }
  }

  @Test func `a recording is lines with requests and receipts, and no texts where receipts have none`() throws
  {
    for keepsTexts in [true, false] {
      var path = Array("/tmp/mlxserve-recording-XXXXXX".utf8CString)
      close(mkstemp(&path))
      let file = String(decoding: path.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
      defer { unlink(file) }
      let recorder = try Recorder(path: file, keepsTexts: keepsTexts)
      let demo = try Demo { _ in
      } settings: {
        ($0.recorder, $0.receipts) = (recorder, keepsTexts ? .full : .digest)
      }
      defer { demo.engine.stop() }
      for _ in 0..<2 {
        _ = try demo.app.send(
          "POST", "/v1/completions", body: #"{"model":"demo","prompt":"Lisbon","max_tokens":3}"#,
          headers: ["content-type": "application/json", "authorization": "Bearer secret"])
      }
      let text = String(decoding: try File.read(file, limit: 1 << 20), as: UTF8.self)
      let lines = text.split(separator: "\n").map { try? JSONValue(parsing: String($0)) }
      #expect(lines.count == 2 && !text.contains("secret"))
      #expect(text.contains("Lisbon") == keepsTexts && (lines[0]?["request"] != nil) == keepsTexts)
      #expect(lines.allSatisfy { Receipt.all(in: $0 ?? nil).count == 1 })
    }
  }
}

/// The body that has a receipt verified.
private func asking(_ receipt: JSONValue) -> String {
  JSONValue.object(JSONObject([("receipt", receipt)])).text
}

// MARK: - The model

/// The demo, loaded, and a server over it.
private struct Demo {
  let model: LoadedModel
  let engine: EngineClient
  let app: App
  private let folder: TemporaryModel?

  /// - Parameter file: of a copy, in which one byte is changed.
  init(
    changing file: String? = nil, _ adjust: (inout EngineConfiguration) -> Void = { _ in },
    settings change: (inout ServerSettings) -> Void = { _ in }
  ) throws {
    folder = try file.map { try TemporaryModel(changing: $0) }
    var configuration = EngineConfiguration(
      modelPath: folder?.path ?? TestData.fixtures + "/models/demo", threads: 2)
    configuration.maxContext = 1024
    adjust(&configuration)
    (model, engine) = try LoadedModel.load(configuration, id: "demo")
    var settings = ServerSettings()
    change(&settings)
    app = App(model, settings: settings)
  }

  /// Of the answer to a completion.
  func receipt(_ asked: JSONValue) throws -> Receipt {
    var body = try #require(asked.objectValue)
    body["model"] = "demo"
    body["receipt"] = body["receipt"] ?? true
    let answer = try app.send("POST", "/v1/completions", body: JSONValue.object(body).text)
    return try #require(Receipt.all(in: answer.json).first, "\(answer.text)")
  }
}

/// A copy of the demo that goes with it.
private final class TemporaryModel: Sendable {
  let path: String
  private static let files = [
    "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
    "generation_config.json",
  ]

  init(changing changed: String) throws {
    var template = Array("/tmp/mlxserve-receipt-XXXXXX".utf8CString)
    _ = template.withUnsafeMutableBufferPointer { $0.baseAddress.flatMap(mkdtemp) }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    for name in Self.files {
      var bytes = try File.read(TestData.fixtures + "/models/demo/" + name, limit: 1 << 26)
      if name == changed {
        // A bit of the last weight, or space at the end of a text.
        if name.hasSuffix("safetensors") { bytes[bytes.count - 1] ^= 1 } else { bytes.append(0x20) }
        if name == "config.json" {
          var config = try JSONValue(parsing: bytes).objectValue ?? JSONObject()
          config["said"] = "otherwise"
          bytes = JSONValue.object(config).bytes
        }
      }
      try File.replace(path + "/" + name, with: bytes)
    }
  }

  deinit {
    for name in Self.files { unlink(path + "/" + name) }
    rmdir(path)
  }
}

// MARK: - Requests

private enum Ask {
  static let wires = [
    ("/v1/chat/completions", #""messages":[{"role":"user","content":"Hi"}],"max_tokens":8,"seed":5"#),
    ("/v1/completions", #""prompt":"The capital of","max_tokens":8,"seed":5"#),
    ("/v1/responses", #""input":"Hi","max_output_tokens":8,"seed":5"#),
    ("/v1/messages", #""messages":[{"role":"user","content":"Hi"}],"max_tokens":8,"seed":5"#),
    ("/api/chat", #""messages":[{"role":"user","content":"Hi"}],"options":{"num_predict":8,"seed":5}"#),
    ("/api/generate", #""prompt":"Hi","raw":true,"options":{"num_predict":8,"seed":5}"#),
    ("/completion", #""prompt":"The capital of","n_predict":8,"seed":5"#),
  ]

  private static let texts = [
    "Hi", "The capital of France is", "Count: one, two, three, one, two, three,", "Write a list of colours.",
    "{\"a\": 1, \"b\": ", "Is Paris the capital of France? Answer Yes or No.",
  ]

  /// A request of random settings, of which many are usual.
  static func random(using random: inout SeededGenerator) -> (path: String, body: JSONValue) {
    func chance(_ one: Int) -> Bool { Int.random(in: 0..<one, using: &random) == 0 }
    func number(_ low: Double, _ high: Double) -> JSONValue {
      .double((Double.random(in: low...high, using: &random) * 1000).rounded() / 1000)
    }
    func text() -> String { texts[Int.random(in: 0..<texts.count, using: &random)] }
    var body = JSONObject([("model", "demo"), ("receipt", true)])
    body["max_tokens"] = .int(Int.random(in: 1...28, using: &random))
    if !chance(4) { body["seed"] = .int(Int.random(in: -9...Int(Int32.max), using: &random)) }
    if !chance(4) { body["temperature"] = chance(5) ? 0 : number(0.1, 2) }
    for (name, low, high) in [
      ("top_p", 0.1, 1), ("min_p", 0, 0.5), ("repetition_penalty", 0.8, 1.6), ("presence_penalty", -2, 2),
      ("frequency_penalty", -2, 2), ("dry_multiplier", 0.1, 2), ("top_n_sigma", 0.2, 3),
      ("typical_p", 0.2, 1),
      ("xtc_probability", 0.2, 1), ("dynatemp_range", 0.1, 0.8),
    ] where chance(7) { body[name] = number(low, high) }
    if chance(5) { body["top_k"] = .int(Int.random(in: 1...50, using: &random)) }
    if chance(12) { body["mirostat"] = .int(Int.random(in: 1...2, using: &random)) }
    if chance(4) { body["n"] = .int(Int.random(in: 2...4, using: &random)) }
    if chance(5) { body["stop"] = [["e"], [" the", "."], ["\n"]][Int.random(in: 0..<3, using: &random)] }
    if chance(6) {
      body["logit_bias"] = .object(
        JSONObject((0..<3).map { _ in ("\(Int.random(in: 0..<2000, using: &random))", number(-20, 20)) }))
    }
    let isConstrained = chance(4)
    if isConstrained {
      let formats: [JSONValue] = [
        ["type": "json_object"],
        [
          "type": "json_schema",
          "json_schema": [
            "name": "a",
            "schema": [
              "type": "object", "properties": ["a": ["type": "integer"], "b": ["enum": ["x", "y"]]],
              "required": ["a", "b"],
            ],
          ],
        ],
      ]
      body["response_format"] = formats[Int.random(in: 0..<2, using: &random)]
    } else {
      if chance(8) { body["bad_words"] = ["a", "the"] }
      if chance(8) { body["min_tokens"] = .int(min(4, body["max_tokens"]?.intValue ?? 1)) }
      if chance(8) { body["ignore_eos"] = true }
    }
    guard chance(2) else {
      body["prompt"] = .string(text())
      return ("/v1/completions", .object(body))
    }
    body["messages"] = [["role": "user", "content": .string(text())]]
    if chance(3) { body["chat_template_kwargs"] = ["enable_thinking": .bool(chance(2))] }
    if chance(4) { body["thinking_budget"] = .int(Int.random(in: 0...12, using: &random)) }
    if chance(4) { body["prediction"] = ["type": "content", "content": .string(text())] }
    if chance(3), !isConstrained, body["min_tokens"] == nil, body["ignore_eos"] == nil,
      body["bad_words"] == nil
    {
      body["tools"] = [
        [
          "type": "function",
          "function": [
            "name": "look", "strict": true,
            "parameters": [
              "type": "object", "properties": ["at": ["type": "string"]], "required": ["at"],
              "additionalProperties": false,
            ],
          ],
        ]
      ]
      body["tool_choice"] = chance(2) ? "auto" : "required"
    }
    return ("/v1/chat/completions", .object(body))
  }
}

// MARK: - Tampering

private enum Tampering {
  /// One member changed, whatever it is, and the digest left.
  static func change(_ receipt: Receipt, using random: inout SeededGenerator) -> (Receipt, String) {
    var changed = receipt
    let names = ["seed", "setting", "weights", "template", "arithmetic", "answer", "prompt", "version"]
    let what = names[Int.random(in: 0..<names.count, using: &random)]
    switch what {
    case "seed":
      set(&changed, "settings", "seed", .int((receipt.members["settings"]?["seed"]?.intValue ?? 0) &+ 1))
    case "setting": set(&changed, "settings", "temperature", 1.999)
    case "weights", "template": set(&changed, "digests", what, .string(String(repeating: "0", count: 64)))
    case "arithmetic": changed.members["arithmetic"] = "exact-9"
    case "version": changed.members["mlxserve"] = "0"
    default:
      var tokens = receipt.members[what]?.arrayValue ?? []
      tokens.append(1)
      changed.members[what] = .array(tokens)
    }
    return (changed, what)
  }

  /// What the answer itself contradicts; nil for an answer without tokens.
  static func changeOfAnswer(_ receipt: Receipt, using random: inout SeededGenerator) -> (Receipt, String)? {
    var changed = receipt
    var tokens = receipt.tokens
    guard !tokens.isEmpty else { return nil }
    switch Int.random(in: 0..<3, using: &random) {
    case 0:
      let index = Int.random(in: 0..<tokens.count, using: &random)
      tokens[index] = (tokens[index] + Int32.random(in: 1..<2000, using: &random)) % 2000
      changed.members["answer"] = .array(tokens.map { .int(Int($0)) })
      return (changed, "a token")
    case 1:
      changed.members["probabilities"] = .string(String(repeating: "0", count: 64))
      return (changed, "the probabilities")
    default:
      set(&changed, "digests", "weights", .string(String(repeating: "0", count: 64)))
      return (changed, "the weights' digest")
    }
  }

  private static func set(_ receipt: inout Receipt, _ member: String, _ name: String, _ value: JSONValue) {
    var object = receipt.members[member]?.objectValue ?? JSONObject()
    object[name] = value
    receipt.members[member] = .object(object)
  }
}
