// Reads RIFF/WAVE files, and RF64 and BW64 with sizes of 64 bits, into one channel of floats.
//
// Sources: Microsoft's "Multimedia Programming Interface and Data Specifications 1.0" and WAVEFORMATEXTENSIBLE,
// ITU-R BS.2088 (BW64), ITU-T G.711 for A-law and mu-law.

/// The reader of WAV files: PCM of 8 to 32 bits, floats of 32 and 64, A-law and mu-law.
package enum WAVReader {
  /// The audio of a file. Channels are averaged. Whole frames only: bytes of an incomplete last one are left out.
  ///
  /// - Throws: `AudioError` saying what is wrong; nothing is allocated for more than the limits allow.
  package static func read(_ bytes: [UInt8], limits: AudioLimits = AudioLimits()) throws(AudioError)
    -> AudioClip
  {
    guard bytes.count <= limits.bytes else { throw .tooManyBytes(bytes.count, limit: limits.bytes) }
    if let name = AudioFormat.foreignName(bytes) { throw .unsupportedFormat(name) }
    let (format, data) = try WAVChunks(bytes).find()
    let frames = data.count / format.frameBytes
    guard frames > 0 else { throw .noSamples }
    // At most 2^26 bytes by 2^20 hertz: no overflow.
    guard frames <= limits.seconds * format.rate else {
      throw .tooLong(seconds: Double(frames) / Double(format.rate), limit: limits.seconds)
    }
    return AudioClip(
      samples: try mono(bytes, from: data.lowerBound, frames: frames, format), rate: format.rate)
  }

  /// The largest float that passes for audio: 24 dB above full scale. Integers written as floats are above it.
  private static let largest: Float = 16

  private static func mono(
    _ bytes: [UInt8], from start: Int, frames: Int, _ format: WAVFormat
  ) throws(AudioError) -> [Float] {
    var samples = [Float](repeating: 0, count: frames)
    let (width, share) = (format.sampleBytes, 1 / Float(format.channels))
    var at = start
    for frame in 0..<frames {
      var sum: Float = 0
      for _ in 0..<format.channels {
        sum += sample(bytes, at, format.encoding)
        at += width
      }
      let value = sum * share
      // NaN fails every comparison.
      guard abs(value) <= largest else { throw .invalidSample(frame: frame, value: value) }
      samples[frame] = value
    }
    return samples
  }

  private static func sample(_ bytes: [UInt8], _ at: Int, _ encoding: WAVFormat.Encoding) -> Float {
    switch encoding {
    case .unsigned8: Float(Int(bytes[at]) - 128) * 0x1p-7
    case .signed16: Float(Int16(truncatingIfNeeded: integer(bytes, at, 2))) * 0x1p-15
    // In the upper bytes of 32 bits, where the sign is in its place.
    case .signed24: Float(Int32(truncatingIfNeeded: integer(bytes, at, 3) << 8)) * 0x1p-31
    case .signed32: Float(Int32(truncatingIfNeeded: integer(bytes, at, 4))) * 0x1p-31
    case .float32: Float(bitPattern: UInt32(truncatingIfNeeded: integer(bytes, at, 4)))
    case .float64: Float(Double(bitPattern: integer(bytes, at, 8)))
    case .aLaw: aLaw(bytes[at])
    case .muLaw: muLaw(bytes[at])
    }
  }

  /// `count` bytes, the lowest first.
  static func integer(_ bytes: [UInt8], _ at: Int, _ count: Int) -> UInt64 {
    var value: UInt64 = 0
    for place in 0..<count { value |= UInt64(bytes[at + place]) << UInt64(8 * place) }
    return value
  }

  /// Sign, a segment of three bits, four bits within it; even bits are inverted. 13 bits when expanded.
  private static func aLaw(_ code: UInt8) -> Float {
    let code = Int(code ^ 0x55)
    let (segment, step) = (code >> 4 & 7, code & 15)
    let magnitude = segment == 0 ? 2 * step + 1 : (2 * step + 33) << (segment - 1)
    return Float(code & 0x80 != 0 ? magnitude : -magnitude) * 0x1p-12
  }

  /// As A-law, all bits inverted, with a bias of 33. 14 bits when expanded.
  private static func muLaw(_ code: UInt8) -> Float {
    let code = Int(~code)
    let magnitude = ((2 * (code & 15) + 33) << (code >> 4 & 7)) - 33
    return Float(code & 0x80 != 0 ? -magnitude : magnitude) * 0x1p-13
  }
}
