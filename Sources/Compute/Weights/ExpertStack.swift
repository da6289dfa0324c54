// The experts of a layer: many MLPs of one shape, of which each row of activations goes through a few (`ExpertRouting`).

/// The MLPs of one layer, `x → down(activation(gate(x)) · up(x))` or `x → down(activation(up(x)))`, all of the same shape.
package final class ExpertStack {
  /// One per expert: `[gate | up]` or up alone, as the activation wants it, and the way back.
  let up, down: [WeightStack]
  let activation: Activation
  /// The outputs of gate and up stand in turns.
  let isInterleaved: Bool
  /// Inputs and outputs of an expert.
  package let hidden: Int
  /// Bytes that a product of one row with one expert reads.
  package let bytesPerExpert: Int

  /// - Parameters:
  ///   - gates: per expert, as `ups` and `downs`; empty for an activation without a gate.
  ///   - arena: as in `WeightStack`; an expert is copied when rows choose it.
  /// - Throws: `unsupportedWeights` when a tensor has no kernel or experts differ in shape or storage.
  package convenience init(
    gates: [WeightTensors], ups: [WeightTensors], downs: [WeightTensors], activation: Activation,
    arena: PanelArena? = nil
  ) throws(ComputeError) {
    guard gates.count == (activation.isGated ? downs.count : 0), ups.count == downs.count else {
      throw .invalidSize(what: "experts", value: downs.count)
    }
    let inner = downs.indices.map { activation.isGated ? [gates[$0], ups[$0]] : [ups[$0]] }
    try self.init(inner, downs, activation, interleaved: false, arena: arena)
  }

  /// - Parameter pairs: per expert gate and up in one map, whose outputs stand in turns.
  /// - Throws: as the other.
  package convenience init(
    pairs: [WeightTensors], downs: [WeightTensors], activation: Activation, arena: PanelArena? = nil
  ) throws(ComputeError) {
    guard activation.isGated, pairs.count == downs.count else {
      throw .invalidSize(what: "experts", value: pairs.count)
    }
    try self.init(pairs.map { [$0] }, downs, activation, interleaved: true, arena: arena)
  }

  private init(
    _ inner: [[WeightTensors]], _ downs: [WeightTensors], _ activation: Activation, interleaved: Bool,
    arena: PanelArena?
  ) throws(ComputeError) {
    var (up, down): ([WeightStack], [WeightStack]) = ([], [])
    guard let first = downs.first else { throw .invalidSize(what: "experts", value: 0) }
    for index in downs.indices {
      up.append(try WeightStack(inner[index], arena: arena))
      down.append(try WeightStack([downs[index]], arena: arena))
      let width = interleaved ? 2 * first.columns : first.columns
      guard inner[index].allSatisfy({ $0.rows == width && $0.columns == first.rows }),
        downs[index].columns == first.columns, downs[index].rows == first.rows,
        Self.isStored(up[index], as: up[0]), Self.isStored(down[index], as: down[0])
      else {
        throw .unsupportedWeights(
          tensor: downs[index].weight.name, reason: "it differs from the layer's first expert",
          supported: "experts of one shape and one quantization")
      }
    }
    hidden = first.rows
    bytesPerExpert = up[0].byteCount + down[0].byteCount
    (self.up, self.down, self.activation) = (up, down, activation)
    isInterleaved = interleaved
  }

  package var count: Int { down.count }
  /// What stands between the maps of an expert.
  package var width: Int { down[0].columns }

  /// Whether the fast mode needs the same form of activations for both.
  private static func isStored(_ stack: WeightStack, as other: WeightStack) -> Bool {
    zip(stack.parts, other.parts).allSatisfy { $0.layout == $1.layout }
  }
}
