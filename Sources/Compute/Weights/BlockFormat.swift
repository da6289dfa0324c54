// The block types of GGUF files: how many numbers of a row stand together, in how many bytes, and what they become.
//
// A block has its scale and its numbers side by side, which no kernel reads. Rows of blocks are turned into one of the forms
// that kernels read when they are needed: a panel at a time, once (`WeightCopying`), or a tile for a product. The layouts are
// those of llama.cpp (ggml-common.h); what each becomes is exact.

import KernelTypes

/// A block type, by its number in the file.
package enum BlockFormat: UInt32, Sendable, CaseIterable {
  case q40 = 2
  case q41 = 3
  case q50 = 6
  case q51 = 7
  case q80 = 8
  case q2K = 10
  case q3K = 11
  case q4K = 12
  case q5K = 13
  case q6K = 14
  case iq4NL = 20
  case iq4XS = 23
  case tq10 = 34
  case tq20 = 35
  case mxfp4 = 39
  case q10 = 41
  case q20 = 42

  /// As other programs spell it.
  package var name: String { facts.name }
  /// Numbers of a block.
  package var values: Int { facts.values }
  /// Bytes of a block.
  package var bytes: Int { facts.bytes }

  private var facts: (name: String, values: Int, bytes: Int) {
    switch self {
    case .q40: ("Q4_0", 32, 18)
    case .q41: ("Q4_1", 32, 20)
    case .q50: ("Q5_0", 32, 22)
    case .q51: ("Q5_1", 32, 24)
    case .q80: ("Q8_0", 32, 34)
    case .q2K: ("Q2_K", 256, 84)
    case .q3K: ("Q3_K", 256, 110)
    case .q4K: ("Q4_K", 256, 144)
    case .q5K: ("Q5_K", 256, 176)
    case .q6K: ("Q6_K", 256, 210)
    case .iq4NL: ("IQ4_NL", 32, 18)
    case .iq4XS: ("IQ4_XS", 256, 136)
    case .tq10: ("TQ1_0", 256, 54)
    case .tq20: ("TQ2_0", 256, 66)
    case .mxfp4: ("MXFP4", 32, 17)
    case .q10: ("Q1_0", 128, 18)
    case .q20: ("Q2_0", 64, 18)
    }
  }

  /// What kernels read in place of blocks.
  enum Form: Equatable {
    case affine(bits: Int, groupSize: Int, scales: FloatFormat)
    case mxfp4
  }

  /// The form for exact products, whose values are the file's: bytes, which take no packing, with float32 scales, because the
  /// product of two of the file's numbers is longer than a half has room for.
  var exactForm: Form {
    switch self {
    case .q40, .q41, .q50, .q51, .q80, .q4K, .q5K, .iq4NL, .iq4XS:
      .affine(bits: 8, groupSize: 32, scales: .f32)
    // A scale of 6 bits times a number of 3 has 8: of them and the block's one factor rows are made.
    case .q3K, .tq10, .tq20, .q10: .affine(bits: 8, groupSize: 128, scales: .f32)
    case .q20: .affine(bits: 8, groupSize: 64, scales: .f32)
    case .q2K, .q6K: .affine(bits: 8, groupSize: 16, scales: .f32)
    case .mxfp4: .mxfp4
    }
  }

  /// The form for products in integers.
  var fastForm: Form {
    switch self {
    case .q40, .q4K: .affine(bits: 4, groupSize: 32, scales: .f32)
    case .q41: .affine(bits: 4, groupSize: 32, scales: .f16)
    case .q50, .q5K: .affine(bits: 5, groupSize: 32, scales: .f32)
    case .q51: .affine(bits: 5, groupSize: 32, scales: .f16)
    case .q80: .affine(bits: 8, groupSize: 32, scales: .f32)
    case .tq10, .tq20, .q10: .affine(bits: 2, groupSize: 128, scales: .f16)
    case .q20: .affine(bits: 2, groupSize: 64, scales: .f16)
    case .q3K: .affine(bits: 8, groupSize: 16, scales: .f32)
    case .q2K, .q6K, .iq4NL, .iq4XS, .mxfp4: exactForm
    }
  }

  /// The form that MLX has, too; nil where there is none.
  var commonForm: Form? {
    switch self {
    case .q2K, .q6K: nil
    case .q3K: exactForm
    default: fastForm
    }
  }

  /// The panels of rows with so many columns: those of the fast form, with the file's own bits and scales where they are fewer.
  func panelShape(_ columns: Int) -> PanelShape? {
    guard case .affine(let bits, let size, let format) = fastForm else { return nil }
    let (panelBits, factors): (Int, PanelFactors) =
      switch self {
      case .q40, .q50, .q80: (bits, .halves)
      case .q4K, .q5K: (bits, .bytes)
      case .q6K: (6, .signedBytes)
      case .q2K: (2, .nibbles)
      // A plane of one bit has no whole register for 16 columns.
      case .q3K: (4, .signedBytes)
      default: (bits, .pairs(format))
      }
    return PanelShape(bits: panelBits, groupSize: size, factors: factors, columns: columns)
  }

  /// Bits that a number takes in panels, scales and biases included.
  package var panelBits: Double {
    panelShape(256).map { Double($0.panelBytes) / Double(256 * Panel.width / 8) } ?? 4.25
  }

  /// Bits that a number takes in the file.
  package var fileBits: Double { Double(8 * bytes) / Double(values) }
}
