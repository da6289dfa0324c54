// Making the panels that are kept in memory, at every level that keeps them.
//
//   panel, for each group:      [ scales of outputs 0-15 | biases of outputs 0-15 ]   as in the checkpoint
//     for each block of it:     [ plane ] or [ plane | plane ]
//
// Blocks of a GGUF file keep their own scales (`PanelFactors`): then some groups have one head, which stands before the first.
//
// Widths are one plane of 2, 4 or 8 bits, or a plane of the low bits and one of the rest: 3 = 2 + 1, 5 = 4 + 1, 6 = 4 + 2. In
// which order a plane has the fields of a block is the level's own (`interleaveRows`, `writePlanes`).

package import KernelTypes

/// Bytes of the scales of a panel's group, and as many of its biases.
@inline(__always)
func factorBytes(_ format: FloatFormat) -> Int { Panel.width * format.bytes }

/// Bytes of a panel's block without scales.
@inline(__always)
func blockBytes(_ block: Int, _ bits: Int) -> Int { 2 * block * bits }

/// What a group of elements around zero has as its bias, in units of its scale.
@inline(__always)
func middle(_ bits: Int) -> Float { -Float(1 << (bits - 1)) }

/// Bits of the elements from which a panel is made: nibbles, which stand even and odd, or bytes. Groups of 16 are bytes always.
@inline(__always)
func wholeBits(_ shape: PanelShape) -> Int { shape.bits <= 4 && shape.groupSize > 16 ? 4 : 8 }

/// Blocks with one head, less one.
@inline(__always)
func headMask(_ factors: PanelFactors, isShared: Bool) -> Int { factors.groups * (isShared ? 2 : 1) - 1 }

/// Bytes of a kept panel of sixteen outputs.
package func int8InterleavedBytes(_ shape: PanelShape) -> Int { shape.panelBytes }

/// Writes the panel of at most sixteen rows to `out`, 64-byte aligned; outputs that are not there repeat the last. Panels have
/// no scalar twin: `Reference.multiplyInt8` is that of their products.
///
/// - Parameters:
///   - weights: rows of nibbles or of bytes (`wholeBits`).
///   - shape: of the panel; heads without pairs are left to others.
///   - scratch: `int8PanelBytes`.
package func interleaveInt8(
  _ weights: QuantizedRows, _ shape: PanelShape, into out: UnsafeMutableRawPointer,
  scratch: UnsafeMutableRawPointer
) {
  let (groups, bits) = (weights.groups, shape.bits)
  let (block, whole) = (blockSize(groups.size), wholeBits(shape))
  interleaveRows(weights, bits, into: scratch)
  var (source, target) = (UnsafeRawPointer(scratch), out)
  for group in 0..<weights.columns / groups.size {
    if case .pairs(let format) = shape.factors {
      copyFactors(groups.scales, of: group, weights, into: target)
      copyFactors(groups.biases, of: group, weights, into: target + factorBytes(format))
    }
    if group % shape.factors.groups == 0 { target += shape.factors.headBytes }
    for _ in 0..<groups.size / block {
      switch bits {
      case 2: writePlanes(source, block, whole, low: 2, high: 0, target)
      case 3: writePlanes(source, block, whole, low: 2, high: 1, target)
      case 4 where whole == 8: writePlanes(source, block, whole, low: 4, high: 0, target)
      case 5: writePlanes(source, block, whole, low: 4, high: 1, target)
      case 6: writePlanes(source, block, whole, low: 4, high: 2, target)
      default: target.copyMemory(from: source, byteCount: blockBytes(block, bits))
      }
      source += blockBytes(block, whole)
      target += blockBytes(block, bits)
    }
  }
}

/// Scales or biases of a group of the sixteen outputs, as they are.
@inline(__always)
private func copyFactors(
  _ base: UnsafeRawPointer, of group: Int, _ weights: QuantizedRows, into out: UnsafeMutableRawPointer
) {
  for o in 0..<Panel.width {
    let row = base + min(o, weights.count - 1) * weights.groups.rowBytes
    switch weights.groups.format {
    case .f32:
      (out + 4 * o).storeBytes(of: (row + 4 * group).loadUnaligned(as: UInt32.self), as: UInt32.self)
    case .f16, .bf16:
      (out + 2 * o).storeBytes(of: (row + 2 * group).loadUnaligned(as: UInt16.self), as: UInt16.self)
    }
  }
}
