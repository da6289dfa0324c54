// The forms in which the fast mode quantizes activations, by the weights that they meet.

import KernelTypes

/// The forms in which rows of activations are quantized; weights of a stack may need several.
struct Int8Layout: Equatable {
  /// Elements per scale: 32 or 64.
  let block: Int
  /// Bits of a weight as the kernels multiply it: 4 or 8. Others are rewritten as the next of these.
  let bits: Int
  let order: Int8Order

  /// The form that `matrix` needs; nil when no integer kernel takes it, or its rows are so short that the error of
  /// one scale for all of a row shows (docs/decisions/005) and its time does not.
  init?(_ matrix: WeightStorage) {
    guard case .quantized(let packed) = matrix, packed.columns > 64 else { return nil }
    switch packed.mode {
    case .affine: block = min(packed.groupSize, Int8Block.limit)
    // Two groups of 16 make a block.
    case .mxfp4,
      .nvfp4 where packed.columns % 32 == 0:
      block = 32
    case .mxfp8, .nvfp4: return nil
    }
    bits = packed.bits <= 4 ? 4 : 8
    order = bits == 4 ? .evenOdd : .natural
  }

  static let count = 4
  /// Distinguishes the forms, in `0 ..< count`.
  var index: Int { (block == 64 ? 2 : 0) + (order == .evenOdd ? 1 : 0) }
}
