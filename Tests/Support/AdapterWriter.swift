// Adapters for tests, written as mlx-lm and PEFT write them.

import Platform

/// Random pairs for some maps, as a folder.
package struct AdapterWriter {
  /// A map of a model.
  package struct Map {
    package let name: String
    package let rows, columns: Int

    package init(name: String, rows: Int, columns: Int) {
      (self.name, self.rows, self.columns) = (name, rows, columns)
    }
  }

  /// A tensor of float32.
  package struct Tensor {
    package var shape: [Int]
    package var values: [Float]

    package init(shape: [Int], values: [Float]) { (self.shape, self.values) = (shape, values) }
  }

  /// By name, in the order of the file.
  package var tensors: [(name: String, tensor: Tensor)] = []
  package var config: String
  private let isPEFT: Bool

  /// - Parameters:
  ///   - peft: in PEFT's names and orders.
  ///   - seed: of the numbers, which are the same in both forms.
  package init(_ maps: [Map], rank: Int = 4, scale: Float = 2, peft: Bool = false, seed: UInt64 = 1) {
    isPEFT = peft
    config =
      peft
      ? #"{"peft_type": "LORA", "r": \#(rank), "lora_alpha": \#(scale * Float(rank)), "bias": "none"}"#
      : #"{"fine_tune_type": "lora", "num_layers": -1, "lora_parameters": {"rank": \#(rank), "scale": \#(scale)}}"#
    var random = SeededGenerator(seed: seed)
    for map in maps {
      func numbers(_ count: Int, _ size: Float) -> [Float] {
        (0..<count).map { _ in Float.random(in: -size...size, using: &random) }
      }
      let down = numbers(rank * map.columns, 1 / Float(map.columns).squareRoot())
      let up = numbers(map.rows * rank, 0.2)
      if peft {
        let name = "base_model.model." + map.name
        tensors.append((name + ".lora_A.weight", Tensor(shape: [rank, map.columns], values: down)))
        tensors.append((name + ".lora_B.weight", Tensor(shape: [map.rows, rank], values: up)))
      } else {
        tensors.append(
          (
            map.name + ".lora_a",
            Tensor(shape: [map.columns, rank], values: Self.turned(down, rank, map.columns))
          ))
        tensors.append(
          (map.name + ".lora_b", Tensor(shape: [rank, map.rows], values: Self.turned(up, map.rows, rank))))
      }
    }
  }

  /// A matrix of `rows` rows by its columns.
  private static func turned(_ values: [Float], _ rows: Int, _ columns: Int) -> [Float] {
    (0..<columns * rows).map { values[$0 % rows * columns + $0 / rows] }
  }

  /// The bytes of the file of weights.
  package var weights: [UInt8] {
    var (header, data) = (["{"], [UInt8]())
    for (index, entry) in tensors.enumerated() {
      let start = data.count
      for value in entry.tensor.values { withUnsafeBytes(of: value.bitPattern.littleEndian) { data += $0 } }
      header.append(
        #"\#(index == 0 ? "" : ",")"\#(entry.name)":{"dtype":"F32","shape":\#(entry.tensor.shape),"data_offsets":[\#(start),\#(data.count)]}"#
      )
    }
    let bytes = Array((header.joined() + "}").utf8)
    return withUnsafeBytes(of: UInt64(bytes.count).littleEndian) { Array($0) } + bytes + data
  }

  /// Writes both files into a folder, which is made.
  package func write(to folder: String) throws {
    try File.makeFolders(folder)
    try File.replace(folder + "/adapter_config.json", with: Array(config.utf8))
    try File.replace(
      folder + (isPEFT ? "/adapter_model.safetensors" : "/adapters.safetensors"), with: weights)
  }

  /// Writes both files into a folder that is removed after `body`.
  @discardableResult
  package func whileWritten<Result>(_ body: (_ path: String) throws -> Result) throws -> Result {
    try withFolder { folder in
      try write(to: folder + "/adapter")
      return try body(folder + "/adapter")
    }
  }
}

/// Calls `body` with a new folder, and removes it afterwards.
@discardableResult
package func withFolder<Result>(_ body: (_ path: String) throws -> Result) throws -> Result {
  var template = Array("/tmp/mlxserve-folder-XXXXXX".utf8CString)
  let made = template.withUnsafeMutableBufferPointer { $0.baseAddress.flatMap(mkdtemp) }
  guard let path = made.map({ String(cString: $0) }) else {
    throw PlatformError.system(action: "make a folder", code: errno)
  }
  defer { try? File.removeAll(path) }
  return try body(path)
}
