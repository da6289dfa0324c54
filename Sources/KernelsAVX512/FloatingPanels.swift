// Weights in the floating modes as panels of sixteen outputs, and products of E2M1 ones (mxfp4, nvfp4) for any number of rows
// of x. WidePanels has those of E4M3 (mxfp8, fp8).
//
//   panel, for each four groups:  [ for each group: scales of outputs 0-15, a byte each ]   64 bytes
//                                 or in fp8, for all four: [ scales of outputs 0-15, floats ]
//                                 [ their elements, four bytes of each output after the other ]
//
// So a panel is one stream. With all scales behind the elements decode had 0.7 of its speed: no hardware prefetcher follows a
// line now and then.
//
// The float operations are those of Int8Floating and of AVX2's row kernel, and so are the bits.

package import KernelTypes
import _Builtin_intrinsics.intel

/// Bytes of a kept panel, whole cache lines.
package func floatingPanelBytes(_ mode: FloatingMode, _ columns: Int) -> Int {
  Panel.width * columns * mode.bits / 8 + scaleBytes * ((columns / mode.groupSize + 3) / 4)
}

/// Of four groups.
@inline(__always)
var scaleBytes: Int { 4 * Panel.width }

/// Bytes from the beginning of a panel to the elements of a group.
@inline(__always)
private func elementOffset(of group: Int, _ mode: FloatingMode) -> Int {
  group * Panel.width * mode.groupSize * mode.bits / 8 + (group / 4 + 1) * scaleBytes
}

/// Bytes from the beginning of a panel to the scales of a group.
@inline(__always)
private func scaleOffset(of group: Int, _ mode: FloatingMode) -> Int {
  elementOffset(of: group & ~3, mode) - scaleBytes + (group & 3) * Panel.width
}

/// Writes the panel of at most sixteen rows to `out`, 64-byte aligned; outputs that are not there repeat the last. Panels have
/// no scalar twin: `Reference.multiplyInt8Floating` is that of their products.
///
/// - Parameter scratch: `int8PanelBytes`.
package func interleaveFloating(
  _ weights: FloatingRows, into out: UnsafeMutableRawPointer, scratch: UnsafeMutableRawPointer
) {
  // It writes whole registers, of which rows may end in the middle.
  _ = interleave(
    weights.packed, rowBytes: weights.rowBytes, rows: weights.count, into: scratch,
    prefetching: weights.packed, upTo: weights.packed, 0)
  let (mode, bytes) = (weights.mode, Panel.width * weights.mode.groupSize * weights.mode.bits / 8)
  for group in 0..<weights.columns / mode.groupSize {
    (out + elementOffset(of: group, mode)).copyMemory(from: scratch + group * bytes, byteCount: bytes)
    for o in 0..<Panel.width {
      let row = weights.scales + min(o, weights.count - 1) * weights.scaleRowBytes
      if mode.hasFloatScales {
        guard group & 3 == 0 else { break }
        (out + scaleOffset(of: group, mode) + 4 * o).storeBytes(
          of: (row + group).loadUnaligned(as: Float.self), as: Float.self)
        continue
      }
      (out + scaleOffset(of: group, mode) + o).storeBytes(
        of: (row + group).load(as: UInt8.self), as: UInt8.self)
    }
  }
}

/// As `multiplyInt8FloatingPanels`, to the bit, for any number of rows of x. Scalar twin: `Reference.multiplyInt8Floating`.
package func multiplyFloatingPanels(_ weights: FloatingPanelRows, _ x: Int8Activations, into y: Output) {
  let (mode, columns) = (weights.mode, weights.columns)
  let (panelBytes, groups) = (floatingPanelBytes(mode, columns), columns / mode.groupSize)
  let factorBytes = 4 * Panel.width * groups
  let bytes = factorBytes + passBytes(columns, mode, rows: x.count)
  withUnsafeTemporaryAllocation(byteCount: bytes, alignment: 64) { buffer in
    guard let factors = buffer.baseAddress else { return }
    forEachPass(over: x, columns, mode, room: factors + factorBytes) { first, pass, rows in
      var pass = pass
      // As of affine weights: many rows leave the next panel time to come to the first-level cache.
      pass.isFar = rows.count < 32
      var output = Output(base: y.base + first * y.stride, stride: y.stride)
      var panel = weights.base
      pass.gap = scaleBytes
      for o in stride(from: 0, to: weights.count, by: Panel.width) {
        let count = min(Panel.width, weights.count - o)
        if rows.count < 4 {
          pass.panel = panel
          multiplyFewRows(pass, rows, mode, outputs: count, into: output)
        } else {
          for j in 0..<groups { _mm512_storeu_ps(factors + 64 * j, sixteenScales(panel, j, mode)) }
          pass.factors = UnsafeRawPointer(factors)
          pass.panel = panel + scaleBytes
          pass.next = panel + panelBytes
          let ahead = o + Panel.width < weights.count ? panelBytes : min(panelBytes, weights.aheadBytes)
          pass.last = pass.next + ahead
          pass.share = ahead / (groups * passCount(rows.count)) + 1
          multiply(pass, rows, mode, outputs: count, into: output)
        }
        panel += panelBytes
        output.base += Panel.width
      }
    }
  }
}

/// The scales of group `j` of a panel.
@inline(__always)
func sixteenScales(_ panel: UnsafeRawPointer, _ j: Int, _ mode: FloatingMode) -> __m512 {
  if mode.hasFloatScales { return _mm512_loadu_ps(panel + scaleOffset(of: j & ~3, mode)) }
  return scales(
    _mm_loadu_si128((panel + scaleOffset(of: j, mode)).assumingMemoryBound(to: __m128i.self)), mode)
}

// MARK: Few rows of x

/// A panel by few rows of x, one after the other.
@inline(__always)
private func multiplyFewRows(
  _ first: E2M1Pass, _ x: Int8Activations, _ mode: FloatingMode, outputs: Int, into y: Output
) {
  var p = first
  for r in 0..<x.count {
    p.x = first.x + r * p.stride
    p.prepared = first.prepared + 2 * r * p.halves
    switch mode {
    case .nvfp4: rowNVFP4(p)
    default: rowMXFP4(p)
    }
    _mm512_mask_storeu_ps(y.base + r * y.stride, tailMask(outputs), sumOfSlots(p.totals, p.groups))
  }
}

@inline(never)
func rowMXFP4(_ p: E2M1Pass) { row(p, .mxfp4) }

@inline(never)
func rowNVFP4(_ p: E2M1Pass) { row(p, .nvfp4) }

/// A panel by one row of x, into the slots of its sums.
@inline(__always)
private func row(_ p: E2M1Pass, _ mode: FloatingMode) {
  let group = mode.groupSize
  let registers = group / 8
  let low = _mm512_set1_epi32(0x0F0F_0F0F)
  for j in 0..<p.groups {
    let weights = p.panel + elementOffset(of: j, mode)
    // Of a block's two groups of 16, each has half of the even elements and half of the odd ones.
    let x = p.x + (group == 16 ? 32 * (j >> 1) + 8 * (j & 1) : 32 * j)
    let start = p.prepared + 4 * j
    var even = _mm512_set1_epi32(start.loadUnaligned(as: Int32.self))
    // Two chains of sums, or each product would wait for the one before.
    var odd = _mm512_setzero_si512()
    for d in 0..<registers {
      let words = _mm512_loadu_si512(weights + 64 * d)
      @inline(__always)
      func add(_ sum: inout __m512i, _ nibbles: __m512i, at: Int) {
        let four = (x + at + 4 * d).loadUnaligned(as: Int32.self)
        sum = _mm512_dpbusd_epi32(sum, looked(up: nibbles), _mm512_set1_epi32(four))
      }
      add(&even, _mm512_and_si512(words, low), at: 0)
      add(&odd, _mm512_and_si512(_mm512_srli_epi32(words, 4), low), at: 16)
    }
    let half = (start + p.halves).loadUnaligned(as: Float.self)
    let factor = _mm512_mul_ps(sixteenScales(p.panel, j, mode), _mm512_set1_ps(half))
    let slot = 16 * (j & 15)
    let before = j < 16 ? _mm512_setzero_ps() : load(p.totals, slot)
    let integers = widened(_mm512_add_epi32(even, odd))
    _mm512_storeu_ps(p.totals + slot, _mm512_fmadd_ps(integers, factor, before))
  }
  // Slots without a group are zero.
  for slot in min(p.groups, 16)..<slots(p.groups) {
    _mm512_storeu_ps(p.totals + 16 * slot, _mm512_setzero_ps())
  }
}
