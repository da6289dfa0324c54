// The form of POST /v1/audio/transcriptions and /v1/audio/translations: a recording, and what is wanted of it.

import HTTP
import JSON
import Wire

/// A form that has been checked.
struct TranscriptionForm {
  enum Format: String, CaseIterable {
    case json, text, srt
    case verbose = "verbose_json"
    case vtt
  }

  let model: String
  let file: [UInt8]
  /// As the client writes it.
  var language: String?
  var prompt = ""
  var format = Format.json
  var temperature = 0.0
  var seed: UInt64 = 0
  var granularities: [String] = []
  var wantsLogprobs = false
  var streams = false
  /// Whether windows are written with a look at the text before them.
  var looksBack = true
  /// Names of parts that mean nothing here.
  var ignored: [String] = []

  /// Most parts: fields, and lists of some.
  static let mostParts = 64
  private static let mostPromptBytes = 1 << 16

  /// - Parameter translates: to English; then there is no choice of language.
  init(_ parts: [FormPart], translates: Bool) throws(APIError) {
    guard let file = parts.first(where: { $0.name == "file" }) else { throw .missing("file") }
    self.file = file.body
    var fields: [(name: String, text: String)] = []
    for part in parts where part.name != "file" {
      let name = part.name.hasSuffix("[]") ? String(part.name.dropLast(2)) : part.name
      guard let text = String(validating: part.body, as: UTF8.self) else {
        throw .invalidValue(APIError.shortened(name), "it is not UTF-8")
      }
      fields.append((name, text))
    }
    model = fields.first { $0.name == "model" }?.text ?? ""
    var keywords: [String] = []
    for (name, text) in fields {
      switch name {
      case "model": break
      case "language" where !translates, "languages" where !translates:
        guard language == nil || language == text else {
          throw .unsupportedValue(name, "one language at a time; leave it out to have it detected")
        }
        language = text.isEmpty ? nil : text
      case "prompt":
        guard text.utf8.count <= Self.mostPromptBytes else {
          throw .invalidValue(name, "at most \(Self.mostPromptBytes) bytes are taken")
        }
        prompt = text
      case "keywords": keywords.append(text)
      case "response_format": format = try Self.format(text)
      case "temperature":
        guard let number = Double(text), (0...1).contains(number) else {
          throw .invalidValue(name, "expected a number from 0 to 1")
        }
        temperature = number
      case "seed":
        guard let number = UInt64(text) else { throw .invalidValue(name, "expected an integer") }
        seed = number
      case "timestamp_granularities":
        guard ["segment", "word"].contains(text) else {
          throw .invalidValue(name, "expected 'segment' or 'word'")
        }
        granularities.append(text)
      case "include":
        guard text == "logprobs" else { throw .unsupportedValue(name, "only 'logprobs' can be included") }
        wantsLogprobs = true
      case "stream":
        guard text == "true" || text == "false" else {
          throw .invalidValue(name, "expected 'true' or 'false'")
        }
        streams = text == "true"
      case "chunking_strategy":
        guard text == "auto" || (try? JSONValue(parsing: Array(text.utf8)))?["type"] == "server_vad" else {
          throw .invalidValue(name, "expected 'auto' or {\"type\": \"server_vad\"}")
        }
        looksBack = false
      case "known_speaker_names", "known_speaker_references":
        throw .unsupportedParameter(name, "speakers are not told apart here")
      default: ignored.append(APIError.shortened(name))
      }
    }
    if !keywords.isEmpty { prompt = ([prompt] + [keywords.joined(separator: ", ")]).joined(separator: " ") }
    try check()
  }

  private static func format(_ text: String) throws(APIError) -> Format {
    if text == "diarized_json" {
      throw .unsupportedValue("response_format", "speakers are not told apart here; send 'verbose_json'")
    }
    guard let format = Format(rawValue: text) else {
      throw .invalidValue(
        "response_format", "expected one of \(Format.allCases.map(\.rawValue).joined(separator: ", "))")
    }
    return format
  }

  private func check() throws(APIError) {
    guard granularities.isEmpty || format == .verbose else {
      throw .invalidValue("timestamp_granularities", "it needs response_format 'verbose_json'")
    }
    guard !wantsLogprobs || format == .json else {
      throw .invalidValue("include", "logprobs need response_format 'json'")
    }
    guard !streams || format == .json || format == .text else {
      throw .unsupportedValue("stream", "only response_format 'json' and 'text' are streamed")
    }
  }

  var wantsWords: Bool { granularities.contains("word") }
  var wantsSegments: Bool { !wantsWords || granularities.contains("segment") }
}
