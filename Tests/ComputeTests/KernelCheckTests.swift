// What `mlxserve doctor --kernels` compares: all kernels of every set of this machine agree, and none is left out.

import Testing

@testable import Compute

@Suite struct KernelCheckTests {
  @Test(arguments: CPUFeatures.available)
  func `every kernel of a set agrees with its twin`(isa: ISA) {
    let findings = KernelCheck.run(isa)
    #expect(findings.filter { !$0.isRight }.isEmpty)
    #expect(Set(findings.map(\.kernel)).count == findings.count)
    // Integer products of six widths in groups of three sizes, where a set has them.
    let isFast = KernelTable.table(for: isa).int8 != nil
    #expect(findings.count { $0.kernel.hasSuffix(", fast") } == (isFast ? 20 : 0))
    #expect(findings.count > 20)
  }
}
