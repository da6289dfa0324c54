// A folder of its own for a test, removed afterwards.

import Platform

final class TemporaryFolder {
  let path: String

  init() throws {
    let base = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
    var template = Array((base + "/mlxserve-test-XXXXXX").utf8CString)
    guard mkdtemp(&template) != nil else { throw PlatformError.system(action: "make a folder", code: errno) }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Writes a file and returns its path.
  func file(_ name: String, _ bytes: [UInt8]) -> String {
    let place = path + "/" + name
    let descriptor = open(place, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    _ = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
    close(descriptor)
    return place
  }

  deinit {
    for name in (try? File.names(in: path)) ?? [] { unlink(path + "/" + name) }
    rmdir(path)
  }
}
