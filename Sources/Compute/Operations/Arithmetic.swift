// The names of the ways in which models are computed: under one name the same weights and tokens give the same bits.

/// Numbers grow when a change of this program changes the bits. `ArithmeticTests` holds digests of logits under each name,
/// and docs/determinism.md says what a name promises.
extension ComputeContext {
  /// What the bits depend on beside the model, the cache's format and the tokens, such as `int8-1`.
  ///
  /// - Parameter multipliesFloats: whether some products are of floats in the fast mode too. An output adds those of floats
  ///   up in as many sums as a register has lanes; those of integers are the same on every level.
  package func arithmetic(multipliesFloats: Bool) -> String {
    let lanes =
      switch isa {
      case .portable: "-portable"
      case .avx512, .amx: "-avx512"
      case .avx2, .avxvnni, .neon, .dotprod, .i8mm: ""
      case nil: "-reference"
      }
    return switch mode {
    case .exact: "exact-1" + lanes
    case .fine: multipliesFloats ? "fine-1" + lanes : "fine-1"
    case .fast: multipliesFloats ? "int8-1" + lanes : "int8-1"
    }
  }
}
