// From the bytes of an audio clip file to what an audio encoder takes.

extension MediaRules.Audio {
  /// Most seconds of one clip: the tower's positions were trained with no more.
  package static let seconds = 30

  /// Reads, resamples and transforms a WAV file.
  ///
  /// - Throws: when it is no such file, or too long or too short.
  package func input(_ bytes: [UInt8]) throws(AudioError) -> MediaInput {
    let clip = try WAVReader.read(bytes, limits: AudioLimits(seconds: Self.seconds))
    let samples = AudioResampler.resample(clip.samples, from: clip.rate, to: mel.rate)
    let spectrogram = MelSpectrogram(mel)
    let frames = spectrogram.frameCount(samples: samples.count)
    guard frames > 0 else { throw .tooShort(seconds: clip.seconds) }
    return MediaInput(
      content: .audio(MelFrames(count: frames, bins: mel.bands, values: spectrogram(samples))),
      tokenCount: Self.tokenCount(frames: frames))
  }

  /// Soft tokens of an audio clip: two convolutions halve the frames, rounding up.
  package static func tokenCount(frames: Int) -> Int { ((frames + 1) / 2 + 1) / 2 }
}
