// A guide that is made while the prompt is computed.

package import Decoding
import Platform

/// Filled once by who makes the guide; the engine computes all of the prompt that needs none meanwhile.
package final class LateGuide: Sendable {
  /// What was made, once that is so.
  private let made = Monitor<Guide??>(nil)

  package init() {}

  /// Tells what was made; nil where the answer may be anything.
  package func fill(_ guide: Guide?) { made.withLock { $0 = .some(guide) } }

  /// Nil while it is being made; then what the answer may say, which may be anything.
  package var guide: Guide?? { made.withLock { $0 } }
}
