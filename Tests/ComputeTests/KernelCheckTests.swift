// What `mlxserve doctor --kernels` compares: all kernels of every set of this machine agree, and none is left out.

import Testing

@testable import Compute

@Suite struct KernelCheckTests {
  @Test(arguments: CPUFeatures.available)
  func `every kernel of a set agrees with its twin`(isa: ISA) {
    let findings = KernelCheck.run(isa)
    #expect(findings.filter { !$0.isRight }.isEmpty)
    #expect(Set(findings.map(\.kernel)).count == findings.count)
    // Integer products of six widths in groups of three sizes, and of some floating modes, where a set has them.
    let int8 = KernelTable.table(for: isa).int8
    let expected = int8 == nil ? 0 : int8?.wide == nil ? 20 : 22
    #expect(findings.count { $0.kernel.hasSuffix(", fast") } == expected)
    #expect(findings.count > 20)
  }
}
