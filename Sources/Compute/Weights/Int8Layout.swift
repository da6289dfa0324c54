// The forms in which the fast mode quantizes activations, by the weights that they meet.

import KernelTypes

/// The forms in which rows of activations are quantized; weights of a stack may need several.
struct Int8Layout: Equatable {
  /// Elements per scale: 16, 32 or 64.
  let block: Int
  /// Bits of a weight as the kernels multiply it: 4 or 8. Others are rewritten as the next of these.
  let bits: Int
  let order: Int8Order
  /// Whether activations have twelve bits (`WideQuantizer`).
  let isWide: Bool

  /// The form that `matrix` needs; nil when no integer kernel takes it, or its rows are so short that the error of
  /// one scale for all of a row shows (docs/decisions/005) and its time does not.
  init?(_ matrix: WeightMatrix) {
    guard matrix.columns > 64 else { return nil }
    switch matrix.outline {
    case .dense, .blocks: return nil
    case .affine(let rows):
      block = min(rows.groups.size, Int8Block.limit)
      bits = rows.bits <= 4 ? 4 : 8
      isWide = false
    case .floating(let rows):
      // Two groups of nvfp4's 16 make a block. Under a scale of a whole row or matrix the integers of small elements would lose
      // what E4M3 has.
      guard rows.hasIntegers, rows.columns % 32 == 0 else { return nil }
      block = 32
      bits = rows.mode.bits
      isWide = rows.isWide
    }
    order = bits == 4 ? .evenOdd : .natural
    index = isWide ? 4 : block == 16 ? 5 : (block == 64 ? 2 : 0) + (bits == 4 ? 1 : 0)
  }

  static let count = 6
  /// Distinguishes the forms, in `0 ..< count`.
  let index: Int
}
