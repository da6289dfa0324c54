// From the bytes of an audio clip file to what an audio encoder takes.

extension MediaRules.Audio {
  /// Most seconds of one clip: the tower's positions were trained with no more.
  package static let seconds = 30

  /// Reads, resamples and transforms a WAV file.
  ///
  /// - Parameter claim: reserves this many bytes for what is made of the file; false when they are not to be had.
  /// - Throws: when it is no such file, or too long or too short.
  package func passage(
    _ bytes: [UInt8], claim: (_ bytes: Int) -> Bool = { _ in true }
  ) throws(AudioError) -> MediaPassage {
    let work = bytesToRead(bytes.count)
    guard claim(work) else { throw .noMemory(bytes: work) }
    let clip = try WAVReader.read(bytes, limits: AudioLimits(seconds: Self.seconds))
    let samples = AudioResampler.resample(clip.samples, from: clip.rate, to: mel.rate)
    let spectrogram = MelSpectrogram(mel)
    let frames = spectrogram.frameCount(samples: samples.count)
    guard frames > 0 else { throw .tooShort(seconds: clip.seconds) }
    let input = MediaInput(
      content: .audio(MelFrames(count: frames, bins: mel.bands, values: spectrogram(samples))),
      tokenCount: Self.tokenCount(frames: frames))
    return MediaPassage(input, between: marks)
  }

  /// Most bytes that are held beside a file of `count` bytes: its samples, which may be 8 bits wide, the halved ones of a
  /// high rate, those at the tower's rate, which are made twice, frames, and the weights of two filters.
  private func bytesToRead(_ count: Int) -> Int {
    let result = Self.seconds * (2 * mel.rate + mel.rate / mel.hop * mel.bands) * MemoryLayout<Float>.size
    return 6 * min(count, 1 << 40) + result + (8 << 20)
  }

  /// Soft tokens of an audio clip: two convolutions halve the frames, rounding up.
  package static func tokenCount(frames: Int) -> Int { ((frames + 1) / 2 + 1) / 2 }
}
