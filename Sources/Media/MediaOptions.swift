// What of a model that takes more than text is used.

/// Which encoders of a checkpoint are used, and when they are made ready.
package struct MediaOptions: Sendable, Equatable {
  package var vision = true
  package var audio = true
  /// Whether an encoder's weights are first read when they are first needed. They are mapped in any case: what is not
  /// read takes no memory.
  package var isLazy = true

  package init() {}
}
