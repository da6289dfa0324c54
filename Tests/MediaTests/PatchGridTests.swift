// Sizes of images in front of the model.

import Media
import Testing

@Suite struct PatchGridTests {
  private let grid = PatchGrid(patch: 16, pooling: 3, tokens: 280, positions: 10_240)

  @Test(arguments: [
    (640, 480, 912, 672, 266), (1920, 1080, 1056, 576, 264), (768, 768, 768, 768, 256),
    (2000, 3000, 624, 960, 260), (100, 100, 768, 768, 256), (1000, 10, 8016, 48, 167),
    (1000, 2, 13440, 48, 280), (2, 1000, 48, 13440, 280),
  ])
  func `images are brought to whole blocks within the budget`(
    width: Int, height: Int, newWidth: Int, newHeight: Int, tokens: Int
  ) throws {
    let size = try grid.size(width: width, height: height, tokens: 280)
    #expect(size.width == newWidth)
    #expect(size.height == newHeight)
    #expect(grid.tokenCount(width: size.width, height: size.height) == tokens)
  }

  @Test func `an image beyond the model's positions is refused`() {
    let small = PatchGrid(patch: 16, pooling: 3, tokens: 280, positions: 64)
    #expect(throws: MediaError.unusableShape(width: 1000, height: 10)) {
      try small.size(width: 1000, height: 10, tokens: 280)
    }
  }
}
