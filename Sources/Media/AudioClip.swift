// Audio as every reader hands it on, and why a file is not audio that can be used.

/// One channel of samples.
package struct AudioClip: Sendable, Equatable {
  /// Full scale is -1...1; float files may exceed it a little.
  package var samples: [Float]
  /// Samples per second.
  package var rate: Int

  package init(samples: [Float], rate: Int) {
    (self.samples, self.rate) = (samples, rate)
  }

  package var seconds: Double { rate > 0 ? Double(samples.count) / Double(rate) : 0 }
}

/// What a reader takes at most; checked before it allocates.
package struct AudioLimits: Sendable, Equatable {
  package var bytes: Int
  package var seconds: Int

  package init(bytes: Int = 32 << 20, seconds: Int = 30) {
    (self.bytes, self.seconds) = (bytes, seconds)
  }
}

/// What is wrong with an audio clip, and what to send instead.
package enum AudioError: Error, Equatable, CustomStringConvertible {
  case tooManyBytes(Int, limit: Int)
  case tooLong(seconds: Double, limit: Int)
  /// A format that was recognised and has no reader.
  case unsupportedFormat(String)
  case unrecognised
  /// Ends, check sums and codes that contradict the format.
  case damaged(format: String, problem: String)
  /// A format that only another program reads: it is not there, or could not.
  case needsProgram(format: String, problem: String)
  /// A file that cannot be read, and why.
  case unreadable(String)
  /// A WAV file whose samples are stored in a way that is not read.
  case unsupportedEncoding(String)
  case missingChunk(String)
  /// A field of the header with what it should be.
  case invalidHeader(field: String, found: Int, expected: String)
  case truncated(chunk: String, expected: UInt64, found: Int)
  case noSamples
  /// There is not enough memory to read it.
  case noMemory(bytes: Int)
  /// Not even one frame of a spectrogram.
  case tooShort(seconds: Double)
  /// A float that is not a number, infinite, or far beyond full scale.
  case invalidSample(frame: Int, value: Float)

  private static let advice =
    "Send a WAV file, for example from: ffmpeg -i INPUT -ac 1 -ar 16000 -c:a pcm_s16le OUTPUT.wav"

  package var description: String {
    switch self {
    case .tooManyBytes(let count, let limit):
      "the sound has \(count) bytes; at most \(limit) are read. Send mono with 16,000 samples per second."
    case .tooLong(let seconds, let limit):
      "the sound lasts \(Self.decimal(seconds)) seconds; at most \(limit) are taken. "
        + "Cut it into pieces of at most \(limit) seconds."
    case .unsupportedFormat(let name): "this is \(name), and only WAV is read. \(Self.advice)"
    case .unrecognised: "this is not a WAV file: it does not begin with RIFF and WAVE. \(Self.advice)"
    case .unreadable(let reason): reason
    case .damaged(let format, let problem): "the \(format) file is damaged: \(problem). Send the whole file."
    case .needsProgram(let format, let problem):
      "this is \(format), which is read by ffmpeg, and \(problem). \(Self.advice)"
    case .unsupportedEncoding(let name):
      "the WAV file holds \(name); PCM, floats, A-law and mu-law are read. \(Self.advice)"
    case .missingChunk(let name): "the WAV file has no '\(name)' chunk before it ends. Send the whole file."
    case .invalidHeader(let field, let found, let expected):
      "the WAV file's \(field) is \(found), expected \(expected). Write the file again."
    case .truncated(let chunk, let expected, let found):
      "the WAV file's '\(chunk)' chunk should have \(expected) bytes, but only \(found) are left. "
        + "Send the whole file."
    case .tooShort(let seconds):
      "the sound lasts \(Int((seconds * 1000).rounded())) milliseconds; at least 11 are needed."
    case .noMemory(let bytes): "reading it takes \(bytes) bytes of memory, which are not there"
    case .noSamples: "the sound has no samples. Send a file with sound in it."
    case .invalidSample(let frame, let value):
      "sample \(frame) of the sound is \(value); floats are from -1 to 1. "
        + "If they are integers, write them as PCM."
    }
  }

  /// One digit after the point, rounded up: an audio clip just above the limit must not be said to have its length.
  private static func decimal(_ seconds: Double) -> String {
    let tenths = (seconds * 10).rounded(.up)
    guard tenths < 1e12 else { return "very many" }
    return "\(Int(tenths) / 10).\(Int(tenths) % 10)"
  }
}
