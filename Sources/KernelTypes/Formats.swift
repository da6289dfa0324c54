// How weights and activations are stored, as kernels are told it.
//
// What is inlinable here is a constant in the kernels' loops.

/// The element format of dense weights, and of the scales and biases of affine ones.
@usableFromInline package enum FloatFormat: Sendable {
  case f32
  /// IEEE 754 binary16.
  case f16
  /// The upper half of a float32.
  case bf16

  /// Bytes of one element.
  @inlinable @inline(__always)
  package var bytes: Int {
    switch self {
    case .f32: 4
    case .f16, .bf16: 2
    }
  }
}

/// How a kept panel has the scales and biases of its groups. A head of whole cache lines stands before every `groups` of them.
@usableFromInline package enum PanelFactors: Sendable {
  /// A scale and a bias of each group, floats of a format.
  case pairs(FloatFormat)
  /// A scale of each group, a half. Zero is the element in the middle, 2^(bits - 1): the bias says so.
  case halves
  /// A byte of scale and a byte of bias of each group, under two halves for all of them, by which they are multiplied.
  case bytes
  /// A signed byte of scale of each group, under a half for all of them, with room for another after it. Zero is the element in
  /// the middle, as with `halves`.
  case signedBytes
  /// A byte of each group, of whose halves the lower is its scale and the higher its bias, under two halves as with `bytes`.
  case nibbles

  /// Groups with one head; the last head may have fewer.
  @inlinable @inline(__always)
  package var groups: Int {
    switch self {
    case .pairs: 1
    case .halves: 2
    case .bytes: 8
    case .signedBytes, .nibbles: 16
    }
  }

  /// Bytes of a head: of all sixteen outputs.
  @inlinable @inline(__always)
  package var headBytes: Int {
    switch self {
    case .pairs(let format): 2 * Panel.width * format.bytes
    case .halves: groups * 2 * Panel.width
    case .bytes: 4 * Panel.width + groups * 2 * Panel.width
    case .signedBytes, .nibbles: 4 * Panel.width + groups * Panel.width
    }
  }
}

/// The floating quantization modes: w = scale · element. Scales are a byte for each group (OCP Microscaling Formats 1.0, and
/// NVIDIA's nvfp4), or a float32 for several groups.
@usableFromInline package enum FloatingMode: Sendable, CaseIterable {
  /// E2M1 elements in groups of 32, E8M0 scales.
  case mxfp4
  /// E4M3 elements in groups of 32, E8M0 scales.
  case mxfp8
  /// E2M1 elements in groups of 16, E4M3 scales.
  case nvfp4
  /// E4M3 elements in groups of 32, float32 scales.
  case fp8
  /// Indices of a table of sixteen floats in groups of 32, float32 scales.
  case table

  /// Elements that kernels take at a time, which share a scale.
  @inlinable @inline(__always)
  package var groupSize: Int {
    switch self {
    case .mxfp4, .mxfp8, .fp8, .table: 32
    case .nvfp4: 16
    }
  }

  /// Bits of an element.
  @inlinable @inline(__always)
  package var bits: Int {
    switch self {
    case .mxfp4, .nvfp4, .table: 4
    case .mxfp8, .fp8: 8
    }
  }

  /// Whether scales are float32.
  @inlinable @inline(__always)
  package var hasFloatScales: Bool {
    switch self {
    case .mxfp4, .mxfp8, .nvfp4: false
    case .fp8, .table: true
    }
  }
}

/// How a block of the cache stores rounded keys and values.
@usableFromInline package enum StoredInteger: Sendable {
  case int16, int8

  /// Bytes of one element.
  @inlinable @inline(__always)
  package var bytes: Int {
    switch self {
    case .int16: 2
    case .int8: 1
    }
  }
}

/// The order in which int8 activations stand within a block.
package enum Int8Order: Sendable {
  case natural
  /// Even elements before odd ones, as nibbles unpack.
  case evenOdd
}
