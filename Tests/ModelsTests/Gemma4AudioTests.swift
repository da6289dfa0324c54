// The audio tower against its golden checkpoints, and what does not change a bit of its output.

import Checkpoint
import Compute
import JSON
import Media
import Platform
import Support
import Testing

@testable import Models

@Suite struct Gemma4AudioTests {
  private func tower(
    _ golden: GoldenFolder, _ compute: ComputeContext, distances: Int? = nil
  ) throws -> Gemma4Audio {
    let folder = try ModelFolder(path: golden.path)
    let config = ConfigFields(folder.config)
    let weights = LayerLoader(folder.weights, compute: compute)
    return try Gemma4Audio(
      Gemma4AudioConfig(try #require(try config.object("audio_config")), distances: distances),
      settings: MelSettings(folder.processorConfig.map { ConfigFields($0) }),
      tower: weights.at("audio_tower"), projection: weights.at("embed_audio"), output: golden.hidden())
  }

  /// What the tower says, and the soft tokens.
  private func encode(_ tower: Gemma4Audio, _ rows: [[Float]]) throws -> (output: [[Float]], soft: [Float]) {
    let bands = tower.settings.bands
    let input = MediaInput(
      content: .audio(MelFrames(count: rows.count, bins: bands, values: rows.flatMap { $0 })),
      tokenCount: (rows.count + 3) / 4)
    let run = try #require(try tower.begin(input) as? Gemma4AudioRun)
    // The convolutions, then every layer.
    for _ in 0...tower.config.layers { #expect(run.advance() == nil) }
    let output = run.towerOutput()
    let values = (0..<output.count).map { output.values(ofRow: $0) }
    return (values, try #require(run.advance()))
  }

  @Test(haveTowers, arguments: GoldenFolder.towers)
  func `the golden spectrogram gives the expected output and soft tokens for every mask`(
    golden: GoldenFolder
  ) throws {
    let mel = try golden.array("mel").rows
    let reaches = try golden.audioReaches()
    #expect(reaches.count > 1)
    for kernels in kernelSets {
      let compute = try ComputeContext(threads: 1, isa: kernels, useReference: kernels == nil)
      for reach in reaches {
        let (output, soft) = try encode(tower(golden, compute, distances: reach), mel)
        let expected = try golden.array("audio_tower_out_\(reach)keys")
        let expectedSoft = try golden.array("audio_soft_\(reach)keys")
        #expect(output.count == (mel.count + 3) / 4)
        #expect(
          distance(output.flatMap { $0 }, expected.values) < 1e-3, "\(reach) \(String(describing: kernels))")
        #expect(distance(soft, expectedSoft.values) < 1e-3, "\(reach) \(String(describing: kernels))")
      }
    }
  }

  @Test(haveTowers, arguments: GoldenFolder.towers)
  func `config json's mask sees a row less than it says`(golden: GoldenFolder) throws {
    let compute = try ComputeContext(threads: 1)
    let mel = try golden.array("mel").rows
    let reach = try golden.setting("audio_config", "attention_context_left") - 1
    #expect(
      try encode(tower(golden, compute), mel).soft
        == encode(tower(golden, compute, distances: reach), mel).soft)
  }

  @Test(haveTowers, arguments: GoldenFolder.towers)
  func `threads do not change a bit, and a longer sound begins as its beginning does`(
    golden: GoldenFolder
  ) throws {
    var random = SeededGenerator(seed: 63)
    let first = try tower(golden, ComputeContext(threads: 1))
    let rows = (0..<701).map { _ in
      (0..<first.settings.bands).map { _ in Float.random(in: -7...3, using: &random) }
    }
    let one = try encode(first, rows)
    #expect(one.output.count == 176)
    for threads in [2, 3] {
      let other = try encode(tower(golden, ComputeContext(threads: threads)), rows)
      #expect(sameBits(other.output, one.output) && other.soft == one.soft)
    }
    // 398 frames make 100 rows, the last of which sees the padding after the audio.
    let beginning = try encode(tower(golden, ComputeContext(threads: 2)), Array(rows[..<398]))
    #expect(beginning.output.count == 100)
    #expect(sameBits(Array(beginning.output[..<99]), Array(one.output[..<99])))
    #expect(!sameBits(Array(beginning.output[99...]), Array(one.output[99...99])))
  }

  @Test(haveTowers, arguments: GoldenFolder.towers)
  func `sounds of any number of frames have a row for every four`(golden: GoldenFolder) throws {
    let tower = try tower(golden, ComputeContext(threads: 1))
    let hidden = try golden.hidden()
    for count in [1, 2, 3, 4, 5, 8, 9, 255, 256, 257, 260, 261] {
      let rows = (0..<count).map { row -> [Float] in
        (0..<tower.settings.bands).map { (band: Int) -> Float in
          Float((band * 7 + row * 13) % 50) / 10 - 4
        }
      }
      let (output, soft) = try encode(tower, rows)
      #expect(output.count == (count + 3) / 4 && soft.count == output.count * hidden)
      #expect(soft.allSatisfy { $0.isFinite })
    }
    #expect(throws: ModelError.self) {
      try tower.begin(
        MediaInput(content: .audio(MelFrames(count: 1, bins: 2, values: [0, 0])), tokenCount: 1))
    }
  }

  @Test(haveTowers, arguments: GoldenFolder.towers)
  func `reading the weights ahead changes nothing`(golden: GoldenFolder) throws {
    let tower = try tower(golden, ComputeContext(threads: 1))
    let mel = try golden.array("mel").rows
    let before = try encode(tower, mel).soft
    tower.readWeights()
    #expect(try encode(tower, mel).soft == before)
  }

  @Test(haveTowers, arguments: GoldenFolder.towers)
  func `the tower's soft tokens and the golden's image give the golden's logits for every mask`(
    golden: GoldenFolder
  ) throws {
    let (mel, image) = (try golden.array("mel").rows, try golden.array("vision_soft").rows)
    let hidden = try golden.hidden()
    for reach in try golden.audioReaches() {
      let soft = try encode(tower(golden, ComputeContext(threads: 1), distances: reach), mel).soft
      let prompt = try MediaPrompt(
        golden, image: image, audio: GoldenArray(shape: [soft.count / hidden, hidden], values: soft).rows)
      let logits = prompt.logits(try Runner(golden.path))
      let expected = try golden.array("mm_logits_\(reach)keys").rows
      try #require(logits.count == expected.count)
      for (row, wanted) in zip(logits, expected) { #expect(distance(row, wanted) < 1e-3, "\(reach)") }
    }
  }

  @Test(haveTowers, arguments: GoldenFolder.towers)
  func `config json says which tokens stand around an audio clip, and a switch leaves the tower out`(
    golden: GoldenFolder
  ) throws {
    let runner = try Runner(golden.path)
    let processor = try ModelFolder(path: golden.path).processorConfig.map { ConfigFields($0) }
    #expect(
      runner.model.mediaRules.audio
        == MediaRules.Audio(
          marks: try golden.marks(opening: "boa", soft: "audio", closing: "eoa"),
          mel: try MelSettings(processor)))
    #expect(runner.model.encoder(for: .audio) != nil)
    var options = MediaOptions()
    options.audio = false
    options.isLazy = false
    let without = try ModelFamily.load(
      try ModelFolder(path: golden.path), compute: try ComputeContext(threads: 1), media: options)
    #expect(without.mediaRules.audio == nil && without.encoder(for: .audio) == nil)
    #expect(without.mediaRules.images != nil && without.mediaRules.switchedOff == [.audio])
  }

  @Test func `the closing token is an id or an index`() throws {
    for key in ["eoa_token_id", "eoa_token_index"] {
      let text = #"{"audio_token_id": 5, "boa_token_id": 6, "KEY": 7}"#.split(separator: "KEY").joined(
        separator: key)
      let config = ConfigFields(try JSONValue(parsing: Array(text.utf8)))
      #expect(
        try config.marks(opening: "boa", soft: "audio", closing: "eoa")
          == MediaMarks(opening: 6, soft: 5, closing: 7))
    }
    #expect(throws: ModelError.self) {
      try ConfigFields([:]).marks(opening: "boa", soft: "audio", closing: "eoa")
    }
  }

  @Test func `the extractor's settings come from the processor's file`() throws {
    func settings(_ text: String) throws -> MelSettings {
      try MelSettings(ConfigFields(try JSONValue(parsing: Array(text.utf8))))
    }
    #expect(try MelSettings(nil) == MelSettings())
    #expect(try settings(#"{"image_mean": [0, 0, 0]}"#) == MelSettings())
    var expected = MelSettings()
    expected.floor = 0.01
    expected.bands = 80
    #expect(
      try settings(
        #"{"feature_extractor": {"sampling_rate": 16000, "feature_size": 80, "mel_floor": 0.01, "dither": 0.0}}"#
      )
        == expected)
    for bad in [
      #"{"sampling_rate": 1}"#, #"{"sampling_rate": 16000, "fft_length": 500}"#,
      #"{"sampling_rate": 16000, "fft_length": 256}"#,
      #"{"sampling_rate": 16000, "preemphasis": 0.97}"#, #"{"sampling_rate": 16000, "per_bin_mean": [1]}"#,
      #"{"sampling_rate": 16000, "max_frequency": 9000}"#, #"{"sampling_rate": 16000, "frame_length": 1024}"#,
    ] {
      #expect(throws: ModelError.self, "\(bad)") { try settings(bad) }
    }
  }

  @Test func `settings of the tower that have no implementation are refused`() throws {
    for bad in [
      #"{"attention_context_right": 3}"#, #"{"hidden_act": "gelu"}"#,
      #"{"hidden_size": 100, "num_attention_heads": 3}"#,
      #"{"attention_context_left": 40}"#, #"{"subsampling_conv_channels": [1]}"#, #"{"conv_kernel_size": 0}"#,
    ] {
      #expect(throws: ModelError.self, "\(bad)") {
        try Gemma4AudioConfig(ConfigFields(try JSONValue(parsing: Array(bad.utf8))))
      }
    }
    let released = try Gemma4AudioConfig(ConfigFields(try JSONValue(parsing: Array("{}".utf8))))
    #expect(released.distances == 12 && released.channels == [128, 32] && released.headDim == 128)
  }
}

/// Speed at full size, on a checkpoint of random weights that the environment names.
@Suite struct Gemma4AudioSpeedTests {
  private static let folder = getenv("MLXSERVE_AUDIO_MODEL").map { String(cString: $0) }

  private func processSeconds() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
  }

  @Test(.enabled(if: TestData.isMeasuring && folder != nil, "only when asked"))
  func `thirty seconds of sound`() throws {
    let folder = try ModelFolder(path: Self.folder ?? "")
    for mode in [ComputeMode.exact, .fast] {
      let compute = try ComputeContext(threads: 2, mode: mode)
      let weights = LayerLoader(folder.weights, compute: compute)
      let tower = try Gemma4Audio(
        Gemma4AudioConfig(ConfigFields(try JSONValue(parsing: Array("{}".utf8)))), settings: MelSettings(),
        tower: weights.at("audio_tower"), projection: weights.at("embed_audio"), output: 1536)
      tower.readWeights()
      let samples = (0..<480_000).map { Float(0.3 * sin(Double($0) * Double($0) * 1e-6)) }
      let mel = MelSpectrogram()
      let start = Instant.now
      let values = mel(samples)
      let melSeconds = Instant.now.seconds(since: start)
      let frames = MelFrames(count: values.count / 128, bins: 128, values: values)
      let run = try tower.begin(MediaInput(content: .audio(frames), tokenCount: 750))
      let (begin, processor) = (Instant.now, processSeconds())
      var steps: [Double] = []
      var soft: [Float]?
      while soft == nil {
        let step = Instant.now
        soft = run.advance()
        steps.append(Instant.now.seconds(since: step))
      }
      print(
        "MEASURED \(mode): mel \(melSeconds) s, tower \(Instant.now.seconds(since: begin)) s on 2 threads,",
        "\(processSeconds() - processor) s of processors; input \(steps[0]) s, a layer \(steps[1]) s, finite \(soft?.allSatisfy { $0.isFinite } == true)"
      )
    }
  }
}
