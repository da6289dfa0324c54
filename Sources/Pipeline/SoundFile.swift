// The samples of a sound file as models that hear want them: one channel, 16,000 a second.

package import Media
package import Platform

/// The reader of recordings, whatever their format.
package enum SoundFile {
  /// Most seconds of a recording.
  package static let mostSeconds = 8 * 3600
  private static let rate = SpeechSpectrum.rate

  /// What another program reads, where it is there.
  package static var foreignTypes: [String] {
    ChildProcess.find(program) == nil ? [] : ["audio/mpeg", "audio/mp4", "audio/ogg", "audio/webm"]
  }

  /// - Parameters:
  ///   - ledger: where the memory of another program is claimed; nil for nowhere.
  ///   - claim: reserves this many bytes for what is made of the file; false when they are not to be had.
  ///   - isUnwanted: asked many times a second while another program reads.
  /// - Throws: when it is no sound file that can be read here, is too long or has less than a tenth of a second.
  package static func samples(
    _ bytes: [UInt8], ledger: MemoryLedger? = nil, claim: (_ bytes: Int) -> Bool = { _ in true },
    isUnwanted: () -> Bool = { false }
  ) throws(AudioError) -> [Float] {
    let limits = AudioLimits(bytes: .max, seconds: mostSeconds)
    let clip: AudioClip
    if FLACReader.recognises(bytes) {
      clip = try FLACReader.read(bytes, limits: limits, claim: claim)
    } else if let format = AudioFormat.foreignName(bytes) {
      clip = try converted(bytes, format, ledger, claim, isUnwanted)
    } else {
      // A sample of 8 bits becomes four bytes.
      guard claim(4 * bytes.count) else { throw .noMemory(bytes: 4 * bytes.count) }
      clip = try WAVReader.read(bytes, limits: limits)
    }
    guard clip.seconds >= 0.1 else { throw .tooShort(seconds: clip.seconds) }
    guard clip.rate != rate else { return clip.samples }
    // Halved on the way, and as it is in the end.
    let more = 4 * (clip.samples.count + 2 * Int(clip.seconds * Double(rate)))
    guard claim(more) else { throw .noMemory(bytes: more) }
    return AudioResampler.resample(clip.samples, from: clip.rate, to: rate)
  }

  // MARK: Other programs

  private static let program = "ffmpeg"
  /// What it may take the bytes for: none of these is a list of other files.
  private static let formats = "aac,aiff,amr,ape,asf,au,avi,caf,matroska,mov,mp3,ogg,w64,wv"
  /// What it may take: sound needs little, and pictures that a file may hold are not decoded.
  private static let (memory, seconds) = (512 << 20, 600)

  /// Raw samples by ffmpeg, which reads the bytes from a file without a name and opens nothing else.
  private static func converted(
    _ bytes: [UInt8], _ format: String, _ ledger: MemoryLedger?, _ claim: (Int) -> Bool,
    _ isUnwanted: () -> Bool
  ) throws(AudioError) -> AudioClip {
    guard let path = ChildProcess.find(program) else {
      throw .needsProgram(format: format, problem: "it is not installed here")
    }
    let arguments = [
      "-nostdin", "-hide_banner", "-loglevel", "quiet", "-protocol_whitelist", "file,fd,pipe",
      "-format_whitelist", formats, "-i", ChildProcess.ownInput, "-map", "0:a:0", "-vn", "-sn", "-dn", "-t",
      String(mostSeconds + 1), "-ac", "1",
      "-ar", String(rate), "-c:a", "pcm_s16le", "-f", "s16le", "-",
    ]
    var (samples, low, missing) = ([Float](), nil as UInt8?, nil as Int?)
    let ending: ChildProcess.Ending
    do throws(PlatformError) {
      let file = try NamelessFile(bytes)
      defer { withExtendedLifetime(file) {} }
      ending = try ChildProcess.stream(
        path, arguments, input: .file(file.descriptor),
        bounds: ChildProcess.Bounds(memory: memory, seconds: seconds, ledger: ledger),
        until: Instant.now.adding(seconds: Double(2 * seconds)), isUnwanted: isUnwanted
      ) { more in
        // Two bytes become four, in an array that is there twice as it grows.
        guard claim(4 * more.count) else {
          missing = 4 * more.count
          return false
        }
        for byte in more {
          guard let first = low else {
            low = byte
            continue
          }
          samples.append(Float(Int16(bitPattern: UInt16(byte) << 8 | UInt16(first))) * 0x1p-15)
          low = nil
        }
        return samples.count <= mostSeconds * rate
      }
    } catch .file(_, path, ENOMEM) {
      throw .noMemory(bytes: memory)
    } catch {
      throw .needsProgram(format: format, problem: "it could not be run: \(error)")
    }
    if let missing { throw .noMemory(bytes: missing) }
    switch ending {
    case .exited(0) where !samples.isEmpty: return AudioClip(samples: samples, rate: rate)
    case .tooMuchOutput: throw .tooLong(seconds: Double(samples.count) / Double(rate), limit: mostSeconds)
    case .late: throw .needsProgram(format: format, problem: "it took too long")
    case .unwanted: throw .noSamples
    case .exited: throw .needsProgram(format: format, problem: "it finds no sound in the file")
    }
  }
}
