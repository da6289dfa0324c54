// Sound in, segments of text out: what is asked of a model that hears, and how its answers come.

import Media
import Platform

/// A recording that is written down for one client.
package struct SpeechRequest: Sendable {
  /// One channel at `SpeechSpectrum.rate`.
  package var samples: [Float]
  /// Its code; nil lets the model find out.
  package var language: String?
  /// Whether the text is English, whatever is spoken.
  package var translates = false
  /// What may have been said before, or is spelt as it should be.
  package var prompt = ""
  /// 0 for the most likely text, and warmer attempts where that fails.
  package var temperature: Float = 0
  package var seed: UInt64 = 0
  /// Whether a window is written with a look at the text of those before it.
  package var looksBack = true
  package var wantsWords = false

  package init(samples: [Float]) { self.samples = samples }

  package var seconds: Double { Double(samples.count) / Double(SpeechSpectrum.rate) }
}

/// A word, with when it was said. Seconds from the beginning of the recording.
package struct SpeechWord: Sendable, Equatable {
  /// With the blank before it, where there is one.
  package var text: String
  package var start, end: Double
  package var probability: Double

  package init(text: String, start: Double, end: Double, probability: Double) {
    (self.text, self.start, self.end) = (text, start, end)
    self.probability = probability
  }
}

/// A piece of a transcript. Seconds from the beginning of the recording.
package struct SpeechSegment: Sendable, Equatable {
  package var start, end: Double
  package var text: String
  /// Of the text, without timestamps; and how likely each was.
  package var tokens: [Int32]
  package var logprobs: [Float]
  /// Of the window that it was heard in: where that begins, in hundredths of a second, and how it was written.
  package var seek: Int
  package var temperature: Float
  package var averageLogprob: Double
  package var compressionRatio: Double
  package var noSpeechProbability: Double
  /// None where they are not wanted.
  package var words: [SpeechWord] = []
}

/// Some `segments` for each window, in order; then `finished`, or `failed` before that.
package enum SpeechEvent: Sendable {
  /// The code of what is spoken; the first event.
  case language(String)
  /// What follows up to this time, in seconds.
  case segments([SpeechSegment], upTo: Double)
  case finished
  case failed(InferenceError)
}

/// A recording that is being written down. It ends between two layers when it is cancelled.
package typealias SpeechJob = EngineWork<SpeechEvent>

/// What writes down recordings: an engine's client, or a script in tests. Usable from any thread.
package protocol SpeechService: Sendable {
  var vocabulary: SpeechVocabulary { get }

  /// Queues a recording; looks through it, and does not wait for others.
  ///
  /// - Throws: `queueFull` or `draining`.
  func submit(_ request: SpeechRequest) throws(InferenceError) -> SpeechJob
}
