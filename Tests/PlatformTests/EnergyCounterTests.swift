// Energy of processors, from folders such as the kernel has.

import Testing

@testable import Platform

@Suite struct EnergyCounterTests {
  /// A folder of domains: a processor, a part of it, another processor, and the whole machine.
  private final class Domains {
    let folder: TemporaryFolder
    private var parts: [TemporaryFolder] = []

    init() throws {
      folder = try TemporaryFolder()
      for (name, energy) in [("package-0", "100"), ("core", "7"), ("package-1", "900"), ("psys", "5000")] {
        let part = try TemporaryFolder()
        parts.append(part)
        _ = part.file("name", Array((name + "\n").utf8))
        _ = part.file("max_energy_range_uj", Array("1000\n".utf8))
        symlink(part.path, folder.path + "/intel-rapl:\(parts.count - 1)")
        set(parts.count - 1, energy)
      }
    }

    func set(_ index: Int, _ energy: String) {
      _ = parts[index].file("energy_uj", Array((energy + "\n").utf8))
    }
    func hide(_ index: Int) { unlink(parts[index].path + "/energy_uj") }
  }

  @Test func `processors are added up, also when a counter begins anew`() throws {
    let domains = try Domains()
    let counter = EnergyCounter(folder: domains.folder.path)
    let before = try #require(counter.reading)
    #expect(before == [100, 900])
    domains.set(0, "350")
    domains.set(1, "999")
    domains.set(2, "50")
    let joules = try #require(counter.joules(since: before))
    #expect(abs(joules - (250 + 150) * 1e-6) < 1e-12)
  }

  @Test func `where one cannot be read nothing is told`() throws {
    let domains = try Domains()
    let counter = EnergyCounter(folder: domains.folder.path)
    let before = counter.reading
    domains.hide(2)
    #expect(counter.reading == nil && counter.joules(since: before) == nil)
    #expect(EnergyCounter(folder: "/nonexistent").reading == nil)
  }
}
