// The golden checkpoints there are: those of the package, and those of the shared data where it is present.

import JSON
import Media
import Models
import Platform
import Support
import Testing

/// A folder with config.json, weights, and what a reference implementation computed from them in float32.
struct GoldenFolder: Sendable, CustomTestStringConvertible {
  let path: String
  /// Top-level keys of `expected.json`.
  private let resultNames: Set<String>

  var name: String { path.split(separator: "/").last.map(String.init) ?? path }
  var testDescription: String { path.split(separator: "/").suffix(2).joined(separator: "/") }

  private init?(path: String) {
    self.path = path
    guard let config = try? Self.document(path + "/config.json"),
      let type = config["model_type"]?.stringValue, ModelFamily.supportedTypes.contains(type),
      let expected = try? Self.document(path + "/expected.json")
    else { return nil }
    resultNames = Set((expected.objectValue?.entries ?? []).map(\.key))
  }

  /// The golden of models that hear.
  static let speech = GoldenFolder(speech: TestData.fixtures + "/speech/whisper-tiny")

  private init(speech path: String) { (self.path, resultNames) = (path, []) }

  /// Every golden under `place` whose family can be loaded.
  private static func folders(in place: String) -> [GoldenFolder] {
    ((try? File.names(in: place)) ?? []).sorted().compactMap { GoldenFolder(path: place + "/" + $0) }
  }

  /// Goldens of decoders in the package.
  static let fixtures = folders(in: TestData.fixtures + "/models").filter(\.isDecoder)

  /// A golden of the package.
  static func fixture(_ name: String) throws -> GoldenFolder {
    try #require(GoldenFolder(path: TestData.fixtures + "/models/" + name))
  }

  /// Every golden there is; a name can be in several places, with other values.
  static let all =
    folders(in: TestData.fixtures + "/models")
    + (TestData.shared.map { folders(in: $0 + "/goldens") + folders(in: $0 + "/families") } ?? [])

  static let decoders = all.filter(\.isDecoder)
  /// Checkpoints in the layouts of other tools.
  static let layouts = TestData.shared.map { folders(in: $0 + "/formats/layouts") } ?? []
  /// Goldens with an image, what a tower makes of it, and the logits of a prompt with both.
  static let towers = all.filter { $0.resultNames.contains("mm_input_ids") }
  /// Goldens of models that see, whose images are files.
  static let vision = folders(in: TestData.fixtures + "/vision")
  /// Goldens with `images.json`: positions that see each other.
  static let groups = all.filter { File.exists($0.path + "/images.json") }

  /// Whether logits and greedy tokens of a prompt are known; embedding models have neither.
  private var isDecoder: Bool { resultNames.contains("greedy") || resultNames.contains("text_greedy") }

  static func document(_ path: String) throws -> JSONValue {
    try JSONValue(parsing: try File.read(path, limit: 1 << 24))
  }

  func config() throws -> JSONValue { try Self.document(path + "/config.json") }
  func expected() throws -> JSONValue { try Self.document(path + "/expected.json") }

  /// An integer in config.json, by the keys that lead to it.
  func setting(_ keys: String...) throws -> Int {
    let value = keys.reduce(try config() as JSONValue?) { $0?[$1] }
    return try #require(value?.intValue, "\(testDescription): config.json \(keys)")
  }

  /// Elements of a row of hidden state.
  func hidden() throws -> Int {
    let config = try config()
    return try #require((config["text_config"] ?? config)["hidden_size"]?.intValue)
  }

  /// The tokens around media, whose ids config.json gives by these names.
  func marks(opening: String, soft: String, closing: String) throws -> MediaMarks {
    func id(_ name: String) throws -> Int32 { Int32(try setting(name + "_token_id")) }
    return MediaMarks(opening: try id(opening), soft: try id(soft), closing: try id(closing))
  }

  /// A tensor of `expected.safetensors`.
  func array(_ name: String) throws -> GoldenArray {
    let (shape, bytes) = try elements(name, "F32", size: 4)
    let values = stride(from: bytes.startIndex, to: bytes.endIndex, by: 4).map { at in
      Float(bitPattern: bytes[at..<at + 4].reversed().reduce(0) { $0 << 8 | UInt32($1) })
    }
    return GoldenArray(shape: shape, values: values)
  }

  /// An image of `expected.safetensors`, `[height][width][3]`.
  func pixels(_ name: String) throws -> PixelImage {
    let (shape, bytes) = try elements(name, "U8", size: 1)
    try #require(shape.count == 3 && shape[2] == 3)
    return PixelImage(width: shape[1], height: shape[0], pixels: Array(bytes))
  }

  /// Integers of `expected.safetensors`, row by row.
  func integers(_ name: String) throws -> [Int32] {
    let bytes = try elements(name, "I32", size: 4).bytes
    return stride(from: bytes.startIndex, to: bytes.endIndex, by: 4).map { at in
      Int32(bitPattern: bytes[at..<at + 4].reversed().reduce(0) { $0 << 8 | UInt32($1) })
    }
  }

  /// Whether `expected.safetensors` has a tensor of that name.
  func has(_ name: String) throws -> Bool { try tensors(of: "expected.safetensors").header[name] != nil }

  private func elements(
    _ name: String, _ type: String, size: Int
  ) throws -> (shape: [Int], bytes: ArraySlice<UInt8>) {
    let (header, data) = try tensors(of: "expected.safetensors")
    let entry = try #require(header[name], "\(testDescription): expected.safetensors has no '\(name)'")
    let shape = (entry["shape"]?.arrayValue ?? []).compactMap(\.intValue)
    let offsets = (entry["data_offsets"]?.arrayValue ?? []).compactMap(\.intValue)
    try #require(entry["dtype"]?.stringValue == type && offsets.count == 2)
    try #require(offsets[0] >= 0 && offsets[0] + size * shape.reduce(1, *) == offsets[1])
    try #require(offsets[1] <= data.count)
    return (shape, data[data.startIndex + offsets[0]..<data.startIndex + offsets[1]])
  }

  /// Which reaches of the audio tower's attention have results, in rows: `12` where there is `audio_soft_12keys`.
  func audioReaches() throws -> [Int] {
    (try tensors(of: "expected.safetensors").header.objectValue?.entries ?? []).map(\.key)
      .filter { $0.hasPrefix("audio_soft_") && $0.hasSuffix("keys") }
      .compactMap { Int($0.dropFirst("audio_soft_".count).dropLast("keys".count)) }.sorted()
  }

  /// The header and the data of a safetensors file. The product's reader is stricter: the references write a null for
  /// metadata that they do not have.
  func tensors(of file: String) throws -> (header: JSONValue, data: ArraySlice<UInt8>) {
    let bytes = try File.read(path + "/" + file, limit: 1 << 24)
    let length = bytes.prefix(8).reversed().reduce(0) { $0 << 8 | Int($1) }
    try #require(bytes.count > 8 && length <= bytes.count - 8)
    return (try JSONValue(parsing: Array(bytes[8..<8 + length])), bytes[(8 + length)...])
  }
}

/// The trait of tests that need a golden with towers.
let haveTowers: ConditionTrait = .enabled(if: !GoldenFolder.towers.isEmpty, "shared test data is absent")

/// A tensor of results, in row-major order.
struct GoldenArray {
  let shape: [Int]
  let values: [Float]

  var rows: [[Float]] {
    let columns = max(1, shape.last ?? 1)
    return stride(from: 0, to: values.count, by: columns).map { Array(values[$0..<$0 + columns]) }
  }
}

/// The integers of a JSON array as token ids.
func tokenIDs(_ value: JSONValue?) -> [Int32] {
  (value?.arrayValue ?? []).compactMap { $0.intValue.map { Int32($0) } }
}

/// The numbers of a JSON array.
func numbers(_ value: JSONValue?) -> [Float] {
  (value?.arrayValue ?? []).compactMap { $0.doubleValue.map { Float($0) } }
}

/// A golden's prompt with an image and an audio clip, and the soft tokens that take the places of their marks.
struct MediaPrompt {
  let ids: [Int32]
  /// Soft tokens by position.
  private var soft: [Int: [Float]] = [:]

  init(_ golden: GoldenFolder, image: [[Float]], audio: [[Float]]) throws {
    ids = tokenIDs(try golden.expected()["mm_input_ids"])
    for (name, rows) in [("image", image), ("audio", audio)] {
      let mark = Int32(try golden.setting(name + "_token_id"))
      let positions = ids.indices.filter { ids[$0] == mark }
      try #require(positions.count == rows.count, "\(golden.testDescription): soft tokens of \(name)")
      for (position, row) in zip(positions, rows) { soft[position] = row }
    }
  }

  /// Logits of every token, prefilled in chunks of `chunk` tokens.
  func logits(_ runner: Runner, chunk: Int = .max) -> [[Float]] {
    let table = runner.makeTable(ids.count)
    return stride(from: 0, to: ids.count, by: min(chunk, ids.count)).flatMap { start in
      let places = start..<start + min(chunk, ids.count - start)
      var span = Batch.Span(tokens: Array(ids[places]), start: start, blocks: table, logits: .all)
      span.soft = places.compactMap { place in
        soft[place].map { Batch.SoftRows(row: place - start, values: $0[...]) }
      }
      return runner.step([span])
    }
  }
}
