// What a model folder is for: its files say whether it goes on with text, makes vectors, scores, or hears.

import JSON
import Platform

/// What a model can be used for.
package enum ModelPurpose: String, Sendable, CaseIterable {
  /// Text that goes on from a prompt.
  case chat
  /// Vectors of texts.
  case embed
  /// Scores of texts or of pairs of texts.
  case rerank
  /// Text of recordings.
  case transcribe
}

extension ModelFolder {
  /// What the files say. A decoder is a chat model unless something says that it was trained for vectors or scores: its
  /// config.json alone does not.
  package var task: ModelPurpose {
    let architecture = config["architectures"]?[0]?.stringValue ?? ""
    if architecture.hasSuffix("ForSequenceClassification") { return .rerank }
    if isGGUFReranker { return .rerank }
    if ggufPooling != nil { return .embed }
    let type = config["model_type"]?.stringValue ?? ""
    // MLX's examples write no type.
    if type == "whisper" || type.isEmpty && config["n_audio_state"] != nil { return .transcribe }
    if Self.encoderTypes.contains(type) { return .embed }
    if config["use_bidirectional_attention"]?.boolValue == true { return .embed }
    let name = name.lowercased()
    if File.exists(path + "/modules.json") || File.exists(path + "/1_Pooling/config.json") { return .embed }
    guard type == "qwen3" else { return .chat }
    if name.contains("reranker") { return .rerank }
    return name.contains("embedding") ? .embed : .chat
  }

  /// Values of `model_type` of models that only encode.
  package static let encoderTypes: Set = [
    "bert", "embedding_gemma2", "embedding_gemma2_text", "gte", "modernbert", "mpnet", "new", "nomic_bert",
    "roberta", "xlm-roberta",
  ]
}
