// GGUF files for tests, pair by pair and tensor by tensor.

/// A file of version 3.
package struct GGUFWriter {
  package enum Value {
    case int(Int)
    case unsigned(UInt64)
    case float(Float)
    case bool(Bool)
    case string(String)
    case ints([Int])
    case floats([Float])
    case strings([String])
  }

  package struct Tensor {
    package var name: String
    /// Outermost dimension first.
    package var shape: [Int]
    /// The number of the type.
    package var type: Int
    package var bytes: [UInt8]
  }

  package var pairs: [(key: String, value: Value)]
  package var tensors: [Tensor] = []

  package init(_ architecture: String, _ pairs: [(String, Value)] = []) {
    self.pairs = [("general.architecture", .string(architecture))] + pairs.map { ($0.0, $0.1) }
  }

  package mutating func add(_ name: String, _ shape: [Int], type: Int, _ bytes: [UInt8]) {
    tensors.append(Tensor(name: name, shape: shape, type: type, bytes: bytes))
  }

  package mutating func add(_ name: String, _ shape: [Int], _ floats: [Float]) {
    add(name, shape, type: 0, floats.flatMap { Self.number(Int($0.bitPattern), 4) })
  }

  private static func number(_ value: Int, _ width: Int) -> [UInt8] {
    (0..<width).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
  }

  private static func text(_ text: String) -> [UInt8] { number(text.utf8.count, 8) + Array(text.utf8) }

  private static func array(_ type: Int, _ elements: [[UInt8]]) -> [UInt8] {
    number(9, 4) + number(type, 4) + number(elements.count, 8) + elements.flatMap(\.self)
  }

  private static func bytes(_ value: Value) -> [UInt8] {
    switch value {
    case .int(let value): number(5, 4) + number(value, 4)
    case .unsigned(let value): number(10, 4) + number(Int(truncatingIfNeeded: value), 8)
    case .float(let value): number(6, 4) + number(Int(value.bitPattern), 4)
    case .bool(let value): number(7, 4) + [value ? 1 : 0]
    case .string(let value): number(8, 4) + text(value)
    case .ints(let values): array(5, values.map { number($0, 4) })
    case .floats(let values): array(6, values.map { number(Int($0.bitPattern), 4) })
    case .strings(let values): array(8, values.map(text))
    }
  }

  package var file: [UInt8] {
    var head = Array("GGUF".utf8) + Self.number(3, 4) + Self.number(tensors.count, 8)
    head += Self.number(pairs.count, 8)
    for (key, value) in pairs { head += Self.text(key) + Self.bytes(value) }
    var data: [UInt8] = []
    for tensor in tensors {
      head += Self.text(tensor.name) + Self.number(tensor.shape.count, 4)
      head += tensor.shape.reversed().flatMap { Self.number($0, 8) }
      head += Self.number(tensor.type, 4) + Self.number(data.count, 8)
      data += tensor.bytes
      data += [UInt8](repeating: 0, count: -data.count & 31)
    }
    return head + [UInt8](repeating: 0, count: -head.count & 31) + data
  }
}
