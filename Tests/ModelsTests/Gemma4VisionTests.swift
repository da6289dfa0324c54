// Gemma 4's vision tower against the golden checkpoints, and soft tokens in the decoder.

import Checkpoint
import Compute
import JSON
import Media
import Platform
import Support
import Testing

@testable import Models

@Suite struct Gemma4VisionTests {
  private func tower(
    _ golden: GoldenFolder, _ isa: ISA?, threads: Int = 1, mode: ComputeMode = .exact
  ) throws -> Gemma4Vision {
    let compute = try ComputeContext(threads: threads, isa: isa, mode: mode, useReference: isa == nil)
    let model = try ModelFamily.load(try ModelFolder(path: golden.path), compute: compute)
    return try #require(model.encoder(for: .image) as? Gemma4Vision)
  }

  /// The golden's image, its planes interleaved: `[height][width][3]`.
  private func image(_ golden: GoldenFolder) throws -> (width: Int, height: Int, samples: [Float]) {
    let planes = try golden.array("image_chw")
    let (height, width) = (planes.shape[planes.shape.count - 2], planes.shape[planes.shape.count - 1])
    let count = height * width
    try #require(planes.values.count == 3 * count)
    let samples = (0..<count).flatMap { pixel in (0..<3).map { planes.values[$0 * count + pixel] } }
    return (width, height, samples)
  }

  @Test(haveTowers, arguments: GoldenFolder.towers)
  func `the tower gives the golden's output and soft tokens`(golden: GoldenFolder) throws {
    let image = try image(golden)
    let layers = try golden.setting("vision_config", "num_hidden_layers")
    let (soft, pooled) = (try golden.array("vision_soft"), try golden.array("vision_tower_out"))
    for isa in kernelSets {
      let run = try tower(golden, isa).begin(
        width: image.width, height: image.height, samples: image.samples)
      // Patches, then every layer.
      for _ in 0...layers { #expect(run.advance() == nil) }
      let out = run.pooled()
      let found = (0..<out.count).flatMap { out.values(ofRow: $0) }
      #expect(distance(found, pooled.values) < 1e-3, "\(String(describing: isa))")
      // The projection is the last step.
      #expect(distance(run.advance() ?? [], soft.values) < 1e-3, "\(String(describing: isa))")
    }
  }

  @Test(haveTowers, arguments: GoldenFolder.towers)
  func `the number of threads does not change a bit`(golden: GoldenFolder) throws {
    func encode(threads: Int) throws -> [Float] {
      let tower = try tower(golden, CPUFeatures.best, threads: threads)
      let (width, height) = (3 * tower.grid.side, 2 * tower.grid.side)
      let pixels = (0..<width * height * 3).map { UInt8(truncatingIfNeeded: $0 &* 37 >> 3) }
      let run = try tower.begin(
        MediaInput(content: .image(PixelImage(width: width, height: height, pixels: pixels)), tokenCount: 6))
      for _ in 0..<300 { if let soft = run.advance() { return soft } }
      return []
    }
    let alone = try encode(threads: 1)
    #expect(alone.count == 6 * (try golden.hidden()))
    #expect(sameBits([alone], [try encode(threads: 3)]))
  }

  @Test(haveTowers, arguments: GoldenFolder.towers)
  func `soft tokens give the golden's logits`(golden: GoldenFolder) throws {
    for reach in try golden.audioReaches() {
      let prompt = try MediaPrompt(
        golden, image: try golden.array("vision_soft").rows,
        audio: try golden.array("audio_soft_\(reach)keys").rows)
      let expected = try golden.array("mm_logits_\(reach)keys").rows
      for chunk in [prompt.ids.count, 5] {
        let logits = prompt.logits(try Runner(golden.path), chunk: chunk)
        try #require(logits.count == expected.count)
        for (row, wanted) in zip(logits, expected) { #expect(distance(row, wanted) < 1e-3, "\(reach)") }
      }
    }
  }

  @Test(arguments: GoldenFolder.groups)
  func `positions of an image see each other in sliding layers alone, with experts too`(
    golden: GoldenFolder
  ) throws {
    let document = try GoldenFolder.document(golden.path + "/images.json")
    let (ids, rows) = (tokenIDs(document["input_ids"]), tokenIDs(document["rows"]))
    let groups = (document["groups"]?.arrayValue ?? []).map(tokenIDs).map { Int($0[0])..<Int($0[1]) }
    let (hidden, soft) = (try golden.hidden(), numbers(document["soft"]))
    let expected = (document["logits"]?.arrayValue ?? []).map(numbers)
    try #require(groups.count > 1 && soft.count == groups.reduce(0) { $0 + $1.count } * hidden)
    try #require(!rows.isEmpty && rows.count == expected.count)
    for isa in kernelSets {
      let runner = try Runner(golden.path, isa: isa, useReference: isa == nil)
      #expect(runner.model.seesImagesWhole)
      func logits(cuts: [Int]) -> [[Float]] {
        let table = runner.makeTable(ids.count)
        return zip([0] + cuts, cuts + [ids.count]).flatMap { start, end in
          var span = Batch.Span(tokens: Array(ids[start..<end]), start: start, blocks: table, logits: .all)
          var first = 0
          for group in groups {
            let values = soft[first..<first + group.count * hidden]
            first += values.count
            guard start <= group.lowerBound, group.upperBound <= end else { continue }
            span.groups.append(group)
            span.soft.append(Batch.SoftRows(row: group.lowerBound - start, values: values))
          }
          return runner.step([span])
        }
      }
      let whole = logits(cuts: [])
      for (row, wanted) in zip(rows, expected) {
        #expect(distance(whole[Int(row)], wanted) < 1e-3, "\(String(describing: isa)), row \(row)")
      }
      // Cut a token before every image.
      #expect(sameBits(whole, logits(cuts: groups.map { max(0, $0.lowerBound - 1) })))
    }
  }

  @Test(arguments: GoldenFolder.towers + GoldenFolder.groups)
  func `the embedding per layer is a table, and what is read in whole is no part of it`(
    golden: GoldenFolder
  ) throws {
    let weights = try ModelFolder(path: golden.path).weights
    let table = weights.names.filter { $0.contains("embed_tokens_per_layer.") }
    let bytes = try table.map { try weights.tensor($0, shape: weights.shape(of: $0) ?? []).bytes.count }
    #expect(try Runner(golden.path).model.tableBytes == bytes.reduce(0, +))
  }

  @Test(haveTowers, arguments: GoldenFolder.towers)
  func `config.json says which tokens stand around an image`(golden: GoldenFolder) throws {
    let images = try #require(try Runner(golden.path).model.mediaRules.images as? GridImages)
    #expect(images.marks == (try golden.marks(opening: "boi", soft: "image", closing: "eoi")))
    #expect(
      images.grid
        == PatchGrid(
          patch: try golden.setting("vision_config", "patch_size"),
          pooling: try golden.setting("vision_config", "pooling_kernel_size"),
          tokens: try golden.setting("vision_config", "default_output_length"),
          positions: try golden.setting("vision_config", "position_embedding_size")))
  }

  @Test(haveTowers, arguments: GoldenFolder.towers)
  func `without vision there is no encoder`(golden: GoldenFolder) throws {
    var options = MediaOptions()
    options.vision = false
    let compute = try ComputeContext(threads: 1)
    let model = try ModelFamily.load(try ModelFolder(path: golden.path), compute: compute, media: options)
    #expect(model.mediaRules.images == nil && model.mediaRules.switchedOff.contains(.image))
    #expect(model.encoder(for: .image) == nil)
  }
}
