// Products of int8 activations with affine weights as the checkpoint stores them, for few rows of x.
//
// For block j: w·x = Σ (s·q + b)·a·x8 = (a·s) · Σ q·x8 + b · c. The integer sum is exact in any order. Block j belongs to
// float lane j mod 16; each lane adds its blocks in order, first the product, then the bias term, and the sixteen
// lanes are summed in one fixed tree: the same bits as the scalar twin and the modules of x86.
//
// Four blocks are summed together, so that the additions of their lanes are shared.

package import KernelTypes

/// `y[r][o] = weights[o] · x[r]` for quantized rows of x (`quantizeInt8`). Scalar twin: `Reference.multiplyInt8`.
package func multiplyInt8(_ weights: QuantizedRows, _ x: Int8Activations, into y: Output) {
  switch (weights.bits, weights.groups.size) {
  case (4, 32): rows4x32(weights, x, y)
  case (4, _): rows4x64(weights, x, y)
  case (8, 16): rows8x16(weights, x, y)
  case (8, 32): rows8x32(weights, x, y)
  case (8, _): rows8x64(weights, x, y)
  default: narrowRows(weights, x, y)
  }
}

@inline(never)
func rows4x32(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, bits: 4, block: 32)
}

@inline(never)
func rows4x64(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, bits: 4, block: 64)
}

@inline(never)
func rows8x16(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, bits: 8, block: 16)
}

@inline(never)
func rows8x32(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, bits: 8, block: 32)
}

@inline(never)
func rows8x64(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, bits: 8, block: 64)
}

/// Other widths: row by row as nibbles or bytes.
@inline(never)
func narrowRows(_ weights: QuantizedRows, _ x: Int8Activations, _ output: Output) {
  let bits = weights.bits <= 4 ? 4 : 8
  withUnsafeTemporaryAllocation(byteCount: weights.columns, alignment: 16) { buffer in
    guard let buffer = buffer.baseAddress else { return }
    var y = output
    for o in 0..<weights.count {
      var row = weights.rows(o..<o + 1)
      repack(row.packed, row.bits, row.columns, into: buffer)
      (row.packed, row.bits) = (UnsafeRawPointer(buffer), bits)
      switch (bits, row.groups.size) {
      case (4, 32): rows4x32(row, x, y)
      case (4, _): rows4x64(row, x, y)
      case (_, 32): rows8x32(row, x, y)
      default: rows8x64(row, x, y)
      }
      y.base += 1
    }
  }
}

/// Row by row in the order of memory.
@inline(__always)
private func allRows(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output, bits: Int, block: Int) {
  for o in 0..<weights.count {
    let row = weights.rows(o..<o + 1)
    for r in 0..<x.count {
      y.base[r * y.stride + o] = rowProduct(row, x.base + r * x.rowBytes, bits: bits, block: block)
    }
  }
}

/// Sums of the products of a block, spread over four lanes.
@inline(__always)
private func blockSums(_ w: UnsafeRawPointer, _ x: UnsafeRawPointer, bits: Int, block: Int) -> Sums {
  var (s, t) = (Sums.zero, Sums.zero)
  if bits == 4 {
    for i in 0..<block / 32 {
      let weights = codes(w + 16 * i)
      s = dot(s, lowNibbles(weights), bytes(x + 16 * i))
      t = dot(t, highNibbles(weights), bytes(x + block / 2 + 16 * i))
    }
  } else {
    for i in 0..<block / 16 {
      let (weights, values) = (signed(codes(w + 16 * i) ^ 128), bytes(x + 16 * i))
      if i & 1 == 0 { s = dot(s, weights, values) } else { t = dot(t, weights, values) }
    }
  }
  return s &+ t
}

/// Scales or biases of four blocks from block `j` on.
@inline(__always)
private func blockFactors(_ base: UnsafeRawPointer, _ groups: Groups, _ j: Int) -> Four {
  guard groups.size > Int8Block.limit else { return factors(base, groups.format, j) }
  // A group of 128 is two blocks of 64.
  let (a, b) = (scalar(base, groups.format, j / 2), scalar(base, groups.format, j / 2 + 1))
  return Four(a, a, b, b)
}

/// The same of the last `count` blocks: nothing after the row is read.
@inline(never)
func lastFactors(_ base: UnsafeRawPointer, _ groups: Groups, _ j: Int, _ count: Int) -> Four {
  var values = Four.zero
  for lane in 0..<count {
    values[lane] = scalar(base, groups.format, groups.size > Int8Block.limit ? (j + lane) / 2 : j + lane)
  }
  return values
}

/// One row of weights with one row of x.
@inline(__always)
private func rowProduct(_ row: QuantizedRows, _ x: UnsafeRawPointer, bits: Int, block: Int) -> Float {
  let at = places(row.columns, block)
  let (blocks, stride) = (row.columns / block, block * bits / 8)
  var (t0, t1, t2, t3) = (Four.zero, Four.zero, Four.zero, Four.zero)
  var j = 0
  while j < blocks {
    let (w, y, left) = (row.packed + j * stride, x + j * block, blocks - j)
    prefetchAhead(w, 4 * stride)
    @inline(__always)
    func sums(_ i: Int) -> Sums {
      i < left ? blockSums(w + i * stride, y + i * block, bits: bits, block: block) : .zero
    }
    var products = addPairs(addPairs(sums(0), sums(1)), addPairs(sums(2), sums(3)))
    if bits == 8 { products = products &+ (x + at.sums + 4 * j).loadUnaligned(as: Sums.self) &<< 7 }
    let isWhole = left >= 4
    let scales =
      isWhole
      ? blockFactors(row.groups.scales, row.groups, j) : lastFactors(row.groups.scales, row.groups, j, left)
    let biases =
      isWhole
      ? blockFactors(row.groups.biases, row.groups, j) : lastFactors(row.groups.biases, row.groups, j, left)
    let sum = fused(biases, four(x + at.c, j), fused(floats(products), four(x + at.a, j) * scales, t0))
    // The tree adds lanes of blocks eight apart, then those four apart: which one comes first makes no difference.
    (t0, t1, t2, t3) = (t1, t2, t3, sum)
    j += 4
  }
  let all = (t0 + t2) + (t1 + t3)
  let two = all.lowHalf + all.highHalf
  return two[0] + two[1]
}
