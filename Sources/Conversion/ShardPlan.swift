// How outputs are spread over safetensors files, and the header of each.

import Compute
import JSON
import Platform

/// One file of weights, before it is written.
struct ShardPlan: Sendable, Equatable {
  let name: String
  /// Which of the plan's outputs it holds.
  let outputs: Range<Int>
  /// Length, JSON and padding.
  let header: [UInt8]
  /// Where the tensors of each output begin in the file.
  let offsets: [[Int]]
  /// Of the whole file.
  let bytes: Int

  /// As mlx-lm cuts: what would pass the limit begins another file. A matrix's parts stay together.
  ///
  /// - Throws: `.badOption` for sizes that no file can have.
  static func all(_ outputs: [ConversionPlan.Output], limit: Int) throws(ConversionError) -> [ShardPlan] {
    var cuts = [0]
    var size = 0
    for (index, output) in outputs.enumerated() {
      let (sum, overflow) = size.addingReportingOverflow(output.bytes)
      guard !overflow else { throw .badOption("the model has more bytes than a file system has room for") }
      size = sum
      if size > limit, index > (cuts.last ?? 0) {
        cuts.append(index)
        size = output.bytes
      }
    }
    let ranges = zip(cuts, cuts.dropFirst() + [outputs.count]).map { $0..<$1 }
    return ranges.enumerated().map { index, range in
      ShardPlan(ranges.count == 1 ? "model.safetensors" : Self.name(index + 1, ranges.count), outputs, range)
    }
  }

  private static func name(_ number: Int, _ count: Int) -> String {
    func digits(_ number: Int) -> String {
      let text = String(number)
      return String(repeating: "0", count: max(0, 5 - text.count)) + text
    }
    return "model-\(digits(number))-of-\(digits(count)).safetensors"
  }

  private init(_ name: String, _ all: [ConversionPlan.Output], _ range: Range<Int>) {
    var (places, end): ([[Int]], Int) = ([], 0)
    var header = JSONObject()
    header["__metadata__"] = ["format": "mlx"]
    for output in all[range] {
      var own: [Int] = []
      for (index, bytes) in output.byteCounts.enumerated() {
        let entry: JSONValue = [
          "dtype": .string(output.dtypes[index].rawValue),
          "shape": .array(output.shapes[index].map(JSONValue.int)),
          "data_offsets": [.int(end), .int(end + bytes)],
        ]
        header[output.names[index]] = entry
        own.append(end)
        end += bytes
      }
      places.append(own)
    }
    var text = JSONValue.object(header).bytes
    // Data begins at a multiple of 8.
    text += [UInt8](repeating: UInt8(ascii: " "), count: (8 - text.count % 8) % 8)
    let length = UInt64(text.count)
    let start = 8 + text.count
    (self.name, outputs) = (name, range)
    self.header = (0..<8).map { UInt8(truncatingIfNeeded: length >> UInt64(8 * $0)) } + text
    offsets = places.map { $0.map { start + $0 } }
    bytes = start + end
  }
}
