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
