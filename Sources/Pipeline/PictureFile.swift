// Pictures in formats that have no decoder here: ffmpeg, where it is there, makes a PNG of them.

package import Media
import Platform

/// The reader of pictures, whatever their format.
package enum PictureFile {
  private static let program = "ffmpeg"
  /// What it may take the bytes for: none of these is a list of other files.
  private static let formats = "webp_pipe,gif,bmp_pipe,tiff_pipe,mov"
  /// What it may take. A picture of `ImageLimits.pixels` is held as colours, and as the PNG that is made of them.
  private static let (memory, seconds) = (640 << 20, 60)

  /// The types of what is read here, with those that the program reads where it is there.
  package static var types: [String] {
    let foreign = ["image/webp", "image/gif", "image/bmp", "image/tiff"]
    return ["image/png", "image/jpeg"] + (ChildProcess.find(program) == nil ? [] : foreign)
  }

  /// Bytes that `ImageDecoder` reads: the same, or a PNG of the picture, which is the first where there are several.
  ///
  /// - Parameters:
  ///   - limits: what may be claimed, for the program too, and most pixels.
  ///   - isUnwanted: asked many times a second while the program reads.
  /// - Throws: when the bytes are a picture in another format, and no PNG can be made of it.
  package static func decodable(
    _ bytes: [UInt8], limits: ImageLimits = ImageLimits(), isUnwanted: () -> Bool = { false }
  ) throws(MediaError) -> [UInt8] {
    guard let format = ImageDecoder.foreignName(bytes) else { return bytes }
    guard let path = ChildProcess.find(program) else {
      throw .needsProgram(format: format, problem: "it is not installed here")
    }
    guard limits.claim(memory) else { throw .noMemory(bytes: memory) }
    let arguments = [
      "-nostdin", "-hide_banner", "-loglevel", "quiet", "-protocol_whitelist", "file,fd,pipe",
      "-format_whitelist", formats, "-max_pixels", String(limits.pixels), "-i", ChildProcess.ownInput,
      "-map", "0:v:0", "-an", "-sn", "-dn", "-frames:v", "1", "-pix_fmt", "rgb24", "-c:v", "png", "-f",
      "image2pipe",
      "-",
    ]
    var (png, missing) = ([UInt8](), nil as Int?)
    let ending: ChildProcess.Ending
    do throws(PlatformError) {
      let file = try NamelessFile(bytes)
      defer { withExtendedLifetime(file) {} }
      ending = try ChildProcess.stream(
        path, arguments, input: .file(file.descriptor),
        bounds: ChildProcess.Bounds(memory: memory, seconds: seconds),
        until: Instant.now.adding(seconds: Double(2 * seconds)), isUnwanted: isUnwanted
      ) { more in
        // In an array that is there twice as it grows.
        guard limits.claim(2 * more.count) else {
          missing = 2 * more.count
          return false
        }
        png += more
        return png.count <= 4 * limits.pixels
      }
    } catch {
      throw .needsProgram(format: format, problem: "it could not be run: \(error)")
    }
    if let missing { throw .noMemory(bytes: missing) }
    switch ending {
    case .exited(0) where !png.isEmpty: return png
    case .late, .unwanted: throw .needsProgram(format: format, problem: "it took too long")
    case .exited, .tooMuchOutput:
      throw .needsProgram(
        format: format, problem: "it finds no picture of at most \(limits.pixels) pixels in the file")
    }
  }
}
