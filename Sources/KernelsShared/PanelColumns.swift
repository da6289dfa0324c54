// Columns of kept panels as floats, at the levels of x86.

package import KernelTypes

/// Some columns of kept panels as floats, `scale · q + bias`. Scalar twin: Compute's `Reference.columns`, of the weights that the
/// panels were made of.
package func panelColumns(_ weights: PanelRows, into out: WeightColumns) {
  let shape = weights.shape
  // Sizes are powers of two: a division of each would take longer than a column.
  let (bits, block) = (shape.bits, blockSize(shape.groupSize))
  let (inGroup, inBlock) = (shape.groupSize - 1, block - 1)
  let (groupShift, blockShift) = (shape.groupSize.trailingZeroBitCount, block.trailingZeroBitCount)
  // The planes of a block (PanelMaking).
  let low = bits == 3 ? 2 : bits == 5 || bits == 6 ? 4 : bits
  let isEvenOdd = wholeBits(shape) == 4
  let (factors, groupBytes) = (shape.factors, blockBytes(shape.groupSize, bits))
  let (inHead, panelBytes) = (factors.groups - 1, shape.panelBytes)
  /// Where a plane of `width` bits has an element of the sixteen outputs: the bytes before its words, and its place in them.
  @inline(__always)
  func field(_ width: Int, _ place: Int) -> (bytes: Int, shift: SIMD16<UInt32>, mask: SIMD16<UInt32>) {
    let register = place &>> 2
    let registerShift = blockShift - 5 + width.trailingZeroBitCount
    let shift = 8 * (place & 3) + width * (register &>> registerShift)
    return (
      64 * (register & (1 &<< registerShift - 1)), SIMD16(repeating: UInt32(truncatingIfNeeded: shift)),
      SIMD16(repeating: 1 &<< UInt32(truncatingIfNeeded: width) - 1)
    )
  }
  let (panels, isSplit) = ((weights.count + Panel.width - 1) / Panel.width, low < bits)
  let highShift = SIMD16<UInt32>(repeating: UInt32(truncatingIfNeeded: low))
  for index in 0..<out.count {
    let column = Int(out.columns[index])
    let place = isEvenOdd ? (column & inBlock) &>> 1 + (column & 1) &<< (blockShift - 1) : column & inBlock
    let lower = field(low, place)
    let upper = isSplit ? field(bits - low, place) : lower
    let group = column &>> groupShift
    var head = weights.base + shape.headOffset(of: group)
    var plane = head + factors.headBytes + (group & inHead) * groupBytes
    plane += (column & inGroup) &>> blockShift * blockBytes(block, bits)
    var target = UnsafeMutableRawPointer(out.base + index * OutlierList.outputs)
    for _ in 0..<panels {
      var q = (plane + lower.bytes).loadUnaligned(as: SIMD16<UInt32>.self) &>> lower.shift & lower.mask
      if isSplit {
        let words = (plane + blockBytes(block, low) + upper.bytes).loadUnaligned(as: SIMD16<UInt32>.self)
        q |= (words &>> upper.shift & upper.mask) &<< highShift
      }
      let (scales, biases) = sixteenFactors(head, group & inHead, factors, bits)
      target.storeBytes(of: scales * float(q) + biases, as: SIMD16<Float>.self)
      head += panelBytes
      plane += panelBytes
      target += 4 * Panel.width
    }
  }
}

/// Integers below 2^23, as the lowest bits of floats from 2^23 on.
@inline(__always)
private func float(_ q: SIMD16<UInt32>) -> SIMD16<Float> {
  unsafeBitCast(q | SIMD16(repeating: 0x4B00_0000), to: SIMD16<Float>.self) - SIMD16(repeating: 0x1p23)
}
