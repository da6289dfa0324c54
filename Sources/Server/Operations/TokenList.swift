// The answer of /tokenize: a text's tokens as JSON, written in parts where they are many.

import HTTP
import JSON
import Platform
import Tokenizers

/// A piece of a long text takes some 200 bytes as a value, and 6 MB of text have millions: only one part is in memory.
struct TokenList {
  let tokens: [Int32]
  let tokenizer: Tokenizer
  /// Most tokens of a prompt and its answer together.
  let maxContext: Int
  /// Whether each token comes with its text.
  let wantsPieces: Bool
  /// Whether the vocabulary's spellings are wanted too.
  let wantsStrings: Bool
  /// What the tokens take, until they are sent.
  let loan: MemoryLoan

  /// Tokens that are written at a time; fewer than two parts are sent as one body of known length.
  private static let part = 2048

  /// The whole answer.
  var response: Response {
    guard tokens.count > Self.part else { return Response(contentType: "application/json", bytes: bytes) }
    return Response(
      headers: ["content-type": "application/json"],
      body: .stream { writer in
        try write { bytes in try writer.write(bytes) }
        writer.finish()
      })
  }

  private var bytes: [UInt8] {
    var bytes: [UInt8] = []
    write { (part) throws(Never) in bytes += part }
    return bytes
  }

  /// Hands on the JSON text part by part.
  private func write<Failure: Error>(_ send: ([UInt8]) throws(Failure) -> Void) throws(Failure) {
    try send(Array(#"{"count":\#(tokens.count),"max_model_len":\#(maxContext),"tokens":["#.utf8))
    try write(element, send)
    try send(Array(#"],"token_strs":"#.utf8))
    if wantsStrings {
      try send([UInt8(ascii: "[")])
      try write(spelling, send)
      try send([UInt8(ascii: "]")])
    } else {
      try send(Array("null".utf8))
    }
    try send([UInt8(ascii: "}")])
  }

  /// The elements of one array, with commas between them.
  private func write<Failure: Error>(
    _ value: (Int32) -> JSONValue, _ send: ([UInt8]) throws(Failure) -> Void
  ) throws(Failure) {
    for start in stride(from: 0, to: tokens.count, by: Self.part) {
      var writer = JSONWriter()
      for index in start..<min(start + Self.part, tokens.count) {
        if index > 0 { writer.separate() }
        writer.write(value(tokens[index]))
      }
      try send(writer.bytes)
    }
  }

  private func element(_ id: Int32) -> JSONValue { wantsPieces ? piece(id) : .int(Int(id)) }

  private func spelling(_ id: Int32) -> JSONValue { .string(tokenizer.token(of: id) ?? "") }

  /// The text of a token; its bytes where they are part of a character.
  private func piece(_ id: Int32) -> JSONValue {
    let bytes = tokenizer.bytes(of: id)
    let text = String(validating: bytes, as: UTF8.self).map(JSONValue.string)
    return ["id": .int(Int(id)), "piece": text ?? .array(bytes.map { .int(Int($0)) })]
  }
}
