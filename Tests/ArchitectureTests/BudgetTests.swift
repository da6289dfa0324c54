// Lines of Swift that a module may have: Package.swift sets the bounds, so that growth is a choice and not an accident.

import Testing

@Suite struct BudgetTests {
  /// Lines of every folder of `Sources`.
  private static let lines = SourceFile.all.reduce(into: [String: Int]()) { counts, file in
    counts[file.module, default: 0] += file.lines.count - (file.lines.last == "" ? 1 : 0)
  }

  @Test func `every module has a budget and keeps it`() {
    #expect(Set(Manifest.budgets.keys) == Set(Self.lines.keys))
    for (module, count) in Self.lines {
      let budget = Manifest.budgets[module] ?? 0
      #expect(
        count <= budget,
        "\(module) has \(count) lines of \(budget): delete as much, or raise the number in Package.swift and say why"
      )
    }
  }

  /// A budget that nobody needs would let the next thousand lines in unseen.
  @Test func `no budget is far above what its module has`() {
    for (module, count) in Self.lines {
      let budget = Manifest.budgets[module] ?? 0
      #expect(
        budget <= count + max(200, count / 20), "\(module) has \(count) lines of \(budget): lower the number")
    }
  }
}
