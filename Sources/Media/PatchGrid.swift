// Into how many patches a picture is cut, and to which size it is brought first: Gemma 4's rules.

/// Square patches, pooled in square blocks into soft tokens.
package struct PatchGrid: Sendable, Equatable {
  /// Pixels of a patch's side.
  package var patch: Int
  /// Patches of a block's side; one block is one soft token.
  package var pooling: Int
  /// Most soft tokens of one image, unless the request says otherwise.
  package var tokens: Int
  /// Most patches of one side: the model knows no more positions.
  package var positions: Int

  package init(patch: Int, pooling: Int, tokens: Int, positions: Int) {
    (self.patch, self.pooling, self.tokens) = (patch, pooling, tokens)
    self.positions = positions
  }

  /// Budgets of soft tokens that the model was trained with.
  package static let budgets = [70, 140, 280, 560, 1120]

  /// Pixels of a block's side.
  package var side: Int { patch * pooling }

  /// The size to which an image is brought: whole blocks, as many as the budget allows, in nearly the same shape. Small
  /// images grow.
  ///
  /// - Throws: `unusableShape` for an image so narrow that it has no whole block.
  package func size(width: Int, height: Int, tokens: Int) throws(MediaError) -> (width: Int, height: Int) {
    let budget = Double(tokens * side * side)
    let factor = (budget / (Double(width) * Double(height))).squareRoot()
    func blocks(_ length: Int) -> Int { Int((factor * Double(length) / Double(side)).rounded(.down)) }
    func strip(_ long: Int, _ short: Int) -> Int { min(long / short, tokens) }
    var (columns, rows) = (blocks(width), blocks(height))
    if rows == 0, columns > 0 {
      (columns, rows) = (max(1, strip(width, height)), 1)
    } else if columns == 0, rows > 0 {
      (columns, rows) = (1, max(1, strip(height, width)))
    }
    guard columns > 0, rows > 0, max(columns, rows) * pooling <= positions else {
      throw .unusableShape(width: width, height: height)
    }
    return (columns * side, rows * side)
  }

  /// Soft tokens of an image of that size.
  package func tokenCount(width: Int, height: Int) -> Int { (width / side) * (height / side) }
}
