// `mlxserve show`: what a model is and needs, from the cache, from a folder, or from the hub without a download.

import Chat
import Checkpoint
import Decoding
import Hub
import Inference
import JSON
import Pipeline
import Platform
import Sampling

enum ShowCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let settings = try flags.hubSettings()
    let name = try flags.argument("NAME")
    let facts: JSONObject
    switch try ModelLocator.place(name, settings) {
    case .folder(let path): facts = try local(path)
    case .reference(var reference):
      if let revision = flags[.revision] {
        try ModelReference.check(revision, of: revision)
        reference.revision = revision
      }
      if flags[.remote] {
        facts = try remote(reference, settings)
      } else {
        guard let path = ModelLocator.present(reference, settings) else {
          throw UsageError.notHere(name)
        }
        var found = try local(path)
        found["repository"] = .string(reference.repository.text)
        facts = found
      }
    }
    if flags[.json] {
      Terminal.print(JSONValue.object(facts).text)
    } else {
      for line in lines(facts) { Terminal.print(Terminal.safe(line)) }
    }
    return ExitCode.success
  }

  // MARK: Facts

  private static let contexts = [4096, 32_768]

  private static func local(_ path: String) throws -> JSONObject {
    let folder = try ModelFolder(path: path)
    var facts = JSONObject([("name", .string(folder.name)), ("folder", .string(folder.path))])
    describe(folder.config, into: &facts)
    facts["type"] = .string(ListCommand.type(folder.config, folder: path))
    facts["parameter_count"] = .int(folder.parameterCount)
    facts["weight_bytes"] = .int(folder.weightBytes)
    var configuration = EngineConfiguration(modelPath: path, threads: 1)
    configuration.version = Version.text
    if let inspection = try? ModelInspection(folder, configuration) {
      facts["context_tokens"] = .int(inspection.contextLength)
      for tokens in contexts where tokens <= inspection.contextLength {
        facts["memory_bytes_at_\(tokens / 1024)k"] = .int(
          folder.weightBytes + tokens * inspection.kvBytesPerToken)
      }
    }
    if folder.task == .chat,
      let recommended = try? SamplingOverrides(generationConfig: folder.generationConfig)
    {
      facts["sampling"] = .string(
        SamplingParameters.words(DefaultSampling.local.settings(beside: recommended)))
      facts["sampling_by"] = recommended.isEmpty ? "default" : "model"
    }
    if let template = try? folder.template() {
      facts["tools"] = .bool(template.supportsTools)
      facts["thinking"] = .bool(template.format.supportsReasoning)
    }
    facts["images"] = .bool(folder.config["vision_config"]?.objectValue != nil)
    facts["audio"] = .bool(folder.config["audio_config"]?.objectValue != nil)
    facts["stored"] = folder.blockWords.map(JSONValue.string)
    facts["license"] = (folder.license ?? licence(folder.place)).map(JSONValue.string)
    facts["files"] = .array(files(folder))
    return facts
  }

  private static func remote(_ reference: ModelReference, _ settings: HubSettings) throws -> JSONObject {
    let found = Monitor<(config: JSONValue, bytes: Int)?>(nil)
    var request = DownloadRequest(reference)
    request.isDryRun = true
    request.judge = { config, bytes in
      found.update { $0 = (config, bytes) }
      return nil
    }
    var facts = JSONObject([
      ("name", .string(reference.repository.name)), ("repository", .string(reference.repository.text)),
    ])
    _ = try ModelDownload(request, settings: settings).run { event in
      switch event {
      case .plan(let plan):
        facts["commit"] = .string(plan.commit)
        facts["download_bytes"] = .int(plan.totalBytes)
        facts["license"] = plan.licence.map(JSONValue.string)
        facts["files"] = .array(plan.files.map { ["path": .string($0.path), "bytes": .int($0.bytes)] })
      case .note(let text): Terminal.printError(text)
      case .progress, .file, .done: break
      }
    }
    if let (config, bytes) = found.withLock({ $0 }) {
      describe(config, into: &facts)
      facts["weight_bytes"] = .int(bytes)
      facts["problem"] = ModelFetch.judge(config, weightBytes: bytes).map(JSONValue.string)
    }
    return facts
  }

  private static func describe(_ config: JSONValue, into facts: inout JSONObject) {
    facts["type"] = .string(ListCommand.type(config))
    let text = config["text_config"] ?? config
    facts["layers"] = text["num_hidden_layers"]
    facts["hidden_size"] = text["hidden_size"]
    facts["vocabulary"] = text["vocab_size"] ?? config["vocab_size"]
    facts["context_tokens"] = text["max_position_embeddings"]
  }

  /// What the model's card says at its top, between lines of dashes.
  static func licence(_ path: String) -> String? {
    guard let bytes = try? File.read(path + "/README.md", limit: 1 << 20) else { return nil }
    let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n", maxSplits: 200)
    guard lines.first == "---" else { return nil }
    let head = lines.dropFirst().prefix { $0 != "---" }
    return head.first { $0.hasPrefix("license:") }.map { String($0.dropFirst(8).drop { $0 == " " }) }
  }

  private static func files(_ folder: ModelFolder) -> [JSONValue] {
    let path = folder.place
    let names = folder.isGGUF ? folder.weightFiles : (try? File.names(in: path)) ?? []
    return names.compactMap { name in
      guard let facts = File.status(path + "/" + name), facts.kind == .file else { return nil }
      let digest = File.linkTarget(path + "/" + name)?.split(separator: "/").last.map(String.init)
      return [
        "path": .string(name), "bytes": .int(facts.bytes), "digest": digest.map(JSONValue.string) ?? nil,
      ]
    }
  }

  // MARK: Words

  /// `134.5 M`, `7.6 B`.
  static func parameters(_ count: Int) -> String {
    let (unit, name) = count >= 1_000_000_000 ? (1e9, "B") : count >= 1_000_000 ? (1e6, "M") : (1e3, "K")
    return fixed(Double(count) / unit, 1) + " " + name
  }

  private static func lines(_ facts: JSONObject) -> [String] {
    func text(_ key: String) -> String? { facts[key]?.stringValue }
    func number(_ key: String) -> Int? { facts[key]?.intValue }
    var rows: [(String, String)] = []
    func add(_ name: String, _ value: String?) { if let value { rows.append((name, value)) } }
    add("model", text("repository") ?? text("name"))
    add("commit", text("commit"))
    add("folder", text("folder"))
    add("type", text("type"))
    if let layers = number("layers"), let width = number("hidden_size") {
      add(
        "size", "\(layers) layers of \(width)" + (number("vocabulary").map { ", vocabulary of \($0)" } ?? ""))
    }
    add("parameters", number("parameter_count").map(parameters))
    add("context", number("context_tokens").map { "\($0) tokens" })
    add("weights", number("weight_bytes").map { Size.words($0) })
    add("stored as", text("stored"))
    let needs = contexts.compactMap { tokens in
      number("memory_bytes_at_\(tokens / 1024)k").map { "\(Size.words($0)) at \(tokens / 1024)k tokens" }
    }
    add("memory", needs.isEmpty ? nil : needs.joined(separator: ", "))
    add("download", number("download_bytes").map { Size.words($0) })
    let abilities = ["tools", "thinking", "images", "audio"].filter { facts[$0]?.boolValue == true }
    add("abilities", abilities.isEmpty ? nil : abilities.joined(separator: ", "))
    let isDefault = text("sampling_by") == "default"
    add(
      "sampling", text("sampling").map { $0 + (isDefault ? " (this server's defaults)" : " (the model's)") })
    add("license", text("license"))
    add("problem", text("problem"))
    let column = 12
    // Programs get everything as it is, people what they can take in.
    let width = Terminal.tableWidth
    var lines = rows.map { name, value in
      Paragraph.wrapped(value, after: name, column: column, width: width ?? .max)
    }
    let files = facts["files"]?.arrayValue ?? []
    if !files.isEmpty { lines.append("files") }
    lines += Table.lines(
      ["", "", ""],
      files.map { file in
        [
          "  " + (file["path"]?.stringValue ?? ""), Size.words(file["bytes"]?.intValue ?? 0),
          String((file["digest"]?.stringValue ?? "").prefix(width == nil ? .max : 12)),
        ]
      }, width: width, dispensable: [2]
    ).dropFirst()
    return lines
  }
}
