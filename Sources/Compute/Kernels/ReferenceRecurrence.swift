// Scalar twin of recurrences with a matrix per head: position by position, in float64.

extension Reference {
  /// What one head keeps: `[valueDim][keyDim]`.
  struct RecurrentState {
    var elements: [Double]

    init(keyDim: Int, valueDim: Int) { elements = [Double](repeating: 0, count: keyDim * valueDim) }
  }

  /// One position of one head: the state decays, takes over the value and is read.
  ///
  /// - Parameters:
  ///   - decays: the logarithms of what is left of the state, one per element of the key, or one for all.
  ///   - correction: β of the delta rule, which adds what the state lacks of the value; nil adds the value.
  /// - Returns: what the query finds, `[valueDim]`.
  static func recur(
    _ state: inout RecurrentState, query: [Float], key: [Float], value: [Float], decays: [Float],
    correction: Float?
  ) -> [Double] {
    let keyDim = key.count
    let left = (0..<keyDim).map { exponential(Double(decays[decays.count == 1 ? 0 : $0])) }
    var result: [Double] = []
    for (d, element) in value.enumerated() {
      let row = d * keyDim..<(d + 1) * keyDim
      for (index, left) in zip(row, left) { state.elements[index] *= left }
      var added = Double(element)
      if let correction {
        let known = zip(row, key).reduce(0) { $0 + state.elements[$1.0] * Double($1.1) }
        added = Double(correction) * (added - known)
      }
      for (index, k) in zip(row, key) { state.elements[index] += added * Double(k) }
      result.append(zip(row, query).reduce(0) { $0 + state.elements[$1.0] * Double($1.1) })
    }
    return result
  }
}
