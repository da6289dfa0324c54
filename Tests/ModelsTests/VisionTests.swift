// Models that see, against goldens of transformers: pixels, layouts of prompts, soft tokens, logits.

import Checkpoint
import Compute
import JSON
import Media
import Platform
import Support
import Testing

@testable import Models

/// A golden with its images on their way into the model.
private struct VisionRun {
  let golden: GoldenFolder
  let runner: Runner
  let processor: any ImageProcessor
  let passages: [MediaPassage]
  let ids: [Int32]

  var inputs: [MediaInput] { passages.flatMap(\.inputs) }

  init(
    _ golden: GoldenFolder, at path: String? = nil, isa: ISA? = CPUFeatures.best, threads: Int = 1
  ) throws {
    self.golden = golden
    runner = try Runner(path ?? golden.path, threads: threads, isa: isa, useReference: isa == nil)
    let processor = try #require(runner.model.mediaRules.images)
    self.processor = processor
    let expected = try golden.expected()
    ids = tokenIDs(expected["input_ids"])
    let files = (expected["images"]?.arrayValue ?? []).compactMap(\.stringValue)
    try #require(!files.isEmpty && !ids.isEmpty)
    passages = try files.map { try processor.passage(TestData.bytes(golden.path + "/" + $0)) }
  }

  /// The soft tokens of an input.
  func soft(_ input: MediaInput) throws -> [Float] {
    let run = try #require(runner.model.encoder(for: .image)).begin(input)
    for _ in 0..<300 { if let soft = run.advance() { return soft } }
    return []
  }

  /// Where the soft tokens of each input stand in the golden's prompt.
  func places() throws -> [Range<Int>] {
    var (places, at): ([Range<Int>], Int) = ([], 0)
    for input in inputs {
      let start = try #require(ids[at...].firstIndex(of: passages[0].soft))
      at = start + input.tokenCount
      try #require(at <= ids.count && ids[start..<at].allSatisfy { $0 == passages[0].soft })
      places.append(start..<at)
    }
    try #require(!ids[at...].contains(passages[0].soft))
    return places
  }

  /// Time, row and column of each token, where the model turns by these.
  func coordinates() throws -> TokenPlaces? {
    TokenPlaces(
      zip(try places(), inputs).map { MediaSpan(start: $0.lowerBound, input: $1) }, count: ids.count)
  }

  /// Spans of the prompt that end at `cuts` and at its end, with the soft tokens of each.
  func spans(_ soft: [[Float]], cuts: [Int], table: [Int32]) throws -> [Batch.Span] {
    let (places, coordinates) = (try places(), try coordinates())
    return zip([0] + cuts, cuts + [ids.count]).map { start, end in
      var span = Batch.Span(tokens: Array(ids[start..<end]), start: start, blocks: table, logits: .all)
      span.places = coordinates?[start..<end] ?? []
      for (place, values) in zip(places, soft) where place.overlaps(start..<end) {
        let part = place.clamped(to: start..<end)
        let width = values.count / place.count
        let first = (part.lowerBound - place.lowerBound) * width
        span.soft.append(
          Batch.SoftRows(
            row: part.lowerBound - start, values: values[first..<first + part.count * width], width: width))
        if runner.model.seesImagesWhole { span.groups.append(place) }
      }
      return span
    }
  }

  func logits(_ soft: [[Float]], cuts: [Int] = []) throws -> [[Float]] {
    let table = runner.makeTable(ids.count)
    return try spans(soft, cuts: cuts, table: table).flatMap { runner.step([$0]) }
  }

  /// Where the prompt may be cut.
  func cuts() throws -> [Int] {
    guard runner.model.seesImagesWhole else { return Array(stride(from: 7, to: ids.count, by: 7)) }
    return try places().flatMap { [$0.lowerBound - 1, $0.upperBound] }
  }
}

/// The largest magnitude.
private func largest(_ values: [Float]) -> Float { values.reduce(0) { max($0, $1.magnitude) } }

@Suite struct VisionTests {
  @Test func `there are goldens`() { #expect(GoldenFolder.vision.count >= 2) }

  @Test(arguments: GoldenFolder.vision)
  func `what the tower sees has the pixels of the reference`(golden: GoldenFolder) throws {
    let run = try VisionRun(golden)
    let name = try golden.has("tile_0") ? "tile_" : "pixels_"
    for (index, input) in run.inputs.enumerated() {
      guard case .image(let image) = input.content else { continue }
      #expect(image == (try golden.pixels(name + "\(index)")), "\(index)")
    }
    #expect(try !golden.has(name + "\(run.inputs.count)"))
  }

  @Test(arguments: GoldenFolder.vision)
  func `soft tokens are those of the reference`(golden: GoldenFolder) throws {
    // Embeddings, and what is added after the decoder's first layers.
    let names = try ["tower"] + (0..<8).map { "deepstack_\($0)" }.filter(golden.has)
    let expected = try names.map { try golden.array($0) }
    let hidden = try golden.hidden()
    for isa in kernelSets {
      let run = try VisionRun(golden, isa: isa)
      let soft = try run.inputs.flatMap { try run.soft($0) }
      try #require(soft.count == expected.reduce(0) { $0 + $1.values.count })
      for (part, wanted) in expected.enumerated() {
        let found = stride(from: part * hidden, to: soft.count, by: expected.count * hidden).flatMap {
          soft[$0..<$0 + hidden]
        }
        #expect(
          distance(found, wanted.values) < 2e-4 * largest(wanted.values), "\(names[part]) \(isa as Any)")
      }
    }
  }

  @Test(arguments: GoldenFolder.vision)
  func `a prompt with images has the logits of the reference, however it is cut`(golden: GoldenFolder) throws
  {
    let expected = try golden.array("logits")
    for isa in kernelSets {
      let run = try VisionRun(golden, isa: isa)
      let soft = try run.inputs.map { try run.soft($0) }
      let logits = try run.logits(soft)
      let bound = 1e-3 * largest(expected.values)
      #expect(distance(logits.flatMap { $0 }, expected.values) < bound, "\(String(describing: isa))")
      #expect(sameBits(try run.logits(soft, cuts: run.cuts()), logits), "\(String(describing: isa))")
    }
  }

  @Test(arguments: GoldenFolder.vision)
  func `greedy tokens after images are those of the reference`(golden: GoldenFolder) throws {
    let run = try VisionRun(golden)
    let soft = try run.inputs.map { try run.soft($0) }
    let wanted = tokenIDs(try golden.expected()["greedy"])
    let table = run.runner.makeTable(run.ids.count + wanted.count)
    var rows = run.runner.step(try run.spans(soft, cuts: [], table: table))
    var found = [argmax(try #require(rows.last))]
    while found.count < wanted.count {
      let start = run.ids.count + found.count - 1
      var span = Batch.Span(
        tokens: [found[found.count - 1]], start: start, blocks: table, logits: .last)
      span.places = try run.coordinates()?[start..<start + 1] ?? []
      rows = run.runner.step([span])
      found.append(argmax(rows[0]))
    }
    #expect(found == wanted)
  }

  @Test(arguments: GoldenFolder.vision)
  func `an image has the same bits alone, beside others, and on more threads`(golden: GoldenFolder) throws {
    let run = try VisionRun(golden)
    let soft = try run.inputs.map { try run.soft($0) }
    let alone = try run.logits(soft)
    let both = (0..<2).map { _ in run.runner.makeTable(run.ids.count) }
    let other = Array(run.ids.prefix(5))
    let spans = try both.flatMap { try run.spans(soft, cuts: [], table: $0) }
    let rows = run.runner.step(
      [spans[0], .init(tokens: other, start: 0, blocks: run.runner.makeTable(5), logits: .all), spans[1]])
    #expect(sameBits(Array(rows.prefix(alone.count)), alone))
    #expect(sameBits(Array(rows.suffix(alone.count)), alone))
    let threaded = try VisionRun(golden, threads: 3)
    #expect(sameBits(try threaded.inputs.map { try threaded.soft($0) }, soft))
  }

  @Test(.enabled(if: TestData.shared != nil, "shared test data is absent"), arguments: GoldenFolder.vision)
  func `the original layout gives the same bits`(golden: GoldenFolder) throws {
    let shared = try #require(TestData.shared) + "/media/" + golden.name
    func file(_ name: String) throws -> [UInt8] { try TestData.bytes(shared + "/" + name) }
    let run = try VisionRun(golden)
    try withCheckpoint(
      config: file("config.json"), weights: file("raw.safetensors"),
      preprocessor: file("preprocessor_config.json")
    ) { path in
      let raw = try VisionRun(golden, at: path)
      for (first, second) in zip(run.inputs, raw.inputs) {
        #expect(sameBits([try run.soft(first)], [try raw.soft(second)]))
      }
    }
  }

  @Test(arguments: GoldenFolder.vision)
  func `without vision there is no encoder, and images are refused with the reason`(
    golden: GoldenFolder
  ) throws {
    var options = MediaOptions()
    options.isLazy = false
    let compute = try ComputeContext(threads: 1)
    let folder = try ModelFolder(path: golden.path)
    #expect(try ModelFamily.load(folder, compute: compute, media: options).mediaRules.takes(.image))
    options.vision = false
    let blind = try ModelFamily.load(folder, compute: compute, media: options)
    #expect(!blind.mediaRules.takes(.image) && blind.mediaRules.switchedOff == [.image])
    #expect(blind.encoder(for: .image) == nil && !blind.seesImagesWhole)
  }

  @Test(arguments: GoldenFolder.vision)
  func `an image of another size is refused, not cut`(golden: GoldenFolder) throws {
    let run = try VisionRun(golden)
    let small = PixelImage(width: 3, height: 3, pixels: [UInt8](repeating: 0, count: 27))
    #expect(throws: ModelError.self) {
      try run.runner.model.encoder(for: .image)?.begin(
        MediaInput(content: .image(small), tokenCount: 1))
    }
  }
}

@Suite struct Qwen3VLTests {
  @Test func `tokens stand at the times, rows and columns of the reference`() throws {
    let golden = try #require(GoldenFolder.vision.first { $0.name == "qwen3vl-tiny" })
    let run = try VisionRun(golden)
    let places = try #require(try run.coordinates())
    let found = places[0..<run.ids.count]
    #expect((0..<3).flatMap { axis in found.map { $0[axis] } } == (try golden.integers("position_ids")))
    #expect(Int(places.shift) == (try golden.expected()["rope_delta"]?.intValue))
    // What is written after the prompt goes on from there.
    let next = Int32(run.ids.count) + places.shift
    #expect(
      places[run.ids.count..<run.ids.count + 2] == [SIMD3(repeating: next), SIMD3(repeating: next + 1)])
  }

  private func images(_ least: Int, _ most: Int, side: Int) throws -> QwenImages {
    let size: JSONValue = ["size": ["shortest_edge": .int(least), "longest_edge": .int(most)]]
    return try QwenImages(ConfigFields(size), placeholder: 9, side: side)
  }

  @Test(arguments: [
    (640, 480, 640, 480), (1920, 1080, 1920, 1088), (100, 100, 256, 256), (2000, 3000, 1984, 3008),
    (1000, 20, 1824, 64),
  ])
  func `an image keeps its shape within the bounds of its area`(
    width: Int, height: Int, newWidth: Int, newHeight: Int
  ) throws {
    let images = try images(65_536, 16_777_216, side: 32)
    let size = try images.size(width: width, height: height, tokens: .max >> 12)
    #expect(size == ImageSize(width: newWidth, height: newHeight))
    for tokens in [128, 256, 1280] {
      let size = try images.size(width: width, height: height, tokens: tokens)
      #expect(size.width / 32 * (size.height / 32) <= tokens)
    }
  }

  @Test func `halves are rounded to even, and narrow images are refused`() throws {
    let images = try images(3136, 12_845_056, side: 28)
    for (width, height, expected) in [
      (640, 480, (644, 476)), (28, 28, (56, 56)), (768, 768, (756, 756)), (1000, 20, (1008, 28)),
      (42, 70, (56, 56)),
    ] {
      let size = try images.size(width: width, height: height, tokens: 16_384)
      #expect(size == ImageSize(width: expected.0, height: expected.1), "\(width) x \(height)")
    }
    #expect(throws: MediaError.tooNarrow(width: 1, height: 201, limit: 200)) {
      try images.size(width: 1, height: 201, tokens: 1280)
    }
    #expect(try images.size(width: 1, height: 200, tokens: 1280).width == 28)
  }

  @Test func `budgets grow with the detail`() throws {
    #expect(
      try images(65_536, 16_777_216, side: 32).budgets
        == ImageBudgets(low: 256, usual: 1280, high: 4096, most: 4096))
  }
}

@Suite struct Idefics3Tests {
  private func images(_ longest: Int, _ tile: Int, tokens: Int = 64) throws -> Idefics3Images {
    try Idefics3Images(
      ConfigFields(["size": ["longest_edge": .int(longest)]]), soft: 9, tile: tile, tokens: tokens)
  }

  @Test(arguments: [
    (640, 480, 3, 4), (1920, 1080, 3, 4), (100, 100, 4, 4), (2000, 3000, 4, 3), (1000, 20, 1, 4),
    (20, 1000, 4, 1),
  ])
  func `an image is cut into whole tiles`(width: Int, height: Int, rows: Int, columns: Int) throws {
    let sizes = try images(2048, 512).sizes(width: width, height: height, longest: 2048)
    #expect(sizes.second == ImageSize(width: columns * 512, height: rows * 512))
  }

  @Test func `tiles stand row by row between their marks, and the whole comes last`() throws {
    let golden = try #require(GoldenFolder.vision.first { $0.name == "smolvlm-tiny" })
    let run = try VisionRun(golden)
    let passage = run.passages[0]
    // The golden has no tokenizer: its note says which ids stand for which texts.
    var found: [Int32] = []
    for part in passage.parts {
      switch part {
      case .token(let token): found.append(token)
      case .soft(let input): found += [Int32](repeating: passage.soft, count: input.tokenCount)
      case .text(let text):
        var rest = text[...]
        let names: [(String, Int32)] = [
          ("<fake_token_around_image>", 301), ("<global-img>", 302), ("<row_1_col_1>", 303),
          ("<row_1_col_2>", 304), ("<row_2_col_1>", 307), ("<row_2_col_2>", 308), ("\n", 290),
        ]
        while !rest.isEmpty {
          let (name, id) = try #require(names.first { rest.hasPrefix($0.0) })
          found.append(id)
          rest = rest.dropFirst(name.count)
        }
      }
    }
    let start = try #require(run.ids.firstIndex(of: 301))
    #expect(Array(run.ids[start..<start + found.count]) == found)
    #expect(!run.ids[(start + found.count)...].contains(301))
  }

  @Test func `a budget bounds the tiles, and the least of them is one`() throws {
    let images = try images(2048, 512)
    #expect(images.budgets == ImageBudgets(low: 64, usual: 1088, high: 1088, most: 1088))
    let large = try self.images(1456, 364, tokens: 169)
    #expect(large.budgets == ImageBudgets(low: 169, usual: 1280, high: 2873, most: 2873))
    let picture = PixelImage(width: 40, height: 30, pixels: [UInt8](repeating: 7, count: 3600))
    for (budget, tiles) in [(64, 1), (300, 1), (450, 5), (700, 10), (1088, 13)] {
      let passage = try images.passage(of: picture, tokens: budget) { _ in true }
      #expect(passage.inputs.count == tiles && passage.inputs.count * 64 <= budget, "\(budget)")
    }
    #expect(throws: MediaError.self) {
      try images.passage(of: picture, tokens: 1088) { $0 < 1 << 20 }
    }
  }

  @Test func `settings that would change what is seen are refused`() throws {
    let tiles: JSONValue = ["max_image_size": ["longest_edge": 128]]
    #expect(throws: ModelError.self) {
      try Idefics3Images(ConfigFields(tiles), soft: 9, tile: 64, tokens: 4)
    }
    for settings: JSONValue in [["resample": 4], ["resample": 9]] {
      #expect(throws: ModelError.self) {
        try Idefics3Images(ConfigFields(settings), soft: 9, tile: 64, tokens: 4)
      }
    }
    #expect(throws: ModelError.self) {
      try Gemma3Images(
        ConfigFields(["do_pan_and_scan": true]), marks: MediaMarks(opening: 1, soft: 2, closing: 3), size: 64,
        tokens: 4)
    }
  }
}
