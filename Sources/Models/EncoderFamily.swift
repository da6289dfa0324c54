// From config.json's model_type to the class that encodes texts with it.

package import Checkpoint
package import Compute

/// The table of encoders of texts. `docs/models.md` lists the same names for people.
package enum EncoderFamily {
  private typealias Make =
    @Sendable (_ type: String, _ config: ConfigFields, _ weights: LayerLoader) throws(ModelError) ->
    any TextEncoder

  /// Values of `model_type`, what runs them, and the pooling where no file says one.
  private static let table: [(types: [String], pooling: Pooling, make: Make)] = [
    (
      ["bert", "mpnet", "roberta", "xlm-roberta"], .mean,
      { type, config, weights throws(ModelError) in try Bert(type, config, weights) }
    ),
    (
      ["embedding_gemma2", "embedding_gemma2_text"], .mean,
      { _, config, weights throws(ModelError) in
        try EmbeddingGemma2(try config.object("text_config") ?? config, weights)
      }
    ),
    (
      ["gemma3_text"], .mean,
      { _, config, weights throws(ModelError) in
        DecoderEncoder(try Gemma3.decoder(config, encodes: true, weights), isBidirectional: true)
      }
    ),
    (
      ["gte", "new"], .cls,
      { type, config, weights throws(ModelError) in try NomicBert(type, config, weights) }
    ),
    (
      ["modernbert"], .mean,
      { _, config, weights throws(ModelError) in try ModernBert(config, weights) }
    ),
    (
      ["nomic_bert"], .mean,
      { type, config, weights throws(ModelError) in try NomicBert(type, config, weights) }
    ),
    (
      ["qwen3"], .lastToken,
      { _, config, weights throws(ModelError) in
        DecoderEncoder(
          try Qwen3.decoder(config, weights), classifier: try ClassifierHead.lastToken(config, weights))
      }
    ),
  ]

  /// The values of `model_type` that `load` accepts.
  package static let supportedTypes = table.flatMap(\.types).sorted()

  /// Binds a checkpoint's tensors to its encoder.
  ///
  /// - Parameters:
  ///   - answers: what a decoder without a classifier answers with, where it scores pairs.
  ///   - arena: where weights are copied; nil for one of the model's own.
  /// - Throws: `ModelError` naming the config key, tensor or file that does not fit.
  package static func load(
    _ folder: ModelFolder, answers: AnswerTokens? = nil, compute: ComputeContext, arena: PanelArena? = nil
  ) throws(ModelError) -> SentenceEncoder {
    let config = ConfigFields(folder.config)
    guard let type = try config.string("model_type") else { throw .missingKey("model_type") }
    guard let family = table.first(where: { $0.types.contains(type) }) else {
      throw .unsupportedFamily(type: type, supported: supportedTypes)
    }
    let sentences = try loading(try SentenceFolder(folder))
    let arena = arena ?? compute.makeArena(identity: folder.mappedFiles.identity)
    let weights = LayerLoader(folder.weights, compute: compute, arena: arena)
    let encoder = try family.make(type, config, weights)
    if let answers, let decoder = encoder as? DecoderEncoder { try decoder.judge(answers) }
    return try SentenceEncoder(
      encoder, sentences,
      defaultPooling: folder.ggufPooling ?? Self.pooling(folder.name, family.pooling), folder: folder,
      compute: compute)
  }

  /// Models whose folders were converted without their pooling: those trained on their first token are known by name.
  private static func pooling(_ name: String, _ usual: Pooling) -> Pooling {
    let name = name.lowercased()
    let marks = ["bge", "gte-modernbert", "arctic", "mxbai"]
    return usual == .mean && marks.contains(where: name.contains) ? .cls : usual
  }
}
