// Products of few rows with packed weights in AVX2: weights go from memory to fused multiply-adds through
// registers only. Agrees to the bit with `unpackAffine` followed by `multiplyF32`.

package import KernelTypes
import _Builtin_intrinsics.intel

/// The most rows of x the fused kernels take.
package let fusedRowLimit = 2

/// 4-bit weights, at most `fusedRowLimit` rows of x. Scalar twin: `Reference.unpack`, then `Reference.multiply`.
package func multiplyQ4(_ weights: QuantizedRows, _ x: Activations, into y: Output) {
  affineRows(weights, 4, x, y)
}

/// 8-bit weights, at most `fusedRowLimit` rows of x. Scalar twin: `Reference.unpack`, then `Reference.multiply`.
package func multiplyQ8(_ weights: QuantizedRows, _ x: Activations, into y: Output) {
  affineRows(weights, 8, x, y)
}

@inline(__always)
private func affineRows(_ weights: QuantizedRows, _ bits: Int, _ x: Activations, _ y: Output) {
  for o in 0..<weights.count {
    // The format is a constant in each specialisation: no branch per group.
    switch weights.groups.format {
    case .f32: affineRow(weights, o, bits, .f32, x, y)
    case .f16: affineRow(weights, o, bits, .f16, x, y)
    case .bf16: affineRow(weights, o, bits, .bf16, x, y)
    }
  }
}

/// Row `o` of the weights, whose scales are of `format`.
@inline(__always)
private func affineRow(
  _ weights: QuantizedRows, _ o: Int, _ bits: Int, _ format: FloatFormat, _ activations: Activations,
  _ output: Output
) {
  let (x, x1, xRows) = (activations.base, activations.base + activations.stride, activations.count)
  let (w, groupSize, y) = (weights.packed + o * weights.rowBytes, weights.groups.size, output.base + o)
  let scales = weights.groups.scales + o * weights.groups.rowBytes
  let biases = weights.groups.biases + o * weights.groups.rowBytes
  let shifts = _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0)
  @inline(__always)
  func elements(_ c: Int) -> __m256i {
    guard bits == 4 else {
      return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((w + c).loadUnaligned(as: Int64.self)))
    }
    let word = _mm256_set1_epi32((w + c / 2).loadUnaligned(as: Int32.self))
    return _mm256_and_si256(_mm256_srlv_epi32(word, shifts), _mm256_set1_epi32(15))
  }
  var (t0, t1) = (_mm256_setzero_ps(), _mm256_setzero_ps())
  var c = 0
  for group in 0..<weights.columns / groupSize {
    let scale = _mm256_set1_ps(scalar(scales, format, group))
    let bias = _mm256_set1_ps(scalar(biases, format, group))
    prefetchAhead(w + c * bits / 8, bits == 4 ? 64 : groupSize)
    for _ in 0..<groupSize / 8 {
      let weight = _mm256_fmadd_ps(_mm256_cvtepi32_ps(elements(c)), scale, bias)
      t0 = _mm256_fmadd_ps(weight, load(x, c), t0)
      if xRows > 1 { t1 = _mm256_fmadd_ps(weight, load(x1, c), t1) }
      c += 8
    }
  }
  y[0] = sum(t0)
  if xRows > 1 { y[output.stride] = sum(t1) }
}

/// f16 and bf16 weights, at most `fusedRowLimit` rows of x. Scalar twin: `Reference.widen`, then `Reference.multiply`.
package func multiplyHalf(_ weights: FloatRows, _ x: Activations, into y: Output) {
  let (rowBytes, columns) = (weights.rowBytes, weights.columns)
  var o = 0
  while o < weights.count {
    let w = weights.base + o * rowBytes
    let count = min(4, weights.count - o)
    switch (weights.format, x.count) {
    case (.f16, 1): fourF16(w, rowBytes, count, x.base, columns, y.base + o)
    case (_, 1): fourBF16(w, rowBytes, count, x.base, columns, y.base + o)
    default:
      for i in 0..<count { rowHalf(w + i * rowBytes, weights.format, columns, x, y.base + o + i, y.stride) }
    }
    o += count
  }
}

// Functions of their own: inlined in one, `fourHalf` exceeded the compiler's budget in some builds.

@inline(never)
func fourF16(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ rows: Int, _ x: UnsafePointer<Float>, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>
) { fourHalf(w, rowBytes, rows, .f16, x, columns, y) }

@inline(never)
func fourBF16(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ rows: Int, _ x: UnsafePointer<Float>, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>
) { fourHalf(w, rowBytes, rows, .bf16, x, columns, y) }

/// Up to four rows of weights with one row of x. One row alone would wait for its chain of additions, which are in the order
/// of the columns; of two rows with 1,024 columns 75 % of what a read loop reaches arrived, of four 93 %.
@inline(__always)
private func fourHalf(
  _ w0: UnsafeRawPointer, _ rowBytes: Int, _ rows: Int, _ format: FloatFormat, _ x: UnsafePointer<Float>,
  _ columns: Int, _ y: UnsafeMutablePointer<Float>
) {
  var totals = registers(of: _mm256_setzero_ps())
  // Rows that are not there repeat the last one.
  let w1 = w0 + min(1, rows - 1) * rowBytes
  let (w2, w3) = (w0 + min(2, rows - 1) * rowBytes, w0 + (rows - 1) * rowBytes)
  @inline(__always)
  func add(_ source: __m256, _ weights: (_ row: UnsafeRawPointer) -> __m256) {
    set(&totals, 0, _mm256_fmadd_ps(weights(w0), source, get(&totals, 0)))
    set(&totals, 1, _mm256_fmadd_ps(weights(w1), source, get(&totals, 1)))
    set(&totals, 2, _mm256_fmadd_ps(weights(w2), source, get(&totals, 2)))
    set(&totals, 3, _mm256_fmadd_ps(weights(w3), source, get(&totals, 3)))
  }
  var c = 0
  while c + 32 <= columns {
    // The next four rows in the order of memory: four lines for the four that are read now.
    let next = w0 + 4 * rowBytes + 8 * c
    for line in 0..<4 { prefetch(next + 64 * line) }
    for i in 0..<4 { add(load(x, c + 8 * i)) { widen($0 + 2 * (c + 8 * i), format) } }
    c += 32
  }
  while c + 8 <= columns {
    add(load(x, c)) { widen($0 + 2 * c, format) }
    c += 8
  }
  if c < columns {
    let rest = columns - c
    add(loadTail(x, c, rest)) { tailHalf($0, format, c, rest) }
  }
  let sums = sums(get(&totals, 0), get(&totals, 1), get(&totals, 2), get(&totals, 3))
  for i in 0..<rows { y[i] = sums[i] }
}

/// The last `count` (1 ... 7) elements of a row, zeros after them.
@inline(__always)
private func tailHalf(_ w: UnsafeRawPointer, _ format: FloatFormat, _ column: Int, _ count: Int) -> __m256 {
  var weight = _mm256_setzero_ps()
  for lane in 0..<count { weight[lane] = scalar(w, format, column + lane) }
  return weight
}

/// One row of weights with two rows of x.
@inline(never)
func rowHalf(
  _ w: UnsafeRawPointer, _ format: FloatFormat, _ columns: Int, _ activations: Activations,
  _ y: UnsafeMutablePointer<Float>, _ yStride: Int
) {
  let (x, x1) = (activations.base, activations.base + activations.stride)
  var (t0, t1) = (_mm256_setzero_ps(), _mm256_setzero_ps())
  var c = 0
  while c + 8 <= columns {
    let weight = widen(w + 2 * c, format)
    t0 = _mm256_fmadd_ps(weight, load(x, c), t0)
    t1 = _mm256_fmadd_ps(weight, load(x1, c), t1)
    c += 8
  }
  if c < columns {
    let rest = columns - c
    let weight = tailHalf(w, format, c, rest)
    t0 = _mm256_fmadd_ps(weight, loadTail(x, c, rest), t0)
    t1 = _mm256_fmadd_ps(weight, loadTail(x1, c, rest), t1)
  }
  y[0] = sum(t0)
  y[yStride] = sum(t1)
}
