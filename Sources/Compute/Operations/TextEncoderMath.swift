// What encoders of texts need beside the operations of decoders: layer norm with a bias, GELU with the error function,
// products of elements, pooling over the tokens of a text.

import Platform

extension ComputeContext {
  /// `out = (x - mean) / sqrt(variance + epsilon) · gain + bias` per row; out may be x.
  package func layerNorm(_ x: Rows, gain: [Float], bias: [Float], epsilon: Float, into out: Rows) {
    precondition(
      gain.count == x.columns && bias.count == x.columns && out.columns == x.columns && out.count == x.count,
      "norm: shapes differ")
    gain.withUnsafeBufferPointer { gain in
      bias.withUnsafeBufferPointer { bias in
        guard let gain = gain.baseAddress, let bias = bias.baseAddress else { return }
        forEachRow(x.count, work: 2 * x.columns) { range in
          for r in range {
            kernels.layerNorm(x.row(r), gain, epsilon, x.columns, out.row(r))
            kernels.add(bias, x.columns, out.row(r))
          }
        }
      }
    }
  }

  /// `x = gelu(x)` with the error function, x · (1 + erf(x / √2)) / 2.
  package func erfGELU(_ x: Rows) {
    forEachRow(x.count, work: 4 * x.columns) { range in
      for r in range { kernels.erfGELU(x.columns, x.row(r)) }
    }
  }

  /// `x = x · y`, element by element, both `[rows, columns]`.
  package func multiplyElements(_ y: Rows, into x: Rows) {
    precondition(x.columns == y.columns && x.count == y.count, "product: shapes differ")
    forEachRow(x.count, work: x.columns) { range in
      for r in range {
        let (target, factor) = (x.row(r), y.row(r))
        for c in 0..<x.columns { target[c] *= factor[c] }
      }
    }
  }

  /// How much one head's queries look at keys: `out = softmax(scale · q · kᵀ)` of every row, `[queries, keys]`. For the few
  /// tokens of a window, in scalar code.
  package func weights(of keys: Rows, for queries: Rows, scale: Float, into out: Rows) {
    precondition(
      keys.columns == queries.columns && out.count == queries.count && out.columns == keys.count,
      "weights: shapes differ")
    forEachRow(out.count, work: keys.count * keys.columns) { range in
      for r in range {
        let (query, row) = (queries.row(r), out.row(r))
        var largest = -Float.infinity
        for j in 0..<keys.count {
          let key = keys.row(j)
          var sum: Float = 0
          for c in 0..<keys.columns { sum += query[c] * key[c] }
          row[j] = scale * sum
          largest = max(largest, row[j])
        }
        var total: Float = 0
        for j in 0..<keys.count {
          row[j] = exp(row[j] - largest)
          total += row[j]
        }
        for j in 0..<keys.count { row[j] /= total }
      }
    }
  }

  /// `out = tanh(x)`, element by element; out may be x.
  package func tanh(_ x: Rows, into out: Rows) {
    precondition(x.columns == out.columns && x.count == out.count, "tanh: shapes differ")
    for r in 0..<x.count {
      let (source, target) = (x.row(r), out.row(r))
      for c in 0..<x.columns { target[c] = hyperbolicTangent(source[c]) }
    }
  }
}

/// How the states of a text's tokens become one vector.
package enum Pooling: String, Sendable, CaseIterable {
  case cls, mean, max
  case lastToken = "lasttoken"
  /// Sum / √n.
  case meanSqrtLength = "mean_sqrt_len_tokens"
  /// Weights 1 ... n.
  case weightedMean = "weightedmean"
}

extension Rows {
  /// One vector of the tokens of a text, which are these rows; sums run over them in order. Zeros of no rows.
  package func pooled(_ pooling: Pooling) -> [Float] {
    guard count > 0 else { return [Float](repeating: 0, count: columns) }
    switch pooling {
    case .cls: return values(ofRow: 0)
    case .lastToken: return values(ofRow: count - 1)
    case .max:
      var out = values(ofRow: 0)
      for r in 1..<Swift.max(1, count) {
        let row = row(r)
        for c in 0..<columns where row[c] > out[c] { out[c] = row[c] }
      }
      return out
    case .mean: return weighted(divisor: Float(count)) { _ in 1 }
    case .meanSqrtLength: return weighted(divisor: Float(count).squareRoot()) { _ in 1 }
    case .weightedMean:
      return weighted(divisor: Float(count) * (Float(count) + 1) / 2) { Float($0 + 1) }
    }
  }

  private func weighted(divisor: Float, _ weight: (Int) -> Float) -> [Float] {
    var out = [Float](repeating: 0, count: columns)
    for r in 0..<count {
      let (row, weight) = (row(r), weight(r))
      for c in 0..<columns { out[c] += weight * row[c] }
    }
    for c in 0..<columns { out[c] /= divisor }
    return out
  }
}
