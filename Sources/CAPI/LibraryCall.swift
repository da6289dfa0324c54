// A request that comes without a socket, and the function that gets the body of its response.

import MLXServe
import Platform

/// What the host gave: it may change it as soon as the call has returned.
struct LibraryCall {
  let method: String
  let path: String
  private let text: UnsafeBufferPointer<CChar>

  init(
    method: UnsafePointer<CChar>?, path: UnsafePointer<CChar>?, body: UnsafePointer<CChar>?, count: Int64
  ) throws(LibraryError) {
    self.method = try Self.word("method", method)
    self.path = try Self.word("path", path)
    guard let body else {
      text = UnsafeBufferPointer(start: nil, count: 0)
      return
    }
    guard let count = Int(exactly: count < 0 ? Int64(strlen(body)) : count), count <= Self.most else {
      throw .invalid("body_count", "is more than \(Self.most)")
    }
    text = UnsafeBufferPointer(start: body, count: count)
  }

  /// Bytes of the body.
  var count: Int { text.count }

  /// A copy of the body, once there is room for it.
  var body: [UInt8] { text.map { UInt8(bitPattern: $0) } }

  /// As many bytes as a server takes that has images and audio in its requests.
  private static let most = 64 << 20

  private static func word(_ name: String, _ text: UnsafePointer<CChar>?) throws(LibraryError) -> String {
    guard let text else { throw .invalid(name, "is NULL") }
    guard let word = String(validatingCString: text) else { throw .invalid(name, "is not UTF-8") }
    return word
  }
}

/// `@unchecked Sendable`: called on the host's own thread alone; it only passes by.
struct ChunkReceiver: @unchecked Sendable {
  let call: ChunkCallback
  let context: UnsafeMutableRawPointer?

  /// False when the host wants no more.
  func take(_ bytes: [UInt8]) -> Bool {
    bytes.withUnsafeBufferPointer { call($0.baseAddress, Int64($0.count), context) } == 0
  }
}
