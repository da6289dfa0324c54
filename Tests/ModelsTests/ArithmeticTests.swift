// The bits that each arithmetic gives: digests of logits, which may change only together with the arithmetic's name.

import Checkpoint
import Compute
import Models
import Platform
import Support
import Testing

/// A checkpoint and what its logits and those of its cache hash to, by arithmetic. Whoever changes bits on purpose gives the
/// arithmetic the next number (`ComputeContext.arithmetic`), puts the new digests here, and tells it in docs/determinism.md.
private let golden: [(model: String, digests: [String: String])] = [
  (
    "demo",
    [
      "exact-1": "923d8928132a9667", "exact-1-avx512": "b74a42a422d08a13",
      "exact-1-portable": "92d39900f057ff95", "fine-1": "82966ef1d537ec18", "int8-1": "b568f8ba7621451d",
    ]
  ),
  (
    "llama3-tiny-q4",
    [
      "exact-1": "de14a6f114651549", "exact-1-avx512": "930508598fdc1468",
      "exact-1-portable": "8edf92b48e54ca59", "fine-1": "7b4e137f2001146d", "int8-1": "266168d472376f04",
    ]
  ),
  (
    "llama-tiny-q3",
    [
      "exact-1": "bd14b4c5dac6eb24", "exact-1-avx512": "a44d123922445313",
      "exact-1-portable": "491601d97859e8e5", "fine-1": "da1facb82af18ff4", "int8-1": "25b4ee839d046947",
    ]
  ),
  (
    "gptoss-tiny",
    [
      "exact-1": "59a6d46e001a054f", "exact-1-avx512": "3cffc6522c044078",
      "exact-1-portable": "711dd876cd5da72d", "fine-1": "828e50febd17d860",
      "fine-1-avx512": "58764ae1470260f6", "int8-1": "828e50febd17d860", "int8-1-avx512": "58764ae1470260f6",
    ]
  ),
  (
    "qwen35-tiny",
    [
      "exact-1": "841246cae55b917b", "exact-1-avx512": "e3d920f0ef178bc0",
      "exact-1-portable": "b789f60034b4db06", "fine-1": "e58869edf0c31509",
      "fine-1-avx512": "4effde750bfc3590", "int8-1": "e58869edf0c31509", "int8-1-avx512": "4effde750bfc3590",
    ]
  ),
  (
    "gemma2-tiny",
    [
      "exact-1": "886993620d6f0d6b", "exact-1-avx512": "558c186e654ec508",
      "exact-1-portable": "46f78d729556dfa3", "fine-1": "baaf4f4a945acb9f",
      "fine-1-avx512": "79bd1c162d42e88d", "int8-1": "baaf4f4a945acb9f", "int8-1-avx512": "79bd1c162d42e88d",
    ]
  ),
  (
    "lfm2-tiny",
    [
      "exact-1": "6064879e437991a3", "exact-1-avx512": "fa6c4c75a41cb4ea",
      "exact-1-portable": "8e8adc37f3cc5b3f", "fine-1": "b08322d84f68bfb5",
      "fine-1-avx512": "f6f7e82ff0d57391", "int8-1": "b08322d84f68bfb5", "int8-1-avx512": "f6f7e82ff0d57391",
    ]
  ),
  (
    "qwen3moe-mixed-tiny",
    [
      "exact-1": "2f53028e3093b5a8", "exact-1-avx512": "f8c095445cb5bce8",
      "exact-1-portable": "a43bba0ac93eb8ec", "fine-1": "aca5b9e14d9622dd",
      "fine-1-avx512": "70e767a40f3acde3", "int8-1": "aca5b9e14d9622dd", "int8-1-avx512": "70e767a40f3acde3",
    ]
  ),
  (
    "llama-tiny-mxfp8",
    [
      "exact-1": "e163fe90f9eeac3a", "exact-1-avx512": "9047919c90cad2c8",
      "exact-1-portable": "564508017ebf3c12", "fine-1": "fa2a21ed6f68f6ce",
      "fine-1-avx512": "0ea807c27d7cb25c", "int8-1": "fa2a21ed6f68f6ce", "int8-1-avx512": "0ea807c27d7cb25c",
    ]
  ),
]

@Suite struct ArithmeticTests {
  @Test func `an arithmetic gives the bits that its name stands for on every instruction set`() throws {
    for (name, digests) in golden {
      // The one with E4M3 weights is not of the package.
      let folders = [TestData.fixtures + "/models/", (TestData.shared ?? "") + "/goldens/"].map { $0 + name }
      guard let path = folders.first(where: File.isDirectory) else { continue }
      for isa in CPUFeatures.available {
        for mode in ComputeMode.allCases {
          for interleaves in [true, false] where interleaves || mode == .fast {
            let (arithmetic, found) = try digest(path, isa, mode, interleaves: interleaves)
            #expect(
              digests[arithmetic] == found, "\(name) \(isa) \(mode) \(interleaves): \(arithmetic) \(found)")
          }
        }
      }
    }
  }

  @Test(arguments: GoldenFolder.decoders)
  func `under one name every model has the same bits on every instruction set`(golden: GoldenFolder) throws {
    for mode in ComputeMode.allCases {
      var known: [String: String] = [:]
      for isa in CPUFeatures.available {
        let (arithmetic, found) = try digest(golden.path, isa, mode, interleaves: true)
        #expect(known[arithmetic] ?? found == found, "\(isa) \(mode): \(arithmetic)")
        known[arithmetic] = found
      }
    }
  }

  /// The arithmetic, as an engine names it, and the first bytes of SHA-256 over the bits of all logits of a prompt, with the cache
  /// that the mode has by itself.
  private func digest(
    _ path: String, _ isa: ISA, _ mode: ComputeMode, interleaves: Bool
  ) throws -> (arithmetic: String, digest: String) {
    let compute = try ComputeContext(threads: 2, isa: isa, mode: mode, interleaves: interleaves)
    let runner = try Runner(path, compute, format: compute.mode == .exact ? .f32 : .q16)
    let tokens = (0..<40).map { Int32(($0 * 37 + 11) % runner.model.vocabularySize) }
    var hash = SHA256()
    // The machines that are tested store the low byte first.
    for row in runner.logits(of: tokens) { row.withUnsafeBytes { hash.update($0) } }
    let arithmetic = compute.arithmetic(
      multipliesFloats: runner.folder.multipliesFloats || !runner.model.cacheShape.recurrent.isEmpty)
    return (arithmetic, String(SHA256.hexadecimal(hash.finish()).prefix(16)))
  }
}
