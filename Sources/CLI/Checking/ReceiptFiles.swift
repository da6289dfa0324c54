// Files with receipts: a receipt, an answer that carries some, a stream as it was received, or lines of these.

import Compute
import Inference
import JSON
import Pipeline
import Platform

enum ReceiptFiles {
  /// A recording of a day may be large.
  private static let limit = 1 << 30

  /// The values of a file, one for each line where it is not one as a whole.
  static func values(_ path: String) throws -> [JSONValue] {
    let bytes = try File.read(path, limit: limit)
    if let whole = try? JSONValue(parsing: bytes) { return [whole] }
    return bytes.split(separator: UInt8(ascii: "\n")).compactMap { line in
      // Events of a stream.
      let mark = Array("data: ".utf8)
      return try? JSONValue(parsing: Array(line.starts(with: mark) ? line.dropFirst(mark.count) : line))
    }
  }

  /// - Throws: for a file without any.
  static func receipts(_ path: String) throws -> [Receipt] {
    let found = try values(path).flatMap { Receipt.all(in: $0) }
    guard !found.isEmpty else {
      throw PipelineError.receipt(
        "\(Terminal.safe(path)) holds no receipt: ask for one with \"receipt\": true")
    }
    return found
  }

  /// How a model computes as it did for a receipt, where no flag says otherwise.
  private static func configuration(_ flags: ParsedFlags, like receipt: Receipt?) throws
    -> EngineConfiguration
  {
    guard flags.isSet(.model) else {
      throw UsageError.missingFlag(
        "model", hint: "answers are computed again; --explain alone compares two receipts")
    }
    var configuration = try Loading.engineConfiguration(flags)
    if !flags.isSet(.compute) {
      switch receipt?.members["arithmetic"]?.stringValue?.prefix(while: { $0 != "-" }) {
      case "exact": configuration.computeMode = .exact
      case "fine": configuration.computeMode = .fine
      default: break
      }
    }
    if !flags.isSet(.kvCacheType) {
      configuration.kvFormat = receipt?.members["cache"]?.stringValue.flatMap(KVFormat.init)
    }
    return configuration
  }

  /// The model as it computes for a receipt: where its floats were added up on another level, that one is taken.
  static func load(
    _ flags: ParsedFlags, like receipt: Receipt?
  ) throws -> (model: LoadedModel, engine: EngineClient) {
    var configuration = try configuration(flags, like: receipt)
    let loaded = try load(configuration)
    let wanted = receipt?.members["arithmetic"]?.stringValue ?? ""
    guard !flags.isSet(.isa), wanted != loaded.model.identity.arithmetic else { return loaded }
    configuration.isa =
      wanted.hasSuffix("-portable") ? .portable : wanted.hasSuffix("-avx512") ? .avx512 : .avx2
    guard let isa = configuration.isa, CPUFeatures.available.contains(isa) else { return loaded }
    loaded.engine.stop()
    return try load(configuration)
  }

  private static func load(_ configuration: EngineConfiguration) throws -> (
    model: LoadedModel, engine: EngineClient
  ) {
    try Terminal.showingProgress("loading \(configuration.modelPath)") {
      try LoadedModel.load(configuration)
    }
  }

  /// A sentence, wrapped as wide as the terminal is.
  static func tell(_ words: String, after head: String) {
    Terminal.print(
      Paragraph.wrapped(Terminal.safe(words), after: head, column: 4, width: Terminal.textWidth))
  }
}
