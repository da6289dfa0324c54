// Folders of encoders with what a reference computed from them: those of the package, and of the shared data where it is.

import Checkpoint
import Compute
import JSON
import Platform
import Support
import Testing

@testable import Models

/// A folder with config.json, weights and `expected.json`.
struct EncoderGolden: Sendable, CustomTestStringConvertible {
  let path: String
  let expected: JSONValue

  var testDescription: String { path.split(separator: "/").suffix(2).joined(separator: "/") }

  private init?(path: String) {
    self.path = path
    guard let config = try? GoldenFolder.document(path + "/config.json"),
      let expected = try? GoldenFolder.document(path + "/expected.json"),
      expected["cases"]?[0]?["input_ids"] != nil && expected["cases"]?[0]?["text"] != nil
        || expected["pairs"] != nil || expected["last_hidden_first"] != nil,
      EncoderFamily.supportedTypes.contains(config["model_type"]?.stringValue ?? "")
    else { return nil }
    self.expected = expected
  }

  private static func folders(in place: String) -> [EncoderGolden] {
    ((try? File.names(in: place)) ?? []).sorted().compactMap { EncoderGolden(path: place + "/" + $0) }
  }

  static let fixtures = folders(in: TestData.fixtures + "/models")
  static let all =
    fixtures + (TestData.shared.map { folders(in: $0 + "/search/tiny") + folders(in: $0 + "/goldens") } ?? [])

  static let sentences = all.filter { $0.expected["cases"]?[0]?["embedding"] != nil }
  static let pairs = all.filter { $0.expected["pairs"]?[0]?["logits"] != nil }
  static let judged = all.filter { $0.expected["pairs"]?[0]?["logit_yes"] != nil }
  static let sparse = all.filter { $0.expected["cases"]?[0]?["nonzero"] != nil }
  /// One text, its first and last state, and some poolings.
  static let states = all.filter { $0.expected["last_hidden_first"] != nil }

  var cases: [JSONValue] { expected["cases"]?.arrayValue ?? expected["pairs"]?.arrayValue ?? [] }

  func encoder(
    threads: Int = 1, isa: ISA? = nil, mode: ComputeMode = .exact, useReference: Bool = false
  ) throws -> SentenceEncoder {
    let compute = try ComputeContext(threads: threads, isa: isa, mode: mode, useReference: useReference)
    return try EncoderFamily.load(try ModelFolder(path: path), compute: compute)
  }
}

/// The tokens of a case; of a pair with the place where the second type begins.
func encoderText(_ golden: JSONValue, _ output: EncoderText.Output = .vector) -> EncoderText {
  let types = (golden["token_type_ids"]?.arrayValue ?? []).compactMap(\.intValue)
  return EncoderText(tokens: tokenIDs(golden["input_ids"]), second: types.firstIndex(of: 1), output: output)
}

/// The vector with the length 1.
func unit(_ vector: [Float]) -> [Float] {
  let length = vector.reduce(0.0) { $0 + Double($1) * Double($1) }.squareRoot()
  return vector.map { Float(Double($0) / max(length, 1e-12)) }
}
