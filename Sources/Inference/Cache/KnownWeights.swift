// Which weights lie in which files: hashes that were made once, remembered until a file is touched.

import Checkpoint
import Platform

/// Small files in the prefix directory, one for each state of a checkpoint's files:
/// `mlxserve-weights-1 <identity> <digest> <checksum>`, in hexadecimal digits.
struct KnownWeights: Sendable {
  let folder: String
  let files: any FileSystem

  private static let magic = "mlxserve-weights-1"
  private static let ending = ".weights"
  /// Most files: those that were written longest ago go first.
  private static let most = 64
  /// Most bytes of one.
  private static let fileBytes = 512
  /// Nanoseconds that files must have been left alone before they were hashed. The system counts changes in ticks of
  /// some milliseconds, some file systems in seconds: two changes within one look like one.
  static let settled: Int64 = 2_500_000_000

  /// The digest that was found in files that nobody has touched since.
  func digest(of weights: WeightFiles) -> [UInt8]? {
    let identity = SHA256.hexadecimal(weights.identity)
    guard let bytes = try? files.read(path(identity), limit: Self.fileBytes), let found = Self.parts(bytes),
      found.identity.utf8.elementsEqual(identity.utf8)
    else { return nil }
    return SHA256.digest(hexadecimal: found.digest)
  }

  /// What a file says; nil when it is not whole.
  private static func parts(_ bytes: [UInt8]) -> (identity: String, digest: String)? {
    let words = bytes.split(separator: UInt8(ascii: " ")).map { String(decoding: $0, as: UTF8.self) }
    guard words.count == 4, line(words[1], words[2]).utf8.elementsEqual(bytes) else { return nil }
    return (words[1], words[2])
  }

  /// What is wrong with a file of this folder; nil for one that is whole, and for files of others.
  func problem(of name: String) -> String? {
    guard name.hasSuffix(Self.ending) else { return nil }
    do throws(PlatformError) {
      guard let found = Self.parts(try files.read(folder + "/" + name, limit: Self.fileBytes)) else {
        return "it is damaged; the weights are hashed again"
      }
      return Self.name(found.identity) == name ? nil : "it is that of other weights"
    } catch {
      return "\(error)"
    }
  }

  /// Remembers what was found, unless the files were changed too shortly before that.
  ///
  /// - Parameter start: nanoseconds since 1970 at which the hash was begun.
  func remember(_ digest: [UInt8], of weights: WeightFiles, since start: Int64) {
    guard start - Self.settled > weights.lastChange else { return }
    let identity = SHA256.hexadecimal(weights.identity)
    do throws(PlatformError) {
      try files.writeDurably(
        Array(Self.line(identity, SHA256.hexadecimal(digest)).utf8), folder: folder, name: Self.name(identity)
      )
      try forget()
    } catch {
      // The next start hashes again.
      Log.warning("the hash of the weights cannot be saved", ["error": "\(error)"])
    }
  }

  private func forget() throws(PlatformError) {
    var found: [(path: String, modified: Double)] = []
    for name in try files.names(in: folder) where name.hasSuffix(Self.ending) {
      let path = folder + "/" + name
      found.append((path, try files.beginning(path, count: 0).facts.modified))
    }
    for file in found.sorted(by: { $0.modified < $1.modified }).dropLast(Self.most) {
      try files.remove(file.path)
    }
  }

  private func path(_ identity: String) -> String { folder + "/" + Self.name(identity) }

  private static func name(_ identity: String) -> String { String(identity.prefix(32)) + ending }

  private static func line(_ identity: String, _ digest: String) -> String {
    let text = "\(magic) \(identity) \(digest) "
    return text + String(Checksum.of(Array(text.utf8)), radix: 16)
  }
}
