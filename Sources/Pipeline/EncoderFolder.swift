// What can be known of a folder without loading it.

import Checkpoint

extension LoadedModel {
  /// Whether a folder's model makes vectors of texts.
  package static func makesVectors(_ path: String) -> Bool { (try? ModelFolder(path: path))?.task == .embed }
}
