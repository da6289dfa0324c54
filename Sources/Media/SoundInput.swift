// From the bytes of a sound file to what an audio encoder takes.

extension MediaRules.Sounds {
  /// Most seconds of one sound: the tower's positions were trained with so many.
  package static let seconds = 30

  /// Reads, resamples and transforms a WAV file.
  ///
  /// - Throws: when it is no such file, or too long or too short.
  package func input(_ bytes: [UInt8]) throws(SoundError) -> MediaInput {
    let sound = try WAVReader.read(bytes, limits: SoundLimits(seconds: Self.seconds))
    let samples = SoundResampler.resample(sound.samples, from: sound.rate, to: mel.rate)
    let spectrogram = MelSpectrogram(mel)
    let frames = spectrogram.frameCount(samples: samples.count)
    guard frames > 0 else { throw .tooShort(seconds: sound.seconds) }
    return MediaInput(
      content: .audio(MelFrames(count: frames, bins: mel.bands, values: spectrogram(samples))),
      tokenCount: Self.tokenCount(frames: frames))
  }

  /// Soft tokens of a sound: two convolutions halve the frames, rounding up.
  package static func tokenCount(frames: Int) -> Int { ((frames + 1) / 2 + 1) / 2 }
}
