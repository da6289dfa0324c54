// Gemma 4's vision tower against the golden checkpoint, and soft tokens in the decoder.

import Checkpoint
import Compute
import JSON
import Media
import Platform
import Support
import Testing

@testable import Models

private let isPresent: ConditionTrait = .enabled(if: TestData.shared != nil, "shared test data is absent")

@Suite struct Gemma4VisionTests {
  private var path: String { (TestData.shared ?? "") + "/goldens/gemma4-mm-tiny-q4" }

  private func rows(_ name: String) throws -> [[Float]] {
    try Expected.rows(name, of: path + "/expected.safetensors")
  }

  /// The golden's image, `[height][width][3]`.
  private func samples() throws -> [Float] {
    let planes = try rows("image_chw").flatMap(\.self)
    let count = 48 * 96
    try #require(planes.count == 3 * count)
    return (0..<count).flatMap { pixel in (0..<3).map { planes[$0 * count + pixel] } }
  }

  private func tower(
    _ isa: ISA?, threads: Int = 1, mode: ComputeMode = .exact
  ) throws -> Gemma4Vision {
    let compute = try ComputeContext(threads: threads, isa: isa, mode: mode, useReference: isa == nil)
    let model = try ModelFamily.load(try ModelFolder(path: path), compute: compute)
    return try #require(model.encoder(for: .image) as? Gemma4Vision)
  }

  @Test(isPresent) func `the tower gives the golden's output and soft tokens`() throws {
    let samples = try samples()
    let soft = try rows("vision_soft").flatMap(\.self)
    let pooled = try rows("vision_tower_out")
    for isa in kernelSets {
      let run = try tower(isa).begin(width: 96, height: 48, samples: samples)
      var result: [Float]?
      var shares = 0
      while result == nil, shares < 10 {
        if shares == 3 {
          let out = run.pooled()
          for row in 0..<2 { #expect(distance(out.values(ofRow: row), pooled[row]) < 1e-3) }
        }
        result = run.advance()
        shares += 1
      }
      // Patches, two layers, and the projection.
      #expect(shares == 4)
      #expect(distance(result ?? [], soft) < 1e-3)
    }
  }

  @Test(isPresent) func `the number of threads does not change a bit`() throws {
    func encode(threads: Int) throws -> [Float] {
      let pixels = (0..<144 * 96 * 3).map { UInt8(truncatingIfNeeded: $0 &* 37 >> 3) }
      let input = MediaInput(
        content: .image(PixelImage(width: 144, height: 96, pixels: pixels)), tokenCount: 6)
      let run = try tower(CPUFeatures.best, threads: threads).begin(input)
      for _ in 0..<10 { if let soft = run.advance() { return soft } }
      return []
    }
    let alone = try encode(threads: 1)
    #expect(alone.count == 6 * 128)
    #expect(sameBits([alone], [try encode(threads: 3)]))
  }

  @Test(isPresent) func `soft tokens give the golden's logits`() throws {
    let document = try JSONValue(parsing: try File.read(path + "/expected.json", limit: 1 << 24))
    let ids = (document["mm_input_ids"]?.arrayValue ?? []).compactMap { $0.intValue.map { Int32($0) } }
    let image = try rows("vision_soft").flatMap(\.self)
    let clip = try rows("audio_soft_12keys").flatMap(\.self)
    let expected = try rows("mm_logits_12keys")
    let firstImage = try #require(ids.firstIndex(of: 150))
    let firstAudioClip = try #require(ids.firstIndex(of: 151))
    for chunk in [ids.count, 5] {
      let runner = try Runner(path)
      let table = runner.makeTable(ids.count)
      var logits: [[Float]] = []
      for start in stride(from: 0, to: ids.count, by: chunk) {
        let end = min(start + chunk, ids.count)
        var span = Batch.Span(tokens: Array(ids[start..<end]), start: start, blocks: table, logits: .all)
        for (first, values) in [(firstImage, image), (firstAudioClip, clip)] {
          let shared = (first..<first + values.count / 128).clamped(to: start..<end)
          guard !shared.isEmpty else { continue }
          let from = (shared.lowerBound - first) * 128
          span.soft.append(
            Batch.SoftRows(row: shared.lowerBound - start, values: values[from..<from + shared.count * 128]))
        }
        logits += runner.step([span])
      }
      try #require(logits.count == expected.count)
      for (row, wanted) in zip(logits, expected) { #expect(distance(row, wanted) < 1e-3) }
    }
  }

  @Test func `positions of an image see each other in sliding layers alone, with experts too`() throws {
    let path = TestData.fixtures + "/models/gemma4-moe-tiny"
    let document = try JSONValue(parsing: try File.read(path + "/images.json", limit: 1 << 20))
    func floats(_ value: JSONValue?) -> [Float] {
      (value?.arrayValue ?? []).compactMap { $0.doubleValue.map { Float($0) } }
    }
    func ints(_ value: JSONValue?) -> [Int] { (value?.arrayValue ?? []).compactMap(\.intValue) }
    let ids = ints(document["input_ids"]).map { Int32($0) }
    let groups = (document["groups"]?.arrayValue ?? []).map { ints($0)[0]..<ints($0)[1] }
    let soft = floats(document["soft"])
    let expected = (document["logits"]?.arrayValue ?? []).map(floats)
    try #require(groups == [4..<16, 18..<22] && ids.count == 24 && soft.count == 16 * 64)
    for isa in kernelSets {
      let runner = try Runner(path, isa: isa, useReference: isa == nil)
      #expect(runner.model.seesImagesWhole)
      func logits(cuts: [Int]) -> [[Float]] {
        let table = runner.makeTable(ids.count)
        return zip([0] + cuts, cuts + [ids.count]).flatMap { start, end in
          var span = Batch.Span(tokens: Array(ids[start..<end]), start: start, blocks: table, logits: .all)
          for (group, first) in zip(groups, [0, 12])
          where start <= group.lowerBound && group.upperBound <= end {
            span.groups.append(group)
            span.soft.append(
              Batch.SoftRows(
                row: group.lowerBound - start, values: soft[first * 64..<(first + group.count) * 64]))
          }
          return runner.step([span])
        }
      }
      let whole = logits(cuts: [])
      for (row, wanted) in zip(ints(document["rows"]), expected) {
        #expect(distance(whole[row], wanted) < 1e-3, "\(String(describing: isa)), row \(row)")
      }
      #expect(sameBits(whole, logits(cuts: [3, 17])))
    }
  }

  @Test(isPresent) func `the embedding per layer is a table, and what is read in whole is no part of it`()
    throws
  {
    let model = try Runner(path).model
    // 160 rows of 10 layers of 64 elements in 4 bits, and a scale and a bias for 64 of them.
    #expect(model.tableBytes == 160 * (10 * 32 + 10 * 4))
    #expect(try Runner(TestData.fixtures + "/models/gemma4-moe-tiny").model.tableBytes == 0)
  }

  @Test(isPresent) func `config.json says which tokens stand around an image`() throws {
    let runner = try Runner(path)
    let images = try #require(runner.model.mediaRules.images)
    #expect(images.marks == MediaMarks(opening: 152, soft: 150, closing: 153))
    #expect(images.grid == PatchGrid(patch: 16, pooling: 3, tokens: 280, positions: 64))
  }

  @Test(isPresent) func `without vision there is no encoder`() throws {
    var options = MediaOptions()
    options.vision = false
    let compute = try ComputeContext(threads: 1)
    let model = try ModelFamily.load(try ModelFolder(path: path), compute: compute, media: options)
    #expect(model.mediaRules.images == nil && model.mediaRules.switchedOff.contains(.image))
    #expect(model.encoder(for: .image) == nil)
  }
}
