// GET /v1/capabilities: what can be asked of each model that is loaded, and of the server.
//
// Whether a field works is found out by planning a request that has it, so this route cannot disagree with the others.

import Chat
import Fetch
import Grammar
import HTTP
import Hub
import Inference
import JSON
import MCP
import Media
import Pipeline
import Sampling
import Wire

struct CapabilitiesRoute {
  private let scope: RequestScope
  private let operations: [Operation]

  init(_ scope: RequestScope, _ operations: [Operation]) {
    (self.scope, self.operations) = (scope, operations)
  }

  /// - Parameter operations: of all routes.
  static func table(_ server: ServerContext, _ operations: [Operation]) -> RouteTable {
    RouteTable(
      .openAI,
      [
        .get(
          "/v1/capabilities", "capabilities", "What is supported with each model", gives: "CapabilitiesList",
          { _, context in respond(server, operations, context) })
      ])
  }

  private static func respond(
    _ server: ServerContext, _ operations: [Operation], _ context: ConnectionContext
  ) -> Response {
    let models = server.models.leaseLoaded().map {
      CapabilitiesRoute(RequestScope(server: server, lease: $0), operations)
    }
    return Response(
      json: [
        "object": "list", "data": .array(models.map { .object(JSONObject($0.facts + $0.abilities)) }),
        "server": abilities(of: server, context),
      ])
  }

  /// What depends on flags and folders, and not on one model.
  private static func abilities(of server: ServerContext, _ context: ConnectionContext) -> JSONValue {
    let (tools, key) = (server.settings.toolServers, context.client.name)
    let pulls = server.settings.hub != nil
    let known = (pulls ? KnownModels.all : []).map { model -> JSONValue in
      ["name": .string(model.name), "bytes": .int(model.bytes), "note": .string(model.note)]
    }
    return [
      "pull": .bool(pulls), "vector_stores": .bool(searches(server)), "known": .array(known),
      "mcp": [
        "servers": .array((tools?.labels(for: key) ?? []).map(JSONValue.string)),
        "urls": .bool(tools?.takesURLs(of: key) ?? false),
      ],
    ]
  }

  /// Whether files can be searched.
  private static func searches(_ server: ServerContext) -> Bool {
    server.settings.archive != nil
      && server.models.statuses.contains { $0.source.makes(scores: false, $0.model?.loaded) }
  }

  private var facts: [(String, JSONValue)] {
    let model = scope.model
    return [
      ("id", .string(model.id)), ("object", "model.capabilities"),
      ("model_type", model.facts.modelType.map(JSONValue.string) ?? nil),
      ("context_length", .int(model.contextTokens)),
      ("vocabulary_size", .int(model.vocabularySize)),
      ("compute_mode", .string(model.facts.computeMode)),
      ("quantization", model.facts.quantization?.json ?? nil),
      (
        "endpoints",
        .array(
          operations.map { .string("\($0.method) \($0.template)") })
      ),
      ("modalities", ["input": model.inputModalities, "output": ["text"]]), ("images", images),
      ("sounds", audio), ("transcription", transcription),
    ]
  }

  /// Null for a model that takes none.
  private var images: JSONValue {
    guard let rules = scope.model.media.images else { return nil }
    let tokens = ImageDetail.allCases.map { detail in
      (detail.rawValue, JSONValue.int(rules.budgets.tokens(for: detail)))
    }
    return [
      "formats": .array(PictureFile.types.map(JSONValue.string)), "pixels": .int(ImageLimits().pixels),
      "tokens": .object(JSONObject(tokens)), "files": .bool(scope.settings.mediaRoot != nil),
      "fetches": .bool(scope.settings.mediaURLs?.program != nil),
    ]
  }

  /// Null for a model that takes none.
  private var audio: JSONValue {
    guard scope.model.media.audio != nil else { return nil }
    return [
      "formats": ["audio/wav"], "seconds": .int(MediaRules.Audio.seconds),
      "bytes": .int(AudioLimits().bytes),
    ]
  }

  /// Null for a model that writes down no recordings.
  private var transcription: JSONValue {
    guard let vocabulary = scope.model.transcriber?.vocabulary else { return nil }
    return [
      "formats": .array((["audio/wav", "audio/flac"] + SoundFile.foreignTypes).map(JSONValue.string)),
      "languages": .array(vocabulary.codes.map(JSONValue.string)), "translates": .bool(vocabulary.translates),
      "seconds": .int(SoundFile.mostSeconds),
    ]
  }

  private var abilities: [(String, JSONValue)] {
    let format = scope.model.template?.format
    return [
      ("chat", .bool(accepts())), ("streaming", true), ("logprobs", .bool(accepts(("logprobs", true)))),
      ("tools", tools),
      (
        "thinking",
        [
          "supported": .bool(format?.supportsReasoning ?? false),
          "switch": .bool(format?.supportsThinkingSwitch ?? false),
          "budget": .bool(accepts(("thinking_budget", 8))),
        ]
      ),
      (
        "structured_output",
        [
          "json_object": .bool(accepts(("response_format", ["type": "json_object"]))),
          "json_schema": .bool(accepts(("response_format", Self.schemaFormat))),
          "regex": .bool(accepts(("guided_regex", "a"))),
          "choice": .bool(accepts(("guided_choice", ["a"]))),
          "grammar": .bool(accepts(("guided_grammar", #"root ::= "a""#))),
          "structural_tag": .bool(accepts(("structural_tag", Self.tagFormat))),
          "quote": .bool(accepts(("response_format", ["type": "quote", "source": "a"]))),
          "additional_properties": .bool(scope.settings.allowsUndeclaredMembers),
          "missing_bytes": .array(
            scope.model.generates ? scope.model.grammars.missingBytes.map { .int(Int($0)) } : []),
        ]
      ),
      ("sampling", sampling), ("limits", limits),
    ]
  }

  /// What holds where a request says nothing, and whether the model's files or this server say it.
  private var sampling: JSONValue {
    let parameters = SamplingParameters(scope.model.sampling)
    let said = SamplingField.allCases.filter { scope.model.sampling[$0] != nil }.map { field in
      (field.name, (try? JSONValue(parsing: parameters.text(of: field))) ?? .null)
    }
    return .object(
      JSONObject([("source", scope.model.recommended.isEmpty ? "default" : "model")] + said))
  }

  private static let tagFormat: JSONValue = ["format": ["type": "const_string", "value": "a"]]

  private static let schemaFormat: JSONValue = [
    "type": "json_schema",
    "json_schema": ["name": "probe", "schema": ["type": "object", "properties": [:]]],
  ]

  private var tools: JSONValue {
    func tool(strict: Bool) -> (String, JSONValue) {
      let parameters: JSONValue = [
        "type": "object", "properties": [:], "required": [], "additionalProperties": false,
      ]
      var function = JSONObject([("name", "probe"), ("parameters", parameters)])
      if strict { function["strict"] = true }
      return ("tools", [["type": "function", "function": .object(function)]])
    }
    let plain = tool(strict: false)
    // Tools that need not be called are left out where they are not supported.
    let isSupported = accepts(plain, ("tool_choice", "required"))
    let choices: [(name: String, value: JSONValue)] = [
      ("none", "none"), ("auto", "auto"), ("required", "required"),
      ("function", ["type": "function", "function": ["name": "probe"]]),
    ]
    let syntax = scope.model.template?.format.toolSyntax.rawValue
    return [
      "supported": .bool(isSupported), "syntax": isSupported ? syntax.map(JSONValue.string) ?? nil : nil,
      "choices": .array(
        choices.filter { (isSupported || $0.name == "none") && accepts(plain, ("tool_choice", $0.value)) }.map
        { .string($0.name) }),
      // Where the template knows no tools, the search comes first.
      "file_search": .bool(accepts() && Self.searches(scope.server)), "parallel": .bool(isSupported),
      "strict": .bool(accepts(tool(strict: true))),
    ]
  }

  private var limits: JSONValue {
    let limits = scope.limits
    return [
      "choices": .int(limits.choices), "messages": .int(limits.messages),
      "content_parts": .int(limits.contentParts), "media_parts": .int(limits.mediaParts),
      "tools": .int(limits.tools),
      "schema_bytes": .int(limits.schemaBytes), "stops": .int(limits.stops),
      "stop_bytes": .int(limits.stopBytes), "stop_tokens": .int(limits.stopTokens),
      "answer_tokens": .int(min(scope.answerLimit(GenerationOptions()), scope.model.contextTokens)),
      "logit_biases": .int(limits.logitBiases), "top_logprobs": .int(limits.topLogprobs),
      "prompts": .int(limits.prompts), "completion_logprobs": .int(limits.completionLogprobs),
    ]
  }

  /// Whether a chat request with these members could be started.
  private func accepts(_ members: (String, JSONValue)...) -> Bool {
    let message: JSONValue = ["role": "user", "content": "probe"]
    let body = JSONObject([("model", .string(scope.model.id)), ("messages", [message])] + members)
    do throws(APIError) {
      let request = try ChatRequest(
        .object(body), limits: scope.limits, vocabularySize: scope.model.vocabularySize)
      try ChatPlan(scope).makeRun(request).checkGuide()
      return true
    } catch {
      return false
    }
  }
}

extension MediaRules {
  /// `text`, and what else the model takes.
  var inputModalities: JSONValue {
    .array(["text"] + MediaKind.allCases.filter(takes).map { .string($0.rawValue) })
  }
}

extension LoadedModel {
  /// Of a model that hears recordings these alone.
  var inputModalities: JSONValue { transcriber == nil ? media.inputModalities : ["audio"] }
}

extension ModelFacts.Quantization {
  fileprivate var json: JSONValue {
    ["mode": .string(mode), "bits": .int(bits), "group_size": .int(groupSize)]
  }
}
