// Unix sockets that wait for connections: a file that programs of this machine connect to.

import Platform

/// Where a Unix socket stands and who may use it.
package struct UnixPlace: Sendable, Equatable {
  /// Of the file, which is made and removed.
  package var path: String
  /// Permission bits of the file: connecting needs the right to write.
  package var mode: UInt16 = 0o600

  package init(path: String, mode: UInt16 = 0o600) {
    (self.path, self.mode) = (path, mode)
  }
}

/// The file of a bound socket, to be removed by whoever made it and only if it is still the same one.
struct UnixSocketFile: Sendable, Equatable {
  let path: String
  private let device: UInt64
  private let inode: UInt64

  fileprivate init?(_ path: String) {
    guard let status = Self.status(of: path) else { return nil }
    self.path = path
    device = UInt64(truncatingIfNeeded: status.st_dev)
    inode = UInt64(truncatingIfNeeded: status.st_ino)
  }

  func remove() {
    if UnixSocketFile(path) == self { unlink(path) }
  }

  /// Of the file itself, not of what a link points to.
  fileprivate static func status(of path: String) -> stat? {
    var status = stat()
    return lstat(path, &status) == 0 ? status : nil
  }
}

extension ListeningSocket {
  /// Binds a Unix socket. A socket file that nobody listens on any more is replaced, anything else that stands at
  /// the path is left alone.
  ///
  /// - Throws: `SocketError.cannotListenOnPath`.
  static func bind(unix place: UnixPlace, backlog: Int) throws(SocketError) -> ListeningSocket {
    func failure(_ reason: String) -> SocketError { .cannotListenOnPath(path: place.path, reason: reason) }
    guard var address = address(of: place.path) else {
      throw failure("a path must have 1 to \(pathLimit - 1) bytes and no NUL")
    }
    if let status = UnixSocketFile.status(of: place.path) {
      guard status.st_mode & S_IFMT == S_IFSOCK else {
        throw failure("something other than a socket is there")
      }
      guard isAbandoned(&address) else { throw failure("another program listens there. Stop it first") }
      unlink(place.path)
    }
    let descriptor = socket(AF_UNIX, streamType, 0)
    guard descriptor >= 0 else { throw failure(words(errno)) }
    Socket.prepare(descriptor)
    // Until `listen`, nobody can connect: the permissions hold from the first moment.
    guard call(Platform.bind, descriptor, &address) == 0, chmod(place.path, mode_t(place.mode)) == 0,
      listen(descriptor, Int32(clamping: backlog)) == 0, let file = UnixSocketFile(place.path)
    else {
      let code = errno
      close(descriptor)
      throw failure(words(code))
    }
    return ListeningSocket(descriptor: descriptor, endpoint: Endpoint(unixPath: place.path), file: file)
  }

  private static var pathLimit: Int { MemoryLayout.size(ofValue: sockaddr_un().sun_path) }

  /// Nil when the path is empty, holds a NUL, or does not fit.
  private static func address(of path: String) -> sockaddr_un? {
    let bytes = Array(path.utf8)
    guard !bytes.isEmpty, bytes.count < pathLimit, !bytes.contains(0) else { return nil }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    return address
  }

  /// Whether a connection is refused: the file has outlived its program.
  private static func isAbandoned(_ address: inout sockaddr_un) -> Bool {
    let descriptor = socket(AF_UNIX, streamType, 0)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    Socket.prepare(descriptor)
    return call(Platform.connect, descriptor, &address) != 0 && errno == ECONNREFUSED
  }

  private static func call(
    _ function: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32, _ descriptor: Int32,
    _ address: inout sockaddr_un
  ) -> Int32 {
    withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        function(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
  }
}
