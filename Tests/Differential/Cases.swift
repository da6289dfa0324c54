// Cases in from standard input, answers out: lists of byte strings, each number four bytes, the lowest first.

import Platform

/// Reads lists of byte strings.
struct CaseReader {
  private var input: [UInt8] = []
  private var position = 0

  /// Whether all that was read was taken.
  var isDrained: Bool { position == input.count }

  /// The next list; nil at the end of the input, also when that comes in the middle of a list.
  mutating func next() -> [[UInt8]]? {
    guard let count = number() else { return nil }
    var fields: [[UInt8]] = []
    for _ in 0..<count {
      guard let length = number(), fill(length) else { return nil }
      fields.append(Array(input[position..<position + length]))
      position += length
    }
    return fields
  }

  private mutating func number() -> Int? {
    guard fill(4) else { return nil }
    defer { position += 4 }
    return input[position..<position + 4].reversed().reduce(0) { $0 << 8 | Int($1) }
  }

  /// Reads until so many bytes wait; false when the input ends before.
  private mutating func fill(_ count: Int) -> Bool {
    while input.count - position < count {
      input.removeFirst(position)
      position = 0
      var chunk = [UInt8](repeating: 0, count: 1 << 16)
      let received = chunk.withUnsafeMutableBytes { read(STDIN_FILENO, $0.baseAddress, $0.count) }
      guard received > 0 else { return false }
      input += chunk[..<received]
    }
    return true
  }
}

/// Writes lists of byte strings.
struct AnswerWriter {
  private var output: [UInt8] = []

  mutating func add(_ fields: [[UInt8]]) {
    append(fields.count)
    for field in fields {
      append(field.count)
      output += field
    }
    if output.count > 1 << 16 { flush() }
  }

  mutating func flush() {
    var rest = output[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { write(STDOUT_FILENO, $0.baseAddress, $0.count) }
      guard count > 0 else { exit(1) }
      rest = rest.dropFirst(count)
    }
    output.removeAll(keepingCapacity: true)
  }

  private mutating func append(_ number: Int) {
    for shift in [0, 8, 16, 24] { output.append(UInt8(truncatingIfNeeded: number >> shift)) }
  }
}
