// The `options` of a request of Ollama's wire: what each sets, and which have no meaning here.

import JSON
import Sampling

extension OllamaRequest {
  /// Options for the other program's memory and threads: they have no effect here, and nobody needs to hear of it.
  private static let hints = [
    "num_keep", "num_batch", "num_gpu", "main_gpu", "use_mmap", "use_mlock", "num_thread", "numa", "low_vram",
    "f16_kv", "draft_num_predict", "vocab_only", "embedding_only",
  ]
  /// Options that change what is sampled elsewhere, with the values that change nothing.
  private static let neutral: [(name: String, value: Double)] = [
    ("tfs_z", 1)
  ]
  /// How far back the penalty on repetitions looks there.
  private static let lookBack = 64.0

  mutating func readOptions(_ options: Fields, limits: RequestLimits) throws(APIError) {
    var reader = OllamaOptions(fields: options)
    for (name, field) in OllamaOptions.sampling {
      guard let number = try reader.number(name, isInteger: OllamaOptions.isCount(field)) else { continue }
      chat.options.sampling[field] = OllamaOptions.clamped(number, to: field)
    }
    if chat.options.sampling[.repetitionPenalty] != nil, chat.options.sampling[.repeatLastN] == nil {
      chat.options.sampling[.repeatLastN] = Self.lookBack
    }
    if let seed = try reader.integer("seed"), seed >= 0 { chat.options.seed = seed }
    if let count = try reader.integer("num_predict") {
      onlyPrompt = count == 0
      if count > 0 { chat.options.maxTokens = count }
    }
    if let limit = try reader.integer("num_ctx") { contextLimit = max(1, limit) }
    chat.options.stops = try reader.stops(limits: limits)
    for name in Self.hints { _ = reader.fields.value(name) }
    for (name, value) in Self.neutral {
      guard let given = try reader.number(name, isInteger: false), given != value else { continue }
      ignored.append("options." + name)
    }
    if reader.fields.value("penalize_newline") != nil { ignored.append("options.penalize_newline") }
    ignored += reader.fields.unread.map { "options." + $0 }
  }
}

/// Reads options; errors are in Ollama's words.
private struct OllamaOptions {
  var fields: Fields

  /// Every name of every field; where two are given, that of the other program counts.
  static let sampling: [(String, SamplingField)] = SamplingField.allCases.flatMap { field in
    ([field.name] + field.aliases).map { ($0, field) }
  }

  static func isCount(_ field: SamplingField) -> Bool {
    if case .count = field.row.setting { true } else { false }
  }

  private func wrong(_ name: String, _ kind: String) -> APIError {
    APIError(
      status: 400, code: "invalid_type", param: fields.name(of: name),
      message: "option \"\(name)\" must be of type \(kind)")
  }

  /// A whole number may be written with a point.
  mutating func number(_ name: String, isInteger: Bool) throws(APIError) -> Double? {
    guard let value = fields.value(name) else { return nil }
    guard let number = value.doubleValue, !isInteger || Int(exactly: number) != nil else {
      throw wrong(name, isInteger ? "integer" : "float32")
    }
    return number
  }

  mutating func integer(_ name: String) throws(APIError) -> Int? {
    guard let value = fields.value(name) else { return nil }
    guard let number = value.intValue else { throw wrong(name, "integer") }
    return number
  }

  /// Elsewhere these have no bounds; what lies beyond ours means the same as the bound.
  static func clamped(_ number: Double, to field: SamplingField) -> Double {
    switch field.row.setting {
    case .number(_, let range): min(max(number, range.lowerBound), range.upperBound)
    case .count(_, let range): min(max(number, field.row.least), Double(range.upperBound))
    }
  }

  mutating func stops(limits: RequestLimits) throws(APIError) -> [String] {
    var stops: [String] = []
    switch fields.value("stop") {
    case nil: break
    case .string(let stop)?: stops = [stop]
    case .array(let values)?:
      for value in values {
        guard let stop = value.stringValue else { throw wrong("stop", "array of strings") }
        stops.append(stop)
      }
    default: throw wrong("stop", "array of strings")
    }
    stops.removeAll { $0.utf8.isEmpty }
    guard stops.count <= limits.stops, stops.allSatisfy({ $0.utf8.count <= limits.stopBytes }) else {
      throw .invalidValue(
        "options.stop", "at most \(limits.stops) texts of at most \(limits.stopBytes) bytes can end an answer"
      )
    }
    return stops
  }
}
