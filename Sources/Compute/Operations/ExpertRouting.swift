// Mixture of experts: every row of activations goes through a few of a layer's many MLPs.
//
// Rows are grouped by expert: the weights of an expert are read once for all of its rows, and those of experts that no
// row chose not at all. A row's result is the sum over its own experts, likeliest first, so it has the same bits
// whoever else is in the step.

/// What a row's experts are weighted with.
package enum ExpertWeighting: Sendable {
  /// Their share in the softmax over all experts.
  case all
  /// Their share in the softmax over those that the row chose: the sum of the weights is 1.
  case chosen
}

/// Which experts the rows of a step go to. Its arrays are reused from step to step.
package final class ExpertRouting {
  /// The rows of one expert in the grouped buffers.
  struct Group {
    let expert: Int
    let first: Int
    let count: Int
  }

  private(set) var perRow = 0
  private(set) var rows = 0
  /// `[rows][perRow]`, the likeliest first.
  package private(set) var experts: [Int] = []
  package private(set) var weights: [Float] = []
  /// `[rows][perRow]`: where the grouped buffers hold the row for that expert.
  private(set) var slots: [Int] = []
  /// The experts that some row chose.
  private(set) var groups: [Group] = []
  private var counts: [Int] = []

  fileprivate let gathered = ScratchBuffer()
  fileprivate let gateUp = ScratchBuffer()
  fileprivate let results = ScratchBuffer()

  package init() {}

  /// Chooses the experts of every row: those with the highest scores, of equals the first.
  ///
  /// - Parameters:
  ///   - scores: the router's output, `[rows, experts]`.
  ///   - perRow: experts per row, at most as many as there are.
  ///   - scales: factors of the experts' weights, one per expert, or empty.
  package func choose(_ scores: Rows, perRow: Int, weighting: ExpertWeighting, scales: [Float] = []) {
    precondition(
      (1...max(1, scores.columns)).contains(perRow) && (scales.isEmpty || scales.count == scores.columns),
      "experts: shapes differ")
    self.perRow = perRow
    rows = scores.count
    experts.removeAll(keepingCapacity: true)
    weights.removeAll(keepingCapacity: true)
    for r in 0..<scores.count {
      choose(UnsafePointer(scores.row(r)), of: scores.columns)
      weigh(UnsafePointer(scores.row(r)), of: scores.columns, weighting)
    }
    if !scales.isEmpty {
      for index in weights.indices { weights[index] *= scales[experts[index]] }
    }
    group(experts: scores.columns)
  }

  /// Appends the best of one row in order. Takes `perRow` even of scores that are not numbers.
  private func choose(_ scores: UnsafePointer<Float>, of count: Int) {
    let first = experts.count
    for expert in 0..<count {
      let isFull = experts.count - first == perRow
      if isFull, !(scores[expert] > scores[experts[experts.count - 1]]) { continue }
      if isFull { experts.removeLast() }
      var place = experts.count
      while place > first, scores[expert] > scores[experts[place - 1]] { place -= 1 }
      experts.insert(expert, at: place)
    }
  }

  /// Appends the weights of the row's experts.
  private func weigh(_ scores: UnsafePointer<Float>, of count: Int, _ weighting: ExpertWeighting) {
    let chosen = experts[(experts.count - perRow)...]
    let highest = scores[chosen[chosen.startIndex]]
    func share(_ expert: Int) -> Double { exponential(Double(scores[expert] - highest)) }
    let sum =
      switch weighting {
      case .all: (0..<count).reduce(0) { $0 + share($1) }
      case .chosen: chosen.reduce(0) { $0 + share($1) }
      }
    for expert in chosen { weights.append(Float(share(expert) / sum)) }
  }

  /// Gives every choice its place after those of lower experts and earlier rows.
  private func group(experts count: Int) {
    counts.removeAll(keepingCapacity: true)
    counts.append(contentsOf: repeatElement(0, count: count))
    for expert in experts { counts[expert] += 1 }
    groups.removeAll(keepingCapacity: true)
    var next = 0
    for expert in 0..<count where counts[expert] > 0 {
      groups.append(Group(expert: expert, first: next, count: counts[expert]))
      (counts[expert], next) = (next, next + counts[expert])
    }
    slots.removeAll(keepingCapacity: true)
    for expert in experts {
      slots.append(counts[expert])
      counts[expert] += 1
    }
  }
}

extension ComputeContext {
  /// `y[r] = Σ weight · expert(x[r])` over the experts that `routing` chose for row r; y may be x.
  package func multiply(
    _ x: Rows, by stack: ExpertStack, routing: ExpertRouting, activation: GateActivation, into y: Rows
  ) {
    precondition(
      x.count == routing.rows && y.count == x.count && x.columns == stack.hidden && y.columns == stack.hidden,
      "experts: shapes differ")
    guard x.count > 0 else { return }
    let (perRow, slots) = (routing.perRow, routing.slots)
    let gathered = routing.gathered.rows(slots.count, stack.hidden)
    forEachRow(slots.count, work: stack.hidden) { range in
      for index in range { x.copyRow(index / perRow, to: gathered, at: slots[index]) }
    }
    let gateUp = routing.gateUp.rows(slots.count, 2 * stack.intermediate)
    multiply(gathered, routing.groups, by: stack.gateUp, into: gateUp)
    let gate = gateUp.columns(from: 0, count: stack.intermediate)
    let up = gateUp.columns(from: stack.intermediate, count: stack.intermediate)
    gated(activation, gate, up, into: gate)
    let results = routing.results.rows(slots.count, stack.hidden)
    multiply(gate, routing.groups, by: stack.down, into: results)
    forEachRow(x.count, work: 2 * perRow * stack.hidden) { range in
      for row in range {
        for choice in 0..<perRow {
          let index = row * perRow + choice
          let result = results.row(slots[index])
          kernels.scale(routing.weights[index], stack.hidden, result)
          if choice == 0 {
            results.copyRow(slots[index], to: y, at: row)
          } else {
            kernels.add(result, stack.hidden, y.row(row))
          }
        }
      }
    }
  }

  /// The product of each group's rows with the weights of its expert.
  private func multiply(
    _ x: Rows, _ groups: [ExpertRouting.Group], by stacks: [WeightStack], into y: Rows
  ) {
    let largest = groups.reduce(0) { max($0, $1.count) }
    let quantized = quantize(x, for: stacks[0])
    if quantized != nil { for group in groups { interleave(stacks[group.expert]) } }
    let tileRows = tileRows(
      outputs: groups.count * stacks[0].rows, columns: stacks[0].columns, xRows: largest)
    let tiles = tiles(of: stacks[0], tileRows: tileRows)
    pool.run(tiles: tiles * groups.count) { tile, worker in
      let group = groups[tile / tiles]
      var quantized = quantized
      quantized?.first = group.first
      stacks[group.expert].parts.withUnsafeBufferPointer { parts in
        multiplyTile(
          tile % tiles, of: parts, tileRows: tileRows,
          x: x.rows(from: group.first, count: group.count), quantized: quantized,
          y: y.rows(from: group.first, count: group.count), worker: worker)
      }
    }
  }
}
