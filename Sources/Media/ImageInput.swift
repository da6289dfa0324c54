// Images as one grid of patches between two marks: Gemma 4's processor.

/// The image in its own shape, in whole blocks, each of which is a soft token.
package struct GridImages: ImageProcessor, Equatable {
  package let marks: MediaMarks
  /// Into which patches an image is cut, and how many tokens they make.
  package let grid: PatchGrid

  package init(marks: MediaMarks, grid: PatchGrid) { (self.marks, self.grid) = (marks, grid) }

  package var placeholder: Int32 { marks.soft }
  package var reserved: [Int32] { [marks.opening, marks.soft, marks.closing] }
  package var budgets: ImageBudgets {
    ImageBudgets(
      low: PatchGrid.budgets[0], usual: grid.tokens, high: PatchGrid.budgets[3], most: PatchGrid.budgets[4])
  }

  package func passage(
    of image: PixelImage, tokens: Int, claim: (_ bytes: Int) -> Bool
  ) throws(MediaError) -> MediaPassage {
    let size = try grid.size(width: image.width, height: image.height, tokens: tokens)
    let resized = try image.resized(width: size.width, height: size.height, claim: claim)
    let count = grid.tokenCount(width: size.width, height: size.height)
    return MediaPassage(MediaInput(content: .image(resized), tokenCount: count), between: marks)
  }
}
