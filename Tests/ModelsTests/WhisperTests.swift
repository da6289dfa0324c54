// Whisper against its golden checkpoint, in both layouts and on all kernels, and what does not change a bit of it.

import Checkpoint
import Compute
import JSON
import Media
import Platform
import Support
import Testing

@testable import Models

/// A folder of a checkpoint in another layout; it goes with its owner.
private final class Folder {
  let path: String

  init() throws {
    var template = Array("/tmp/mlxserve-whisper-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw PlatformError.system(action: "make a folder", code: errno) }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  func write(_ name: String, _ bytes: [UInt8]) throws {
    try SystemFiles().writeDurably(bytes, folder: path, name: name)
  }

  deinit {
    for name in (try? File.names(in: path)) ?? [] { unlink(path + "/" + name) }
    rmdir(path)
  }
}

@Suite struct WhisperTests {
  private let golden = GoldenFolder.speech

  private func sound() throws -> MelFrames {
    let clip = try WAVReader.read(try File.read(golden.path + "/sound.wav", limit: 1 << 20))
    #expect(clip.rate == SpeechSpectrum.rate)
    let spectrum = SpeechSpectrum(bands: 80)
    return spectrum.frames(0..<3000, of: clip.samples, peak: spectrum.peak(of: clip.samples))
  }

  private func whisper(
    _ path: String? = nil, threads: Int = 1, isa: ISA? = nil, useReference: Bool = false
  ) throws -> Whisper {
    try Whisper(
      try ModelFolder(path: path ?? golden.path),
      compute: try ComputeContext(threads: threads, isa: isa, useReference: useReference))
  }

  private func hear(_ model: Whisper, _ mel: MelFrames) throws {
    try model.begin(mel)
    while model.hear() {}
  }

  private func logits(_ model: Whisper, _ tokens: [Int32]) -> [[Float]] {
    let logits = model.write(tokens, logits: tokens.indices)
    return tokens.indices.map { logits.values(ofRow: $0) }
  }

  /// Largest difference relative to the largest magnitude.
  private func error(_ a: [Float], _ b: [Float]) -> Float {
    let scale = b.map(abs).max() ?? 1
    return a.count == b.count ? (zip(a, b).map { abs($0 - $1) }.max() ?? 0) / scale : .infinity
  }

  @Test func `the spectrogram is the reference's within 5e-5`() throws {
    let mel = try sound()
    let expected = try golden.array("mel_head").values
    #expect(expected.count == 206 * 80)
    let furthest = zip(mel.values, expected).map { abs($0 - $1) }.max() ?? 1
    #expect(furthest < 5e-5, "\(furthest)")
    #expect(mel.values.suffix(80) == mel.values[(2000 * 80)..<(2001 * 80)])
  }

  @Test func `the golden gives memory, logits, alignment and greedy tokens on all kernels`() throws {
    let mel = try sound()
    let document = try golden.expected()
    let prompt = tokenIDs(document["decoder_input_ids"])
    let (head, tail) = (try golden.array("encoder_head").values, try golden.array("encoder_tail").values)
    for kernels in kernelSets {
      let name = kernels.map { "\($0)" } ?? "reference"
      let model = try whisper(isa: kernels, useReference: kernels == nil)
      try hear(model, mel)
      let memory = (0..<1500).map { model.memory.values(ofRow: $0) }
      #expect(error(memory[..<64].flatMap { $0 }, head) < 2e-4, "\(name)")
      #expect(error(memory[1484...].flatMap { $0 }, tail) < 2e-4, "\(name)")
      #expect(
        error(logits(model, prompt).flatMap { $0 }, try golden.array("logits").values) < 1e-3, "\(name)")

      model.keep(prompt.count - 1)
      var last = try #require(prompt.last)
      for expected in tokenIDs(document["greedy"]) {
        let row = model.write([last], logits: 0..<1).values(ofRow: 0)
        last = Int32(row.indices.max { row[$0] < row[$1] } ?? 0)
        #expect(last == expected, "\(name)")
      }
    }
  }

  @Test func `alignment is the softmax over the memory that the decoder attends with`() throws {
    let model = try whisper()
    try hear(model, try sound())
    let prompt = tokenIDs(try golden.expected()["decoder_input_ids"])
    // No file lists them, and the upper half of two layers is one.
    #expect(model.alignmentHeads.map(\.layer) == [1, 1] && model.alignmentHeads.map(\.head) == [0, 1])
    var found: [[Float]] = []
    model.align(prompt, positions: 1500) { found.append($0) }
    let expected = try golden.array("cross_attention_head")
    #expect(expected.shape == [2, 2, 8, 101])
    let head = found.flatMap { all in prompt.indices.flatMap { all[$0 * 1500..<$0 * 1500 + 101] } }
    #expect(error(head, Array(expected.values.suffix(head.count))) < 1e-3)
    #expect(found.allSatisfy { abs($0[..<1500].reduce(0, +) - 1) < 1e-4 })
  }

  @Test func `both layouts and any number of threads give the same bits`() throws {
    let mel = try sound()
    let prompt = tokenIDs(try golden.expected()["decoder_input_ids"])
    let model = try whisper()
    try hear(model, mel)
    let expected = logits(model, prompt)

    let threads = try whisper(threads: 3)
    try hear(threads, mel)
    #expect(logits(threads, prompt) == expected)

    let folder = try Folder()
    try folder.write("model.safetensors", try File.read(golden.path + "/raw.safetensors", limit: 1 << 20))
    try folder.write("config.json", try File.read(golden.path + "/config.json", limit: 1 << 20))
    let raw = try whisper(folder.path)
    try hear(raw, mel)
    // Positions of the encoder are stored there, rounded otherwise than they are computed here.
    #expect(error(logits(raw, prompt).flatMap { $0 }, expected.flatMap { $0 }) < 1e-5)

    try folder.write("model.safetensors", try File.read(golden.path + "/model.safetensors", limit: 1 << 20))
    let examples = """
      {"n_mels": 80, "n_audio_ctx": 1500, "n_audio_state": 32, "n_audio_head": 2, "n_audio_layer": 2,
       "n_vocab": 320, "n_text_ctx": 64, "n_text_state": 32, "n_text_head": 2, "n_text_layer": 2}
      """
    try folder.write("config.json", Array(examples.utf8))
    let mlx = try whisper(folder.path)
    try hear(mlx, mel)
    #expect(logits(mlx, prompt) == expected)
  }

  @Test func `tokens one by one, together, and again after going back give the same bits`() throws {
    let model = try whisper()
    try hear(model, try sound())
    let prompt = tokenIDs(try golden.expected()["decoder_input_ids"])
    let together = logits(model, prompt)
    model.keep(0)
    let single = prompt.map { model.write([$0], logits: 0..<1).values(ofRow: 0) }
    #expect(single == together)
    model.keep(3)
    #expect(model.length == 3)
    #expect(logits(model, Array(prompt[3...])) == Array(together[3...]))
  }

  @Test func `a spectrogram of another shape and settings of another model are refused`() throws {
    let model = try whisper()
    #expect(throws: ModelError.self) {
      try model.begin(MelFrames(count: 2999, bins: 80, values: [Float](repeating: 0, count: 2999 * 80)))
    }
    #expect(!model.hear())
    let wrong = [("heads", #""encoder_attention_heads": 3"#), ("gelu", #""activation_function": "relu""#)]
    for (words, setting) in wrong {
      let text = """
        {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 2, "decoder_layers": 2, "vocab_size": 320,
         "num_mel_bins": 80, "max_source_positions": 1500, "max_target_positions": 64, "encoder_ffn_dim": 128,
         \(setting)}
        """
      let error = #expect(throws: ModelError.self) {
        try WhisperSizes(ConfigFields(try JSONValue(parsing: Array(text.utf8))))
      }
      #expect("\(try #require(error))".contains(words))
    }
  }
}
