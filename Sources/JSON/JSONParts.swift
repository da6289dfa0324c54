// JSON whose lists are made element by element while it is written, so that a long answer is never in memory as a whole.

/// A value that may hold lists which are made while they are written.
package indirect enum JSONParts {
  case value(JSONValue)
  case object([(String, JSONParts)])
  /// Elements are made in order, once each time the list is written.
  case list(count: Int, element: (Int) -> JSONParts)

  /// The whole value.
  package var json: JSONValue {
    switch self {
    case .value(let value): value
    case .object(let members): .object(JSONObject(members.map { ($0, $1.json) }))
    case .list(let count, let element): .array((0..<count).map { element($0).json })
    }
  }

  /// Hands on the text that `json.bytes` would be, in parts: each has `partBytes`, or up to one element more.
  ///
  /// - Throws: what `send` throws; then nothing more is made.
  package func write<Failure: Error>(
    partBytes: Int, _ send: ([UInt8]) throws(Failure) -> Void
  ) throws(Failure) {
    var writer = JSONWriter()
    try write(to: &writer, partBytes, send)
    if !writer.bytes.isEmpty { try send(writer.bytes) }
  }

  private func write<Failure: Error>(
    to writer: inout JSONWriter, _ partBytes: Int, _ send: ([UInt8]) throws(Failure) -> Void
  ) throws(Failure) {
    switch self {
    case .value(let value): writer.write(value)
    case .object(let members):
      writer.bracket("{")
      for (index, member) in members.enumerated() {
        if index > 0 { writer.separate() }
        writer.writeKey(member.0)
        try member.1.write(to: &writer, partBytes, send)
      }
      writer.bracket("}")
    case .list(let count, let element):
      writer.bracket("[")
      for index in 0..<count {
        if index > 0 { writer.separate() }
        try element(index).write(to: &writer, partBytes, send)
      }
      writer.bracket("]")
    }
    if writer.bytes.count >= partBytes {
      try send(writer.bytes)
      writer = JSONWriter()
    }
  }
}
