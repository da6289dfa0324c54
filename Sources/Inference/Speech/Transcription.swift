// A recording, window by window: each is heard, written, and cut into segments where its timestamps say so.
//
// Source: Whisper's transcribe: the next window begins where the last whole segment ended.

import Media
import Models
import Tokenizers

/// Engine thread only.
final class Transcription {
  let request: SpeechRequest
  private let writer: SpeechWriter
  private let spectrum: SpeechSpectrum
  private let peak: Float
  /// Frames of the recording, and the first that is not written yet.
  private let frames: Int
  private var seek = 0
  /// Tokens of what has been written, and from where on they are shown to the model.
  private var history: [Int32]
  private var shown = 0
  private(set) var language: String?

  /// Distilled decoders were trained on windows that stand for themselves.
  private var looksBack: Bool { request.looksBack && writer.model.sizes.decoderLayers > 2 }

  /// Text at a higher temperature says little to the next window.
  private static let warmest: Float = 0.5
  /// A rest of a tenth of a second holds no word.
  private static let shortest = 10

  /// - Parameter peak: of the recording's spectrum.
  init(_ request: SpeechRequest, peak: Float, spectrum: SpeechSpectrum, _ writer: SpeechWriter) {
    (self.request, self.peak) = (request, peak)
    (self.spectrum, self.writer) = (spectrum, writer)
    frames = SpeechSpectrum.frameCount(samples: request.samples.count)
    language = request.language
    let prompt = request.prompt.drop { $0.isWhitespace }
    history =
      prompt.isEmpty ? [] : writer.vocabulary.tokenizer.encode(" " + prompt, addSpecialTokens: false)
  }

  var isFinished: Bool { frames - seek < Self.shortest }
  /// Seconds that are done.
  var seconds: Double { min(Double(seek) / 100, request.seconds) }

  /// Takes the next window.
  func advance(_ work: SpeechTurns) throws(SpeechStop) -> [SpeechSegment] {
    let all = 2 * writer.model.sizes.audioPositions
    let activity = SoundActivity(request.samples, frames: seek..<min(seek + all, frames))
    guard let first = activity.firstAudible else {
      seek += activity.frames
      return []
    }
    // A little before what is heard, so that no word loses its beginning.
    seek += max(0, first - 20)
    let size = min(all, frames - seek)
    try hear(spectrum.frames(seek..<seek + all, of: request.samples, peak: peak), work)
    if language == nil { language = try writer.language(work) }
    let opening = writer.vocabulary.opening(language: language, translates: request.translates)
    let window = try writer.write(
      before: Array(history[shown...]), opening: opening, temperature: request.temperature,
      seed: request.seed, work)
    let isSilent =
      window.noSpeechProbability > SpeechWriter.mostSilence
      && (window.averageLogprob < SpeechWriter.leastLogprob || activity.isSteady)
    guard !isSilent else {
      seek += size
      return []
    }
    let (slices, advance) = cut(window, size: size)
    var segments = slices.compactMap { segment(window, $0) }
    if request.wantsWords {
      try WordTimes(writer, language: language).add(
        to: &segments, opening: opening, offset: Double(seek) / 100, frames: size, work)
    }
    seek += advance
    for slice in slices { history += window.tokens[slice.tokens] }
    if !looksBack || window.temperature > Self.warmest { shown = history.count }
    // What is shown is bounded; what came before it need not be kept.
    if history.count > 4096 {
      let surplus = max(shown, history.count - writer.mostPrompt)
      history.removeFirst(surplus)
      shown = 0
    }
    return segments
  }

  private func hear(_ mel: MelFrames, _ work: SpeechTurns) throws(SpeechStop) {
    do { try writer.model.begin(mel) } catch { throw .failed(.modelLoading("\(error)")) }
    while try work({ writer.model.hear() }) {}
  }

  /// Some of a window's tokens, and when they were said: seconds from the window's beginning.
  private struct Slice {
    let tokens: Range<Int>
    let start, end: Double
  }

  /// - Parameter size: frames of the window.
  /// - Returns: the segments, and how many frames are done.
  private func cut(_ window: WrittenWindow, size: Int) -> (slices: [Slice], advance: Int) {
    let (tokens, v) = (window.tokens, writer.vocabulary)
    let isTime = tokens.map(v.isTimestamp)
    let endsOnce = Array(isTime.suffix(2)) == [false, true]
    var borders = tokens.indices.dropFirst().filter { isTime[$0] && isTime[$0 - 1] }
    guard !borders.isEmpty else {
      var end = Double(size) / 100
      if let last = tokens.last(where: v.isTimestamp), last != v.timestamps {
        end = min(end, v.seconds(last))
      }
      return ([Slice(tokens: tokens.indices, start: 0, end: end)], size)
    }
    if endsOnce { borders.append(tokens.count) }
    var (slices, first) = ([Slice](), 0)
    for border in borders where border > first {
      let (start, end) = (tokens[first], tokens[border - 1])
      slices.append(
        Slice(
          tokens: first..<border, start: v.isTimestamp(start) ? v.seconds(start) : 0,
          end: v.isTimestamp(end) ? v.seconds(end) : Double(size) / 100))
      first = border
    }
    guard !endsOnce, let last = slices.last else { return (slices, size) }
    // The rest is heard again, with what follows it.
    let advance = Int((last.end * 100).rounded())
    return (slices, advance > 0 ? min(advance, size) : size)
  }

  private func segment(_ window: WrittenWindow, _ slice: Slice) -> SpeechSegment? {
    let places = slice.tokens.filter { writer.vocabulary.isText(window.tokens[$0]) }
    let tokens = places.map { window.tokens[$0] }
    let text = writer.vocabulary.text(tokens)
    let offset = Double(seek) / 100
    let (start, end) = (min(offset + slice.start, request.seconds), min(offset + slice.end, request.seconds))
    guard end > start, text.contains(where: { !$0.isWhitespace }) else { return nil }
    return SpeechSegment(
      start: start, end: end, text: text, tokens: tokens, logprobs: places.map { window.logprobs[$0] },
      seek: seek, temperature: window.temperature, averageLogprob: window.averageLogprob,
      compressionRatio: window.compressionRatio, noSpeechProbability: window.noSpeechProbability)
  }
}

/// How loud a stretch of sound is over time.
struct SoundActivity {
  let frames: Int
  /// The first frame of 10 ms above -60 dB of full scale; nil where all is quieter.
  let firstAudible: Int?
  /// Whether it is as loud all the time, as noise is and speech with its pauses is not: nine tenths of the frames are within
  /// 3 dB of the loudest tenth's beginning.
  let isSteady: Bool

  private static let audible: Float = 1e-6

  init(_ samples: [Float], frames: Range<Int>) {
    let hop = SpeechSpectrum.hop
    let power = frames.map { frame -> Float in
      var sum: Float = 0
      for index in frame * hop..<min((frame + 1) * hop, samples.count) {
        sum += samples[index] * samples[index]
      }
      return sum / Float(hop)
    }
    self.frames = frames.count
    firstAudible = power.firstIndex { $0 > Self.audible }
    let sorted = power.sorted()
    isSteady = !sorted.isEmpty && sorted[sorted.count / 10] * 2 > sorted[sorted.count * 9 / 10]
  }
}
