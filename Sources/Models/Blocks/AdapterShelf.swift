// The maps of a model that adapters may change, and the adapters that are loaded.
//
// A base stays as it is: an adapter's pairs stand beside the maps, and a product adds them to the rows that want it. So
// one step has rows of several adapters and of none, and a row has the bits that it would have alone.

package import Checkpoint
import Compute

/// Which rows of a step want which adapter. Every map looks there.
final class AdaptedRows {
  /// Neighbouring rows that want the same.
  struct Run {
    let slot: Int
    let strength: Float
    var rows: Range<Int>
  }

  private var all: [Run] = []
  private var chosen: [Run] = []
  private var count = 0
  private(set) var isEmpty = true

  /// Lays out the rows of a step, and those of them whose logits are requested.
  func lay(_ batch: Batch) {
    all.removeAll(keepingCapacity: true)
    chosen.removeAll(keepingCapacity: true)
    var (row, chosenRow) = (0, 0)
    for span in batch.spans {
      Self.append(span, row..<row + span.tokens.count, to: &all)
      Self.append(span, chosenRow..<chosenRow + span.logitRows.count, to: &chosen)
      row += span.tokens.count
      chosenRow += span.logitRows.count
    }
    (count, isEmpty) = (row, all.isEmpty)
  }

  private static func append(_ span: Batch.Span, _ rows: Range<Int>, to runs: inout [Run]) {
    guard let use = span.adapter, !rows.isEmpty else { return }
    if let last = runs.indices.last, runs[last].rows.upperBound == rows.lowerBound,
      runs[last].slot == use.slot, runs[last].strength == use.strength
    {
      runs[last].rows = runs[last].rows.lowerBound..<rows.upperBound
    } else {
      runs.append(Run(slot: use.slot, strength: use.strength, rows: rows))
    }
  }

  /// Of all rows of the step, or of those that the last layers compute.
  func runs(of rows: Int) -> [Run] { rows == count ? all : chosen }

  /// The run that a row is in.
  func run(of row: Int, among rows: Int) -> Run? { runs(of: rows).first { $0.rows.contains(row) } }
}

/// What adapters add to the maps of one product.
final class AdaptedMaps {
  /// A part of the product's outputs: some of those of a module.
  struct Part {
    let module: String
    let firstRow, rows: Int
  }

  let stacks: [(weights: WeightStack, order: [Int32]?)]
  let parts: [Part]
  private let rows: AdaptedRows
  private var pairs: [LowRankStack?] = []

  init(_ stacks: [(weights: WeightStack, order: [Int32]?)], _ parts: [Part], _ rows: AdaptedRows) {
    (self.stacks, self.parts, self.rows) = (stacks, parts, rows)
  }

  func set(_ new: LowRankStack?, slot: Int) {
    while pairs.count <= slot { pairs.append(nil) }
    pairs[slot] = new
  }

  /// Adds to the results y of the product with x what the adapters of its rows add.
  func add(_ x: Rows, to y: Rows, _ compute: ComputeContext) {
    guard !rows.isEmpty else { return }
    for run in rows.runs(of: x.count) {
      guard run.slot < pairs.count, let pairs = pairs[run.slot] else { continue }
      let (first, count) = (run.rows.lowerBound, run.rows.count)
      compute.add(
        pairs, of: x.rows(from: first, count: count), strength: run.strength,
        to: y.rows(from: first, count: count))
    }
  }

  /// As `add`, where y has rows of a table that were looked up.
  func addTable(_ ids: [Int32], to y: Rows, _ compute: ComputeContext) {
    guard !rows.isEmpty else { return }
    for run in rows.runs(of: ids.count) {
      guard run.slot < pairs.count, let pairs = pairs[run.slot] else { continue }
      compute.add(
        pairs, ofTableRows: ids[run.rows], strength: run.strength,
        to: y.rows(from: run.rows.lowerBound, count: run.rows.count))
    }
  }
}

/// What adapters add to the experts of one layer.
final class AdaptedExperts {
  /// A map of each expert.
  enum Map: Hashable {
    case gate, up, down
  }

  let stack: ExpertStack
  private let rows: AdaptedRows
  private var pairs: [LowRankExperts?] = []

  init(_ stack: ExpertStack, _ rows: AdaptedRows) { (self.stack, self.rows) = (stack, rows) }

  func set(_ new: LowRankExperts?, slot: Int) {
    while pairs.count <= slot { pairs.append(nil) }
    pairs[slot] = new
  }

  /// What is added to the experts of a row, of so many; nil where nothing is to any.
  func additions(among count: Int) -> ((Int) -> (pairs: LowRankExperts, strength: Float)?)? {
    guard !rows.isEmpty, pairs.contains(where: { $0 != nil }) else { return nil }
    return { [rows, pairs] row in
      guard let run = rows.run(of: row, among: count), run.slot < pairs.count else { return nil }
      return pairs[run.slot].map { ($0, run.strength) }
    }
  }
}

/// Engine thread only.
package final class AdapterShelf {
  let rows = AdaptedRows()
  private let compute: ComputeContext
  /// Maps by their modules, under names without what tools disagree about.
  private var maps: [String: [AdaptedMaps]] = [:]
  private var experts: [String: (experts: AdaptedExperts, map: AdaptedExperts.Map)] = [:]
  /// The table of tokens, and the output head where it is that table.
  private var table: (module: String, maps: AdaptedMaps, head: AdaptedMaps?)?
  /// Digests of the adapters by slot; nil where there is room.
  private var loaded: [String?] = []

  init(_ compute: ComputeContext) { self.compute = compute }

  // MARK: What can be changed

  private static func bare(_ name: String) -> String { AdapterFolder.bareName(name) }

  /// Notes maps that adapters may change, by the names of their tensors.
  func makeMaps(
    _ stacks: [(weights: WeightStack, order: [Int32]?)], of tensors: [WeightTensors]
  ) -> AdaptedMaps {
    let parts = tensors.map { map in
      AdaptedMaps.Part(
        module: Self.module(ofTensor: map.weight.name), firstRow: map.firstRow, rows: map.rows)
    }
    return note(AdaptedMaps(stacks, parts, rows))
  }

  /// The same for an output head, by its name.
  func makeHead(_ table: WeightStack, named name: String) -> AdaptedMaps {
    note(
      AdaptedMaps(
        [(table, nil)], [.init(module: Self.bare(name), firstRow: 0, rows: table.rows)], rows))
  }

  private func note(_ made: AdaptedMaps) -> AdaptedMaps {
    for module in Set(made.parts.map(\.module)) { maps[module, default: []].append(made) }
    return made
  }

  /// Notes the table of tokens.
  func makeTable(_ weights: WeightStack, named name: String, head: AdaptedMaps?) -> AdaptedMaps {
    let made = AdaptedMaps([(weights, nil)], [], rows)
    table = (Self.bare(name), made, head)
    return made
  }

  /// Notes experts, by the module above their maps and by the names of these.
  func makeExperts(_ stack: ExpertStack, at prefix: String, names: DenseMLP.Names) -> AdaptedExperts {
    let made = AdaptedExperts(stack, rows)
    let above = Self.bare(prefix)
    for (name, map) in [(names.gate, AdaptedExperts.Map.gate), (names.up, .up), (names.down, .down)] {
      if let name { experts["\(above).\(name)"] = (made, map) }
    }
    return made
  }

  private static func module(ofTensor name: String) -> String {
    var name = bare(name)
    for ending in [".weight", ".qweight", ".weight_packed", ".W_q"] where name.hasSuffix(ending) {
      name = String(name.dropLast(ending.count))
    }
    return name
  }

  /// Whether adapters may change a linear map of this name.
  package func takes(_ module: String) -> Bool { maps[Self.bare(module)] != nil }

  // MARK: Adapters

  /// Where an adapter is; nil for one that is not loaded.
  package func slot(of digest: String) -> Int? { loaded.firstIndex(of: digest) }

  /// Takes an adapter up. Nothing has changed where it throws.
  ///
  /// - Returns: bytes that it takes in memory.
  /// - Throws: `badAdapter` for one that does not fit the model, by the names of modules.
  package func add(_ folder: AdapterFolder) throws(ModelError) -> Int {
    guard slot(of: folder.digest) == nil else { return 0 }
    let slot = loaded.firstIndex(of: nil) ?? loaded.count
    let changes = try changes(folder)
    if slot == loaded.count { loaded.append(nil) }
    loaded[slot] = folder.digest
    for (maps, pairs) in changes.maps { maps.set(pairs, slot: slot) }
    for (experts, pairs) in changes.experts { experts.set(pairs, slot: slot) }
    return changes.maps.reduce(0) { $0 + ($1.1?.byteCount ?? 0) }
      + changes.experts.reduce(0) { $0 + $1.1.byteCount }
  }

  /// Lets an adapter go: no row may want it any more.
  package func remove(_ digest: String) {
    guard let slot = slot(of: digest) else { return }
    loaded[slot] = nil
    for list in maps.values { for maps in list { maps.set(nil, slot: slot) } }
    table?.maps.set(nil, slot: slot)
    for (experts, _) in experts.values { experts.set(nil, slot: slot) }
  }

  private struct Changes {
    var maps: [(AdaptedMaps, LowRankStack?)] = []
    var experts: [(AdaptedExperts, LowRankExperts)] = []
  }

  private func changes(_ folder: AdapterFolder) throws(ModelError) -> Changes {
    func fault(_ problem: String) -> ModelError {
      .checkpoint(.badAdapter(path: folder.path, problem: problem))
    }
    var changed: [ObjectIdentifier: (maps: AdaptedMaps, pairs: [LowRankTensors?])] = [:]
    var changedExperts:
      [ObjectIdentifier: (experts: AdaptedExperts, pairs: [AdaptedExperts.Map: [LowRankTensors]])] = [:]
    var (changes, unknown) = (Changes(), [String]())
    for module in folder.modules {
      let name = Self.bare(module.name)
      func check(_ tensors: LowRankTensors, rows: Int, columns: Int) throws(ModelError) {
        guard tensors.rows == rows, tensors.columns == columns else {
          throw fault(
            "module \(CheckpointError.quoted(module.name)) is a map of \(tensors.columns) inputs and "
              + "\(tensors.rows) outputs, and the model's has \(columns) and \(rows)")
        }
      }
      if let table, table.module == name, let tensors = module.isTable ? module.tensors : module.asTable {
        let weights = table.maps.stacks[0].weights
        try check(tensors, rows: weights.rows, columns: weights.columns)
        let pairs = try computing(try compute.makeLowRank([(weights, nil)], [tensors]))
        changes.maps.append((table.maps, pairs))
        if folder.changesTiedHead, let head = table.head { changes.maps.append((head, pairs)) }
      } else if let list = maps[name], !module.isTable, module.experts == nil {
        let rows = list.flatMap(\.parts).filter { $0.module == name }.reduce(0) { $0 + $1.rows }
        try check(module.tensors, rows: rows, columns: list[0].stacks[0].weights.columns)
        for maps in list {
          var entry =
            changed[ObjectIdentifier(maps)]
            ?? (maps, [LowRankTensors?](repeating: nil, count: maps.parts.count))
          for (index, part) in maps.parts.enumerated() where part.module == name {
            entry.pairs[index] = module.tensors.outputs(from: part.firstRow)
          }
          changed[ObjectIdentifier(maps)] = entry
        }
      } else if let (experts, map) = experts[name], let count = module.experts {
        let (hidden, width) = (experts.stack.hidden, experts.stack.width)
        guard count == experts.stack.count else {
          throw fault(
            "module \(CheckpointError.quoted(module.name)) has \(count) experts, and the model \(experts.stack.count)"
          )
        }
        try check(module.tensors, rows: map == .down ? hidden : width, columns: map == .down ? width : hidden)
        changedExperts[ObjectIdentifier(experts), default: (experts, [:])].pairs[map] = (0..<count).map {
          module.tensors.element($0)
        }
      } else {
        unknown.append(module.name)
      }
    }
    guard unknown.isEmpty else {
      throw fault(
        "it changes modules that the model does not have, or that adapters cannot change in it: "
          + unknown.prefix(3).map(CheckpointError.quoted).joined(separator: ", ")
          + (unknown.count > 3 ? " and \(unknown.count - 3) more" : ""))
    }
    for (maps, pairs) in changed.values {
      changes.maps.append((maps, try computing(try compute.makeLowRank(maps.stacks, pairs))))
    }
    for (experts, pairs) in changedExperts.values {
      changes.experts.append(
        (
          experts,
          try computing(
            try compute.makeLowRank(
              experts.stack, gates: pairs[.gate] ?? [], ups: pairs[.up] ?? [], downs: pairs[.down] ?? []))
        ))
    }
    return changes
  }
}
