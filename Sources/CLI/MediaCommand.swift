// `mlxserve media`: what the decoders make of an image file.

import JSON
import Media
import Platform

enum MediaCommand {
  private static let fileLimit = 256 << 20

  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let path = try flags.required("file", hint: "a PNG or JPEG file")
    let bytes = try File.read(path, limit: fileLimit)
    let begin = Instant.now
    let image = try ImageDecoder.decode(bytes)
    let decoding = Instant.now.seconds(since: begin)
    let tokens = flags.integer("image-tokens") ?? 280
    let grid = PatchGrid(patch: 16, pooling: 3, tokens: tokens, positions: 10_240)
    let size = try grid.size(width: image.width, height: image.height, tokens: tokens)
    let resizing = Instant.now
    let resized = image.resized(width: size.width, height: size.height)
    let seconds = Instant.now.seconds(since: resizing)
    if let target = flags.text("raw") {
      try write((flags.isSet("resized") ? resized : image).pixels, to: target)
    }
    let facts: JSONValue = [
      "format": .string(try ImageDecoder.format(of: bytes).rawValue), "bytes": .int(bytes.count),
      "width": .int(image.width), "height": .int(image.height),
      "resized_width": .int(resized.width), "resized_height": .int(resized.height),
      "tokens": .int(grid.tokenCount(width: resized.width, height: resized.height)),
      "decode_seconds": .double((decoding * 1e4).rounded() / 1e4),
      "resize_seconds": .double((seconds * 1e4).rounded() / 1e4),
    ]
    Terminal.print(facts.text)
    return 0
  }

  private static func write(_ bytes: [UInt8], to path: String) throws(PlatformError) {
    let parts = path.split(separator: "/", omittingEmptySubsequences: false)
    let folder = parts.count > 1 ? parts.dropLast().joined(separator: "/") : "."
    try File.writeDurably(bytes, folder: folder, name: String(parts.last ?? ""))
  }
}
