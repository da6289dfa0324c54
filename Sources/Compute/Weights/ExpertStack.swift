// The experts of a layer: many MLPs of one shape, of which each row of activations goes through a few (`ExpertRouting`).

/// The MLPs of one layer, `x → down(activation(gate(x)) · up(x))`, all of the same shape.
package final class ExpertStack {
  /// One per expert: `[gate | up]`, and the way back.
  let gateUp, down: [WeightStack]
  /// Inputs and outputs of an expert, and the width between.
  let hidden, intermediate: Int
  /// Bytes that a product of one row with one expert reads.
  package let bytesPerExpert: Int

  /// - Parameters:
  ///   - gates: per expert, as `ups` and `downs`.
  ///   - arena: as in `WeightStack`; an expert is copied when rows choose it.
  /// - Throws: `unsupportedWeights` when a tensor has no kernel or experts differ in shape or storage.
  package init(
    gates: [WeightTensors], ups: [WeightTensors], downs: [WeightTensors], arena: PanelArena? = nil
  ) throws(ComputeError) {
    var (gateUp, down): ([WeightStack], [WeightStack]) = ([], [])
    guard let first = downs.first, gates.count == downs.count, ups.count == downs.count else {
      throw .invalidSize(what: "experts", value: downs.count)
    }
    for index in downs.indices {
      gateUp.append(try WeightStack([gates[index], ups[index]], arena: arena))
      down.append(try WeightStack([downs[index]], arena: arena))
      guard gates[index].rows == first.columns, ups[index].rows == first.columns,
        downs[index].columns == first.columns, downs[index].rows == first.rows,
        gates[index].columns == first.rows, Self.isStored(gateUp[index], as: gateUp[0]),
        Self.isStored(down[index], as: down[0])
      else {
        throw .unsupportedWeights(
          tensor: downs[index].weight.name, reason: "it differs from the layer's first expert",
          supported: "experts of one shape and one quantization")
      }
    }
    hidden = first.rows
    intermediate = first.columns
    bytesPerExpert = gateUp[0].byteCount + down[0].byteCount
    self.gateUp = gateUp
    self.down = down
  }

  package var count: Int { down.count }

  /// Whether the fast mode needs the same form of activations for both.
  private static func isStored(_ stack: WeightStack, as other: WeightStack) -> Bool {
    zip(stack.parts, other.parts).allSatisfy { Int8Layout($0.matrix) == Int8Layout($1.matrix) }
  }
}
