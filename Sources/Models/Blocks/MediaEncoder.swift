// What the engine knows of encoders: images and audio in, soft tokens out, in shares that leave room for other work.

package import Media

/// Turns images or audio into soft tokens. Engine thread only.
package protocol MediaEncoder: AnyObject {
  /// Takes an input on. Memory is held until the encoding is let go.
  ///
  /// - Throws: when the input does not fit the encoder, or memory is short.
  func begin(_ input: MediaInput) throws(ModelError) -> any MediaEncoding

  /// Encodes something of little size, so that every weight is read.
  func readWeights() throws(ModelError)
}

/// An input on its way through the encoder.
package protocol MediaEncoding: AnyObject {
  /// Computes the next share, about one layer.
  ///
  /// - Returns: nil until the last share; then the soft tokens, `[input.tokenCount, hidden]`.
  func advance() -> [Float]?
}
