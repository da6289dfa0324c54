// What a family makes of an image before its tower sees it. Towers and processors of a family are one file in `Models`.

/// Brings images to the sizes that a tower takes, and says what stands around their soft tokens.
package protocol ImageProcessor: Sendable {
  /// What the chat template writes for an image.
  var placeholder: Int32 { get }
  /// The tokens of images, which texts from outside must not spell.
  var reserved: [Int32] { get }
  /// What stands before and after the placeholder in the text of a prompt, tokenized with its neighbours; empty for most.
  var margin: String { get }
  var budgets: ImageBudgets { get }

  /// - Parameters:
  ///   - tokens: most soft tokens; what cannot be made smaller may have more.
  ///   - claim: reserves this many bytes for what is made of the image; false when they are not to be had.
  /// - Throws: `unusableShape` or `noMemory`.
  func passage(
    of image: PixelImage, tokens: Int, claim: (_ bytes: Int) -> Bool
  ) throws(MediaError) -> MediaPassage
}

extension ImageProcessor {
  package var reserved: [Int32] { [placeholder] }
  package var margin: String { "" }

  /// The bytes of an image file as what the model's encoder reads.
  ///
  /// - Parameters:
  ///   - tokens: the budget of soft tokens; nil for the usual one.
  ///   - limits: what the decoder may take.
  /// - Throws: what is wrong with the bytes.
  package func passage(
    _ bytes: [UInt8], tokens: Int? = nil, limits: ImageLimits = ImageLimits()
  ) throws(MediaError) -> MediaPassage {
    let image = try ImageDecoder.decode(bytes, limits: limits)
    return try passage(of: image, tokens: tokens ?? budgets.usual, claim: limits.claim)
  }
}

/// Most soft tokens of an image by the level of detail that a request asks for.
package struct ImageBudgets: Sendable, Equatable {
  package let low, usual, high, most: Int

  package init(low: Int, usual: Int, high: Int, most: Int) {
    (self.low, self.usual, self.high, self.most) = (low, usual, high, most)
  }

  /// Each once.
  package var all: Set<Int> { [low, usual, high, most] }
}
