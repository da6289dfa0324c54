// Floats rounded as MLX does: every code, scale and bias of `mx.quantize`, in all modes, widths and types.

import Checkpoint
import Platform
import Support
import Testing

@testable import Checkpoint
@testable import Compute
@testable import Conversion

@Suite struct QuantizerTests {
  /// Rows that MLX's CPU gives wrapped exponents, which are no numbers that anybody can use.
  private static let wrapped: Set<Int> = [18, 19]

  private struct Golden {
    let file: Safetensors
    private var places: [String: Int] = [:]

    init(_ path: String) throws {
      file = try Safetensors(path: path)
      for index in 0..<file.count { places[file.tensorName(index)] = index }
    }

    var names: [String] { places.keys.sorted() }
    func tensor(_ name: String) -> TensorView? { places[name].flatMap(file.tensor) }
    func bytes(_ name: String) -> [UInt8] { tensor(name).map { Array($0.bytes) } ?? [] }
  }

  private static func quantization(_ parts: [Substring]) -> Quantization? {
    if parts[0] == "affine", let bits = Int(parts[2].dropFirst()), let size = Int(parts[3].dropFirst()) {
      return Quantization(bits: bits, groupSize: size)
    }
    return Quantization.Mode(rawValue: String(parts[0])).map(ConversionOptions.usual)
  }

  /// - Returns: how many cases there were.
  private func compare(_ path: String) throws -> Int {
    let golden = try Golden(path)
    let compute = try ComputeContext(threads: 2)
    var cases = 0
    for name in golden.names where name.hasSuffix(".q") {
      let parts = name.split(separator: ".")
      let types: [Substring: DType] = ["f32": .f32, "f16": .f16, "bf16": .bf16]
      let quantization = try #require(Self.quantization(parts))
      let type = try #require(types[parts[1]])
      let weight = try #require(golden.tensor("w.\(parts[1])"))
      let rows = weight.shape[0]
      let encoded = try compute.encode(
        WeightTensors(dense: weight), rows: 0..<rows,
        as: .rounded(Quantizer(quantization, dtype: type), first: nil))
      let stem = String(name.dropLast(2))
      let expected = ["q", "scales", "biases"].map { golden.bytes(stem + "." + $0) }
      for (part, bytes) in zip(encoded.parts, expected) {
        let found = Array(encoded.bytes[part])
        #expect(found.count == bytes.count, "\(stem)")
        guard found.count == bytes.count, rows > 0 else { continue }
        let size = bytes.count / rows
        let wrong = (0..<rows).filter { row in
          (quantization.mode == .affine || !Self.wrapped.contains(row))
            && found[row * size..<(row + 1) * size] != bytes[row * size..<(row + 1) * size]
        }
        #expect(wrong.isEmpty, "\(stem)")
      }
      cases += 1
    }
    return cases
  }

  @Test func `codes, scales and biases are MLX's in 27 cases of 64 columns`() throws {
    #expect(try compare(TestData.fixtures + "/conversion/mxquantize.safetensors") == 27)
  }

  @Test(.enabled(if: TestData.shared != nil, "the shared data folder is absent"))
  func `codes, scales and biases are MLX's in all 63 cases of 256 columns`() throws {
    let shared = try #require(TestData.shared)
    #expect(try compare(shared + "/formats/mxquantize/mxquantize.safetensors") == 63)
  }

  @Test(arguments: [DType.f32, .f16, .bf16])
  func `a number that is not finite is refused with its place`(type: DType) throws {
    let compute = try ComputeContext(threads: 2)
    var values = [Float](repeating: 0.5, count: 128)
    values[77] = .infinity
    let tensors = WeightTensors(dense: TensorView(name: "w", shape: [2, 64], floats: values))
    #expect(throws: ComputeError.self) {
      _ = try compute.encode(
        tensors, rows: 0..<2,
        as: .rounded(Quantizer(Quantization(bits: 4, groupSize: 64), dtype: type), first: nil))
    }
    do {
      _ = try compute.encode(tensors, rows: 0..<2, as: .floats(type))
    } catch {
      #expect("\(error)".contains("element [1, 13]"))
    }
  }

  @Test(arguments: [2, 3, 4, 6, 8])
  func `searched scales never have a larger error than MLX's`(bits: Int) throws {
    let compute = try ComputeContext(threads: 2)
    var random = SeededGenerator(seed: 7)
    let count = 64 * 256
    let values = (0..<count).map { _ in
      // A sum of a few is near a normal distribution.
      (0..<6).reduce(Float(0)) { sum, _ in sum + Float.random(in: -1...1, using: &random) }
    }
    let tensors = WeightTensors(dense: TensorView(name: "w", shape: [64, 256], floats: values))
    func error(_ importance: [Float]) throws -> Double {
      let quantizer = Quantizer(Quantization(bits: bits, groupSize: 64), dtype: .bf16, importance: importance)
      let encoded = try compute.encode(tensors, rows: 0..<64, as: .rounded(quantizer, first: nil))
      return (encoded.misses / encoded.squares).squareRoot()
    }
    let (plain, searched) = (try error([]), try error([Float](repeating: 1, count: 256)))
    #expect(searched <= plain)
    if bits == 2 { #expect(searched < 0.35 && plain > 0.37) }
  }
}
