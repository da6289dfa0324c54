// Columns of kept panels as floats, an output at a time.

package import KernelTypes

/// Some columns of kept panels as floats, `scale · q + bias`. Scalar twin: Compute's `Reference.columns`, of the weights that the
/// panels were made of.
package func panelColumns(_ weights: PanelRows, into out: WeightColumns) {
  let shape = weights.shape
  let (bits, block) = (shape.bits, blockSize(shape.groupSize))
  // The planes of a block (PanelMaking).
  let low = bits == 3 ? 2 : bits == 5 || bits == 6 ? 4 : bits
  let isEvenOdd = wholeBits(shape) == 4
  let (kind, panelBytes) = (shape.factors, shape.panelBytes)
  let bytesTogether = isPaired ? 8 : 4
  for index in 0..<out.count {
    let column = Int(out.columns[index])
    let inGroup = column % shape.groupSize
    let place = isEvenOdd ? inGroup % block / 2 + inGroup % 2 * (block / 2) : inGroup % block
    // Where a byte of the first output would stand.
    let first = Panel.width * (place - place % bytesTogether) + place % bytesTogether
    /// What a plane of `width` bits has of an output. A narrow plane may have some outputs in other bits than the first.
    func field(_ plane: UnsafeRawPointer, _ width: Int, _ lane: Int) -> UInt8 {
      let (byte, bytes) = (first + bytesTogether * lane, blockBytes(block, width))
      let fields = plane.load(fromByteOffset: byte % bytes, as: UInt8.self)
      return fields &>> UInt8(truncatingIfNeeded: width * (byte / bytes)) & (UInt8.max >> UInt8(8 - width))
    }
    let group = column / shape.groupSize
    let inHead = group % kind.groups
    var head = weights.base + shape.headOffset(of: group)
    for o in stride(from: 0, to: weights.count, by: Panel.width) {
      var plane = head + kind.headBytes + inHead * blockBytes(shape.groupSize, bits)
      plane += inGroup / block * blockBytes(block, bits)
      let target = out.base + index * OutlierList.outputs + o
      for lane in 0..<min(Panel.width, weights.count - o) {
        var q = field(plane, low, lane)
        if low < bits { q |= field(plane + blockBytes(block, low), bits - low, lane) &<< UInt8(low) }
        // Those of 8 bits are kept as signed ones.
        if bits == 8 { q ^= 128 }
        let (scales, biases) = factors(head, inHead, kind, bits, lane & ~3)
        target[lane] = scales[lane & 3] * Float(q) + biases[lane & 3]
      }
      head += panelBytes
    }
  }
}
