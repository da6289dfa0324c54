// Images in the engine with a toy model: encoded once, told apart in the prefix cache, never mixed up.

import Decoding
import Media
import Models
import Platform
import Sampling
import Testing

@testable import Compute
@testable import Inference

/// Logits are a hash of the tokens so far, where soft tokens count by their first value.
private final class PictureModel: CausalModel {
  let vocabularySize = 50
  let contextLength = 4096
  let cacheShape: [LayerCache] = [.keysValues(KVLayerShape(kvHeads: 1, headDim: 1))]
  let weightBytesPerToken = 1
  let seesImagesWhole: Bool
  let mediaRules = MediaRules(
    images: GridImages(
      marks: MediaMarks(opening: 40, soft: 41, closing: 42),
      grid: PatchGrid(patch: 1, pooling: 1, tokens: 64, positions: 64)))
  private let pictures = PictureEncoder()
  private let counter: Monitor<Int>

  init(seesImagesWhole: Bool, counter: Monitor<Int>) {
    self.seesImagesWhole = seesImagesWhole
    self.counter = counter
    pictures.counter = counter
  }

  func ropeVariant(forTokens tokens: Int) -> Int { 0 }
  func encoder(for kind: MediaKind) -> (any MediaEncoder)? { kind == .image ? pictures : nil }

  func forward(_ batch: Batch, cache: KVCache, logits: inout Logits) {
    let rows = logits.resize(rows: batch.logitRowCount, columns: vocabularySize)
    var next = 0
    for span in batch.spans {
      var keys = span.tokens
      for soft in span.soft {
        for (offset, value) in soft.values.enumerated() { keys[soft.row + offset] = Int32(value) }
      }
      let end = span.start + span.tokens.count
      // An image that is seen whole is never cut.
      for group in span.groups where group.upperBound > end { keys = keys.map { _ in -9 } }
      for (offset, key) in keys.enumerated() {
        let position = span.start + offset
        HashModel.slot(cache, span.blocks, position).pointee = Float(key)
        let isLast = offset == keys.count - 1
        guard span.logits == .all || (span.logits == .last && isLast) else { continue }
        let sequence = (0...position).map { Int32(HashModel.slot(cache, span.blocks, $0).pointee) }
        for column in 0..<vocabularySize { rows.row(next)[column] = 0 }
        rows.row(next)[Self.next(after: sequence)] = 9
        next += 1
      }
    }
  }

  static func next(after keys: [Int32]) -> Int {
    var hash: UInt64 = 14_695_981_039_346_656_037
    for key in keys { hash = (hash ^ UInt64(UInt32(bitPattern: key))) &* 1_099_511_628_211 }
    return Int(hash >> 32 % 40)
  }
}

private final class PictureEncoder: MediaEncoder {
  var counter: Monitor<Int>?

  func readWeights() {}

  func begin(_ input: MediaInput) throws(ModelError) -> any MediaEncoding {
    guard case .image(let image) = input.content, image.pixels[0] != 255 else {
      throw .unusableMedia("too white")
    }
    counter?.update { $0 += 1 }
    return Run(values: (0..<input.tokenCount).map { Float(1000 * (Int(image.pixels[0]) + 1) + $0) })
  }

  private final class Run: MediaEncoding {
    private let values: [Float]
    private var shares = 0

    init(values: [Float]) { self.values = values }

    func advance() -> [Float]? {
      shares += 1
      return shares > 3 ? values : nil
    }
  }
}

@Suite struct MediaTests {
  private static func picture(_ shade: UInt8, tokens: Int) -> MediaInput {
    MediaInput(
      content: .image(PixelImage(width: 1, height: 1, pixels: [shade, 0, 0])), tokenCount: tokens)
  }

  /// 3, opening, soft tokens, closing, 4, as often as there are shades.
  private static func request(_ shades: [UInt8], tokens: Int, tail: Int = 3) -> GenerationRequest {
    var prompt: [Int32] = []
    var media: [MediaSpan] = []
    for shade in shades {
      prompt += [3, 40]
      media.append(MediaSpan(start: prompt.count, input: picture(shade, tokens: tokens)))
      prompt += [Int32](repeating: 41, count: tokens) + [42, 4]
    }
    var request = GenerationRequest(promptTokens: prompt + [Int32](repeating: 5, count: tail), maxTokens: 6)
    request.sampling.temperature = 0
    request.media = media
    return request
  }

  /// What the engine must give, computed without one.
  private static func expected(_ request: GenerationRequest) -> [Int32] {
    var keys = request.promptTokens
    for span in request.media {
      guard case .image(let image) = span.input.content else { continue }
      for (offset, position) in span.positions.enumerated() {
        keys[position] = Int32(1000 * (Int(image.pixels[0]) + 1) + offset)
      }
    }
    for _ in 0..<6 { keys.append(Int32(PictureModel.next(after: keys))) }
    return Array(keys.dropFirst(request.promptTokens.count))
  }

  private func client(
    whole: Bool = false, counter: Monitor<Int>, _ adjust: (inout EngineConfiguration) -> Void = { _ in }
  ) throws -> EngineClient {
    var configuration = EngineConfiguration(modelPath: "", threads: 1)
    configuration.kvCacheBytes = 1 << 20
    configuration.rowsPerStep = 16
    adjust(&configuration)
    return try EngineClient.start(configuration) { _ in
      EngineClient.LoadedModel(
        model: PictureModel(seesImagesWhole: whole, counter: counter), weightBytes: 0, computeName: "toy")
    }
  }

  private func run(_ client: EngineClient, _ request: GenerationRequest) throws -> (
    tokens: [Int32], cached: Int
  ) {
    try collect(client.submit(request))
  }

  private func collect(_ generation: Generation) -> (tokens: [Int32], cached: Int) {
    var tokens: [Int32] = []
    var cached = 0
    while case .element(let event) = generation.next(until: .now.adding(seconds: 20)) {
      switch event {
      case .started(let count): cached = count
      case .token(let token): tokens.append(token.id)
      case .failed: tokens.append(-1)
      case .progress, .promptLogprobs: break
      case .finished: return (tokens, cached)
      }
    }
    return (tokens, cached)
  }

  @Test(arguments: [false, true])
  func `prompts with images are cut into steps and give the same tokens`(whole: Bool) throws {
    let counter = Monitor(0)
    let client = try client(whole: whole, counter: counter)
    defer { client.stop() }
    for shades: [UInt8] in [[1], [1, 2], [2, 1, 1]] {
      let request = Self.request(shades, tokens: 37)
      let (tokens, cached) = try run(client, request)
      #expect(tokens == Self.expected(request), "\(shades), \(cached) cached")
    }
    // Each content once.
    #expect(counter.withLock { $0 } == 2)
  }

  @Test func `the same image is found in the prefix cache, another one is not`() throws {
    let counter = Monitor(0)
    let client = try client(counter: counter)
    defer { client.stop() }
    let first = Self.request([7], tokens: 70)
    #expect(try run(client, first).cached == 0)
    let second = try run(client, Self.request([7], tokens: 70, tail: 9))
    // Two blocks, and what agrees of the third.
    #expect(second.cached == 77)
    let other = Self.request([8], tokens: 70)
    let third = try run(client, other)
    #expect(third.cached == 0)
    #expect(third.tokens == Self.expected(other))
    #expect(counter.withLock { $0 } == 2)
  }

  @Test func `requests with and without images run together`() throws {
    let counter = Monitor(0)
    let client = try client(counter: counter) { $0.kvCacheBytes = 1 << 20 }
    defer { client.stop() }
    let requests = [
      Self.request([1], tokens: 40), Self.request([], tokens: 0, tail: 50), Self.request([3, 1], tokens: 20),
    ]
    let generations = try requests.map { try client.submit($0) }
    for (generation, request) in zip(generations, requests) {
      #expect(collect(generation).tokens == Self.expected(request))
    }
  }

  @Test func `an image that cannot be encoded fails its request alone`() throws {
    let client = try client(counter: Monitor(0))
    defer { client.stop() }
    let bad = try client.submit(Self.request([255], tokens: 5))
    let good = Self.request([1], tokens: 5)
    #expect(collect(bad).tokens == [-1])
    #expect(try run(client, good).tokens == Self.expected(good))
  }

  @Test func `spans that do not fit the prompt are refused`() throws {
    let client = try client(counter: Monitor(0))
    defer { client.stop() }
    var request = Self.request([1], tokens: 5)
    request.media[0].start = request.promptTokens.count - 4
    #expect(throws: InferenceError.unusableMedia("an image or an audio clip does not fit into the prompt")) {
      try client.submit(request)
    }
    request.media = [
      MediaSpan(
        start: 0, input: MediaInput(content: .audio(MelFrames(count: 1, bins: 1, values: [0])), tokenCount: 1)
      )
    ]
    #expect(throws: InferenceError.unusableMedia("the model takes no input of the kind 'audio'")) {
      try client.submit(request)
    }
  }

  @Test func `soft tokens are kept within their limit, the latest in any case`() {
    var cache = MediaCache(bytes: 24)
    cache.store([1, 2, 3, 4], of: [1])
    cache.store([5, 6, 7, 8], of: [2])
    #expect(cache.soft(of: [1]) == nil)
    #expect(cache.soft(of: [2]) == [5, 6, 7, 8])
    cache.store([9], of: [3])
    cache.store([0, 1], of: [4])
    // The longest unused went.
    #expect(cache.soft(of: [2]) == nil)
    #expect(cache.soft(of: [3]) == [9])
    #expect(cache.soft(of: [4]) == [0, 1])
    cache.store([Float](repeating: 1, count: 10), of: [5])
    #expect(cache.soft(of: [5])?.count == 10)
  }
}
