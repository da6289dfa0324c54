// Layouts of other tools whose settings and shapes say anything: a matrix, or words that say what is wrong.

import Compute
import JSON
import Testing

@testable import Checkpoint

@Suite struct HostileLayoutTests {
  private static let numbers: [Int] = [
    -1, 0, 1, 3, 32, 64, 1 << 31, 1 << 58, 1 << 62, .max - 31, .max, .min,
  ]
  private static let rows = 64
  private static let columns = 64

  private static let methods: [(config: JSONObject, tensors: [(name: String, dtype: String, shape: [Int])])] =
    [
      (
        JSONObject([("quant_method", "gptq"), ("bits", 4), ("group_size", 32)]),
        [
          ("qweight", "I32", [8, 64]), ("qzeros", "I32", [2, 8]), ("scales", "F16", [2, 64]),
          ("g_idx", "I32", [64]),
        ]
      ),
      (
        JSONObject([("quant_method", "awq"), ("bits", 4), ("group_size", 32)]),
        [("qweight", "I32", [64, 8]), ("qzeros", "I32", [2, 8]), ("scales", "F16", [2, 64])]
      ),
      (
        JSONObject([("quant_method", "awq"), ("bits", 4), ("group_size", 32), ("version", "gemv")]),
        [("qweight", "I32", [64, 8]), ("qzeros", "I32", [64, 1]), ("scales", "F16", [64, 8])]
      ),
      (
        JSONObject([("quant_method", "compressed-tensors"), ("format", "pack-quantized")]),
        [("weight_packed", "I32", [64, 8]), ("weight_scale", "F16", [64, 2])]
      ),
      (
        JSONObject([("quant_method", "compressed-tensors"), ("format", "int-quantized")]),
        [("weight", "I8", [64, 64]), ("weight_scale", "F16", [64, 2])]
      ),
      (
        JSONObject([("quant_method", "bitsandbytes"), ("load_in_8bit", true)]),
        [("weight", "I8", [64, 64]), ("SCB", "F32", [64])]
      ),
    ]

  /// Whether the module opens.
  private func opens(_ config: JSONObject, _ tensors: [TestTensor]) throws -> Bool {
    let file: JSONValue = ["quantization_config": .object(config)]
    let folder = try TestFolder(["model.safetensors": safetensors(tensors), "config.json": file.bytes])
    do {
      _ = try ModelFolder(path: folder.path).weights.linear("m", rows: Self.rows, columns: Self.columns)
      return true
    } catch {
      return false
    }
  }

  private func tensors(_ named: [(name: String, dtype: String, shape: [Int])]) -> [TestTensor] {
    named.map { tensor in
      // No input is in another group than its place says.
      let isIndex = tensor.name == "g_idx"
      // Scales are finite.
      let width = isIndex || tensor.dtype == "F32" ? 4 : tensor.dtype == "F16" ? 2 : 0
      let zeros = width > 0 ? [UInt8](repeating: 0, count: width * tensor.shape.reduce(1, *)) : nil
      return TestTensor("m." + tensor.name, tensor.dtype, tensor.shape, data: zeros)
    }
  }

  @Test(arguments: methods.indices)
  func `any number in the settings is refused or used`(method: Int) throws {
    let (config, named) = Self.methods[method]
    #expect(try opens(config, tensors(named)))
    for key in ["bits", "group_size"] {
      for number in Self.numbers {
        var changed = config
        changed[key] = .int(number)
        _ = try opens(changed, tensors(named))
      }
    }
  }

  @Test(arguments: methods.indices)
  func `a tensor without bytes may have any shape`(method: Int) throws {
    let (config, named) = Self.methods[method]
    for index in named.indices {
      for dtype in [named[index].dtype, "I8", "BOOL", "F16"] {
        for large in [1 << 20, 1 << 40, 1 << 55, 1 << 58, 1 << 59, .max - 127, .max] {
          for shape in [[0, large], [large, 0], [0], [large, 0, 1]] {
            var changed = tensors(named)
            changed[index] = TestTensor("m." + named[index].name, dtype, shape, data: [])
            #expect(try !opens(config, changed) || named[index].name == "g_idx")
          }
        }
      }
    }
  }
}
