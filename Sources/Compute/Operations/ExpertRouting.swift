// Mixture of experts: every row of activations goes through a few of a layer's many MLPs.
//
// Rows are grouped by expert: the weights of an expert are read once for all of its rows, and those of experts that no
// row chose not at all. A row's result is the sum over its own experts, likeliest first, so it has the same bits
// whoever else is in the step.

/// How a row's experts are chosen and weighted.
package struct ExpertRule: Sendable {
  /// What the router's outputs become.
  package enum Scores: Sendable {
    /// Their share in the softmax over all experts.
    case all
    /// Their share in the softmax over those that the row chose: the sum of the weights is 1.
    case chosen
    /// 1 / (1 + e^-x), each by itself.
    case sigmoid
  }

  /// Experts in groups of equal size, of which a row first chooses some: experts of the others are out of its reach.
  package struct Groups: Sendable {
    package var count: Int
    /// Groups that a row keeps.
    package var kept: Int
    /// How many of a group's largest scores make up the group's own: two, or in DeepSeek V2 the largest alone.
    package var leaders: Int

    package init(count: Int, kept: Int, leaders: Int) {
      (self.count, self.kept, self.leaders) = (count, kept, leaders)
    }
  }

  package var perRow: Int
  package var scores: Scores
  /// Added to the scores where experts are chosen, not where they are weighted; one per expert, or empty.
  package var selectionBias: [Float] = []
  package var groups: Groups?
  /// The weights of a row's experts are divided by their sum and this; nil leaves them as they are.
  package var renormalizing: Float?
  /// Factors of the weights: one of all, and one per expert (or empty).
  package var scale: Float = 1
  package var expertScales: [Float] = []

  package init(perRow: Int, scores: Scores) {
    (self.perRow, self.scores) = (perRow, scores)
  }

  /// Whether experts are chosen by something else than the router's outputs, which order them as their shares do.
  fileprivate var needsSelection: Bool { !selectionBias.isEmpty || groups != nil }
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
  /// Of one row: what its experts are weighted with, chosen by, and the same of their groups.
  private var shares: [Double] = []
  private var selection: [Float] = []
  private var groupScores: [Float] = []

  fileprivate let gathered = ScratchBuffer()
  fileprivate let gateUp = ScratchBuffer()
  fileprivate let results = ScratchBuffer()

  package init() {}

  /// Chooses the experts of every row: those with the highest scores, of equals the first.
  ///
  /// - Parameters:
  ///   - scores: the router's output, `[rows, experts]`.
  ///   - rule: chooses at most as many experts per row as there are, from groups that have as many.
  package func choose(_ scores: Rows, by rule: ExpertRule) {
    let count = scores.columns
    let groups = rule.groups ?? ExpertRule.Groups(count: 1, kept: 1, leaders: 1)
    precondition(
      (1...max(1, count)).contains(rule.perRow)
        && (rule.expertScales.isEmpty || rule.expertScales.count == count)
        && (rule.selectionBias.isEmpty || rule.selectionBias.count == count)
        && (1...max(1, count)).contains(groups.count) && count % groups.count == 0
        && (1...groups.count).contains(groups.kept) && groups.kept * (count / groups.count) >= rule.perRow,
      "experts: shapes differ")
    perRow = rule.perRow
    rows = scores.count
    experts.removeAll(keepingCapacity: true)
    weights.removeAll(keepingCapacity: true)
    for r in 0..<scores.count {
      let row = UnsafePointer(scores.row(r))
      share(row, of: count, rule)
      if rule.needsSelection {
        makeSelection(of: count, rule)
        selection.withUnsafeBufferPointer { selection in
          if let base = selection.baseAddress { choose(base, of: count) }
        }
      } else {
        choose(row, of: count)
      }
      weigh(row, rule)
    }
    group(experts: count)
  }

  /// Sets the shares of one row, where the rule has shares that do not depend on the choice.
  private func share(_ scores: UnsafePointer<Float>, of count: Int, _ rule: ExpertRule) {
    shares.removeAll(keepingCapacity: true)
    switch rule.scores {
    case .chosen where rule.needsSelection, .all:
      var highest = -Float.infinity
      for expert in 0..<count { highest = max(highest, scores[expert]) }
      for expert in 0..<count { shares.append(exponential(Double(scores[expert] - highest))) }
      let sum = shares.reduce(0, +)
      for expert in 0..<count { shares[expert] /= sum }
    case .sigmoid:
      for expert in 0..<count { shares.append(1 / (1 + exponential(-Double(scores[expert])))) }
    case .chosen: break
    }
  }

  /// Sets what one row's experts are chosen by, from their shares.
  private func makeSelection(of count: Int, _ rule: ExpertRule) {
    selection.removeAll(keepingCapacity: true)
    for expert in 0..<count {
      selection.append(Float(shares[expert]) + (rule.selectionBias.isEmpty ? 0 : rule.selectionBias[expert]))
    }
    guard let groups = rule.groups, groups.kept < groups.count else { return }
    let size = count / groups.count
    groupScores.removeAll(keepingCapacity: true)
    for group in 0..<groups.count {
      let members = selection[group * size..<(group + 1) * size].sorted(by: >)
      groupScores.append(members.prefix(groups.leaders).reduce(0, +))
    }
    // A group is kept when fewer than `kept` others are better, of equals the first.
    for group in 0..<groups.count {
      let better = groupScores.indices.count { other in
        groupScores[other] > groupScores[group] || (groupScores[other] == groupScores[group] && other < group)
      }
      guard better >= groups.kept else { continue }
      for expert in group * size..<(group + 1) * size { selection[expert] = -.infinity }
    }
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
  private func weigh(_ scores: UnsafePointer<Float>, _ rule: ExpertRule) {
    let chosen = experts[(experts.count - perRow)...]
    var sum = 1.0
    if rule.scores == .chosen {
      // The highest of the chosen, which a selection bias need not have put first.
      let highest = chosen.reduce(-Float.infinity) { max($0, scores[$1]) }
      func part(_ expert: Int) -> Double { exponential(Double(scores[expert] - highest)) }
      sum = chosen.reduce(0) { $0 + part($1) }
      for expert in chosen { weights.append(weight(of: expert, part(expert) / sum, rule)) }
      return
    }
    if let least = rule.renormalizing { sum = chosen.reduce(0) { $0 + shares[$1] } + Double(least) }
    for expert in chosen { weights.append(weight(of: expert, shares[expert] / sum, rule)) }
  }

  private func weight(of expert: Int, _ share: Double, _ rule: ExpertRule) -> Float {
    let scaled = rule.scale == 1 ? Float(share) : Float(share * Double(rule.scale))
    return rule.expertScales.isEmpty ? scaled : scaled * rule.expertScales[expert]
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
  ///
  /// - Parameters:
  ///   - weighsInput: `y[r] = Σ expert(weight · x[r])` instead (Llama 4).
  ///   - adapted: what is added to the maps of the experts of a row, and how much; nil where nothing is.
  package func multiply(
    _ x: Rows, by stack: ExpertStack, routing: ExpertRouting, weighsInput: Bool = false,
    adapted: ((_ row: Int) -> (pairs: LowRankExperts, strength: Float)?)? = nil, into y: Rows
  ) {
    precondition(
      x.count == routing.rows && y.count == x.count && x.columns == stack.hidden && y.columns == stack.hidden,
      "experts: shapes differ")
    guard x.count > 0 else { return }
    let (perRow, slots) = (routing.perRow, routing.slots)
    let gathered = routing.gathered.rows(slots.count, stack.hidden)
    forEachRow(slots.count, work: stack.hidden) { range in
      for index in range {
        x.copyRow(index / perRow, to: gathered, at: slots[index])
        if weighsInput { kernels.scale(routing.weights[index], stack.hidden, gathered.row(slots[index])) }
      }
    }
    let inner = routing.gateUp.rows(slots.count, stack.up[0].rows)
    multiply(gathered, routing.groups, by: stack.up, into: inner)
    if stack.isInterleaved { separatePairs(inner) }
    if let adapted {
      add(gathered, routing, to: inner) { row, expert in
        adapted(row).flatMap { all in all.pairs.up[expert].map { ($0, all.strength) } }
      }
    }
    let gate = activate(stack.activation, inner)
    let results = routing.results.rows(slots.count, stack.hidden)
    multiply(gate, routing.groups, by: stack.down, into: results)
    if let adapted {
      add(gate, routing, to: results) { row, expert in
        adapted(row).flatMap { all in all.pairs.down[expert].map { ($0, all.strength) } }
      }
    }
    forEachRow(x.count, work: 2 * perRow * stack.hidden) { range in
      for row in range {
        for choice in 0..<perRow {
          let index = row * perRow + choice
          let result = results.row(slots[index])
          if !weighsInput { kernels.scale(routing.weights[index], stack.hidden, result) }
          if choice == 0 {
            results.copyRow(slots[index], to: y, at: row)
          } else {
            kernels.add(result, stack.hidden, y.row(row))
          }
        }
      }
    }
  }

  /// Puts the elements 0, 2, 4, ... of every row before the others.
  private func separatePairs(_ x: Rows) {
    let half = x.columns / 2
    forEachRow(x.count, work: 2 * x.columns) { range in
      withUnsafeTemporaryAllocation(of: Float.self, capacity: half) { second in
        guard let second = second.baseAddress else { return }
        for r in range {
          let row = x.row(r)
          for c in 0..<half { (row[c], second[c]) = (row[2 * c], row[2 * c + 1]) }
          (row + half).update(from: second, count: half)
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
    if quantized != nil {
      for group in groups { interleave(stacks[group.expert], rows: group.count) }
    }
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
