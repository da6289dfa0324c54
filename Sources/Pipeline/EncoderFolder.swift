// What can be known of a folder without loading it.

import Checkpoint

extension LoadedModel {
  /// Whether a folder's model goes on with text, as far as the folder can be read: what is wrong with it is told elsewhere.
  package static func generates(_ path: String) -> Bool { purpose(path) ?? .chat == .chat }
  /// Whether a folder's model makes vectors of texts.
  package static func makesVectors(_ path: String) -> Bool { purpose(path) == .embed }
  /// Whether a folder's model scores texts, or pairs of them.
  package static func makesScores(_ path: String) -> Bool { purpose(path) == .rerank }
  /// Whether a folder's model writes down recordings.
  package static func transcribes(_ path: String) -> Bool { purpose(path) == .transcribe }

  /// Whether a path leads to a GGUF file, or to a folder whose only model is one.
  package static func isGGUF(_ path: String) -> Bool { ModelFolder.isGGUF(path) }

  private static func purpose(_ path: String) -> ModelPurpose? { (try? ModelFolder(path: path))?.task }
}
