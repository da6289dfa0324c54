// Detection of instruction sets.

import Testing

@testable import Compute

@Suite struct FeatureTests {
  @Test func `a level needs all of its flags`() {
    let avx2: Set = ["avx2", "fma", "f16c", "bmi2"]
    let wide = avx2.union(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni"])
    #expect(CPUFeatures.levels(flags: []) == [.portable])
    #expect(CPUFeatures.levels(flags: avx2) == [.portable, .avx2])
    #expect(CPUFeatures.levels(flags: avx2.subtracting(["fma"])) == [.portable])
    #expect(CPUFeatures.levels(flags: wide) == [.portable, .avx2, .avx512])
    #expect(CPUFeatures.levels(flags: wide.subtracting(["avx512_vnni"])) == [.portable, .avx2])
    #expect(CPUFeatures.levels(flags: wide.subtracting(["avx2"])) == [.portable])
    #expect(CPUFeatures.levels(flags: avx2.union(["avx_vnni"])) == [.portable, .avx2, .avxvnni])
    #expect(CPUFeatures.levels(flags: wide.union(["avx_vnni"])) == [.portable, .avx2, .avxvnni, .avx512])
    #expect(CPUFeatures.levels(flags: ["avx_vnni"]) == [.portable])
    let tiles: Set = ["amx_tile", "amx_int8"]
    #expect(CPUFeatures.levels(flags: wide.union(tiles)) == [.portable, .avx2, .avx512, .amx])
    // What Linux did not give is taken from the flags.
    #expect(CPUFeatures.levels(flags: wide.union(["amx_int8"])) == [.portable, .avx2, .avx512])
    #expect(CPUFeatures.levels(flags: tiles) == [.portable])
  }

  @Test func `a program holds the kernels of one architecture, and all that its machine takes`() {
    #expect(Set(ISA.built).isSuperset(of: CPUFeatures.available))
    #expect(ISA.built.contains(.avx2) != ISA.built.contains(.neon))
    #expect(ISA.built == ISA.built.sorted() && ISA.built.first == .portable)
  }

  @Test func `the levels of arm64 are read from what Linux tells a process at its start`() {
    func vector(_ pairs: [(UInt64, UInt64)]) -> [UInt8] {
      pairs.flatMap { [$0.0, $0.1] }.flatMap { word in
        (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * $0)) }
      }
    }
    func levels(_ capabilities: UInt64, _ more: UInt64) -> [ISA] {
      let pairs: [(UInt64, UInt64)] = [(33, 0x7FFF_0000), (16, capabilities), (6, 4096), (26, more), (0, 0)]
      return CPUFeatures.levels(flags: CPUFeatures.flags(auxiliaryVector: vector(pairs)))
    }
    #expect(levels(0, 0) == [.portable])
    #expect(levels(0xFF, 0) == [.portable, .neon])
    #expect(levels(0x10_00FF, 0) == [.portable, .neon, .dotprod])
    #expect(levels(0x10_00FF, 0x2000) == [.portable, .neon, .dotprod, .i8mm])
    #expect(levels(0xFF, 0x2000) == [.portable, .neon])
    // What ends in the middle of a pair is left out.
    #expect(CPUFeatures.flags(auxiliaryVector: Array(vector([(16, 2)]).dropLast())) == [])
  }

  @Test func `a level that the machine lacks is refused by name`() throws {
    for isa in ISA.allCases where !CPUFeatures.available.contains(isa) {
      #expect(throws: ComputeError.self) { try ComputeContext(threads: 1, isa: isa) }
    }
    for isa in CPUFeatures.available {
      #expect(try ComputeContext(threads: 1, isa: isa).isa == isa)
    }
  }
}
