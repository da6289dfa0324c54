// A file that a command was asked to write: whole, or not at all.

import Platform

enum OutputFile {
  static func write(_ bytes: [UInt8], to path: String) throws(PlatformError) {
    let parts = path.split(separator: "/", omittingEmptySubsequences: false)
    let folder = parts.count > 1 ? parts.dropLast().joined(separator: "/") : "."
    try SystemFiles().writeDurably(bytes, folder: folder, name: String(parts.last ?? ""))
  }
}
