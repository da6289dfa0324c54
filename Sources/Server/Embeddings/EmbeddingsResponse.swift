// The answer of POST /v1/embeddings, written vector by vector: thousands of them as values would be large.

import JSON
import Wire

/// Vectors in the order of the inputs.
struct EmbeddingsResponse: Sendable {
  let model: String
  let vectors: [[Float]]
  let encoding: EmbeddingsRequest.Encoding
  /// Tokens of all inputs as they were encoded.
  let promptTokens: Int
  /// Indices of inputs that were cut.
  let truncated: [Int]

  /// Hands on the JSON text in parts of some vectors.
  func write<Failure: Error>(_ send: ([UInt8]) throws(Failure) -> Void) throws(Failure) {
    var writer = JSONWriter()
    writer.writeRaw(#"{"object":"list","data":["#)
    for (index, vector) in vectors.enumerated() {
      if index > 0 { writer.separate() }
      writer.writeRaw(#"{"object":"embedding","index":"#)
      writer.write(.int(index))
      writer.writeRaw(#","embedding":"#)
      switch encoding {
      case .float: writer.write(vector)
      case .base64: writer.writeString(Base64.encode(littleEndian: vector))
      }
      writer.writeRaw("}")
      if writer.bytes.count > 1 << 16 {
        try send(writer.bytes)
        writer = JSONWriter()
      }
    }
    writer.writeRaw(#"],"model":"#)
    writer.writeString(model)
    writer.writeRaw(#","usage":"#)
    writer.write(["prompt_tokens": .int(promptTokens), "total_tokens": .int(promptTokens)])
    if !truncated.isEmpty {
      writer.writeRaw(#","truncated":"#)
      writer.write(.array(truncated.map(JSONValue.int)))
    }
    writer.writeRaw("}")
    try send(writer.bytes)
  }

  /// Whether the text is so long that it should not be held as a whole.
  var isLong: Bool { vectors.reduce(0) { $0 + $1.count } > 1 << 16 }
}

extension Base64 {
  /// float32 values, four bytes each, the lowest first.
  static func encode(littleEndian values: [Float]) -> String {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(4 * values.count)
    for value in values {
      let bits = value.bitPattern
      for shift in [0, 8, 16, 24] as [UInt32] { bytes.append(UInt8(truncatingIfNeeded: bits >> shift)) }
    }
    return encode(bytes)
  }
}
