// `mlxserve embed`: vectors of texts, from arguments or from standard input, one a line.

import Inference
import JSON
import Pipeline
import Platform

enum EmbedCommand {
  /// Texts that are encoded at once.
  private static let batch = 64

  @Sendable static func run(_ given: ParsedFlags) throws -> Int32 {
    var flags = given
    flags.takeModel(several: false)
    if flags[.query], flags[.document] {
      throw UsageError.unusable(flag: "query", reason: "contradicts --document: give one of them")
    }
    let configuration = try Loading.engineConfiguration(flags)
    let (model, engine) = try Terminal.showingProgress("loading \(configuration.modelPath)") {
      try LoadedModel.open(configuration)
    }
    defer { engine.stop() }
    guard let embedder = model.embedder, embedder.service.limits.labels == 0 else {
      throw SearchFolderError.notAnEncoder(configuration.modelPath)
    }
    var options = Embedder.Options()
    options.prompt = flags[.query] ? .query : flags[.document] ? .document : .usual
    options.dimensions = flags[.dimensions]
    if flags[.similarity] {
      let texts = flags.arguments.isEmpty ? lines() : flags.arguments
      printSimilarity(try embedder.embed(texts.map { .text($0) }, options).vectors)
      return 0
    }
    if !flags.arguments.isEmpty {
      try printVectors(flags.arguments, embedder, options)
      return 0
    }
    var waiting: [String] = []
    while let line = readLine() {
      waiting.append(line)
      // On a terminal each line is answered; from a pipe, many at once are faster.
      guard waiting.count == batch || isatty(STDIN_FILENO) == 1 else { continue }
      try printVectors(waiting, embedder, options)
      waiting = []
    }
    try printVectors(waiting, embedder, options)
    return 0
  }

  private static func lines() -> [String] {
    var lines: [String] = []
    while let line = readLine() { lines.append(line) }
    return lines
  }

  private static func printVectors(
    _ texts: [String], _ embedder: Embedder, _ options: Embedder.Options
  ) throws {
    guard !texts.isEmpty else { return }
    let vectors = try embedder.embed(texts.map { .text($0) }, options).vectors
    for vector in vectors {
      var writer = JSONWriter()
      writer.write(vector)
      Terminal.print(String(decoding: writer.bytes, as: UTF8.self))
    }
  }

  /// Cosines, a row for each text.
  private static func printSimilarity(_ vectors: [[Float]]) {
    for a in vectors {
      Terminal.print(vectors.map { fixed(Double(Embedder.cosine(a, $0)), 4) }.joined(separator: "  "))
    }
  }
}
