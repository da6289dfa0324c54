// Tiles in plain Swift, so that the kernels of AMX run where tests run.

/// There is nothing to configure.
@inline(__always)
func configureTiles(_ block: Int, in shapes: UnsafeMutableRawPointer) {}

@inline(__always)
func releaseTiles() {}

/// As `multiplyTiles` of KernelsAMX.
@inline(never)
func multiplyTiles(
  _ x: UnsafeRawPointer, _ stride: Int, _ weights: UnsafeRawPointer, _ block: Int,
  into sums: UnsafeMutableRawPointer
) {
  for row in 0..<16 {
    for output in 0..<16 {
      var sum: Int32 = 0
      for k in 0..<block {
        let weight = weights.load(fromByteOffset: 64 * (k / 4) + 4 * output + k % 4, as: UInt8.self)
        sum += Int32(weight) * Int32(x.load(fromByteOffset: row * stride + k, as: Int8.self))
      }
      sums.storeBytes(of: sum, toByteOffset: 64 * row + 4 * output, as: Int32.self)
    }
  }
}
