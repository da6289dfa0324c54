// Images and audio in the engine: encoded a share per turn, so that others go on meanwhile.

import Media
import Models

extension Engine {
  /// Computes a share of what the oldest sequence that waits for an encoder needs next.
  func encodeMedia() {
    guard let sequence = running.first(where: { $0.missingMedia != nil && !standsStill($0) }),
      let index = sequence.missingMedia
    else {
      encoding = nil
      return
    }
    let input = sequence.request.media[index].input
    do throws(ModelError) {
      if encoding?.digest != input.digest {
        guard let encoder = model.encoder(for: input.kind) else {
          throw .unusableMedia("the model takes no input of the kind '\(input.kind.rawValue)'")
        }
        encoding = (input.digest, try encoder.begin(input))
      }
      guard let soft = encoding?.run.advance() else { return }
      encoding = nil
      media.store(soft, of: input.digest)
      sequence.setSoft(soft, of: index)
    } catch {
      encoding = nil
      sequence.hasEnded = fail(sequence, .unusableMedia("\(error)"))
      leave(sequence)
      running.removeAll { $0.hasEnded }
    }
  }
}
