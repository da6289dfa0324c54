// Sockets that wait for connections: name resolution, binding, accepting.

import Platform

struct ListeningSocket: Sendable {
  enum Accepted {
    case connection(Int32, peer: Endpoint)
    /// No client waits, or the one that waited has left.
    case nothing
    /// The process or the system has no descriptor left.
    case noDescriptor
  }

  let descriptor: Int32
  let endpoint: Endpoint
  /// Of a Unix socket.
  var file: UnixSocketFile?

  /// Binds every address that `host` resolves to, all on the same port.
  ///
  /// - Parameter port: 0 takes a free one.
  /// - Throws: `SocketError.cannotListen`; then nothing stays bound.
  static func bind(host: String, port: Int, backlog: Int) throws(SocketError) -> [ListeningSocket] {
    var sockets: [ListeningSocket] = []
    do throws(SocketError) {
      var lastCode: Int32 = EADDRNOTAVAIL
      for address in try resolve(host: host, port: port) {
        // With port 0 the first address chooses and the others follow.
        let chosen = sockets.first?.endpoint.port ?? port
        switch bind(address, port: chosen, backlog: backlog) {
        case .success(let socket): sockets.append(socket)
        case .failure(let code):
          lastCode = code
          // A name may have an address that this machine does not: the others still serve.
          guard code == EAFNOSUPPORT || code == EADDRNOTAVAIL else {
            if code == EADDRINUSE { throw .placeTaken(host: host, port: chosen) }
            throw .cannotListen(host: host, port: chosen, reason: words(code))
          }
        }
      }
      guard !sockets.isEmpty else { throw .cannotListen(host: host, port: port, reason: words(lastCode)) }
      return sockets
    } catch {
      for socket in sockets { socket.shut() }
      throw error
    }
  }

  /// Takes one waiting connection without blocking.
  func accept() -> Accepted {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let descriptor = withUnsafeMutablePointer(to: &storage) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        Platform.accept(self.descriptor, $0, &length)
      }
    }
    if descriptor >= 0 {
      return .connection(
        descriptor,
        peer: file == nil
          ? Self.endpoint(of: &storage) ?? Endpoint(address: "?", port: 0) : Endpoint(unixPath: ""))
    }
    switch errno {
    case EMFILE, ENFILE, ENOBUFS, ENOMEM: return .noDescriptor
    default: return .nothing
    }
  }

  func shut() {
    close(descriptor)
    file?.remove()
  }

  private struct Address {
    var storage: sockaddr_storage
    let length: socklen_t
    let family: Int32
  }

  private enum BindResult {
    case success(ListeningSocket)
    case failure(Int32)
  }

  private static func resolve(host: String, port: Int) throws(SocketError) -> [Address] {
    guard (0...65535).contains(port) else {
      throw .cannotListen(host: host, port: port, reason: "a port is a number from 0 to 65535")
    }
    var hints = addrinfo()
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV
    hints.ai_family = AF_UNSPEC
    hints.ai_socktype = streamType
    // The C library takes an empty name for "no name", which would mean every address.
    guard !host.isEmpty, !host.utf8.contains(0) else {
      throw .cannotListen(host: host, port: port, reason: "the host is empty. Name one, such as 127.0.0.1")
    }
    var list: UnsafeMutablePointer<addrinfo>?
    let code = getaddrinfo(host, String(port), &hints, &list)
    guard code == 0 else {
      let reason = "the host name does not resolve (\(String(cString: gai_strerror(code))))"
      throw .cannotListen(host: host, port: port, reason: reason)
    }
    defer { freeaddrinfo(list) }
    var addresses: [Address] = []
    var next = list
    while let entry = next?.pointee, addresses.count < 16 {
      next = entry.ai_next
      guard let source = entry.ai_addr, Int(entry.ai_addrlen) <= MemoryLayout<sockaddr_storage>.size else {
        continue
      }
      var storage = sockaddr_storage()
      withUnsafeMutableBytes(of: &storage) {
        $0.copyMemory(from: UnsafeRawBufferPointer(start: source, count: Int(entry.ai_addrlen)))
      }
      addresses.append(Address(storage: storage, length: entry.ai_addrlen, family: entry.ai_family))
    }
    return addresses
  }

  private static func bind(_ address: Address, port: Int, backlog: Int) -> BindResult {
    let descriptor = socket(address.family, streamType, 0)
    guard descriptor >= 0 else { return .failure(errno) }
    Socket.prepare(descriptor)
    var on: Int32 = 1
    // A restart must not wait for connections of the last run to fade away.
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
    var address = address
    setPort(port, of: &address.storage)
    let length = address.length
    let status = withUnsafePointer(to: &address.storage) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { Platform.bind(descriptor, $0, length) }
    }
    var bound = sockaddr_storage()
    guard status == 0, listen(descriptor, Int32(clamping: backlog)) == 0, name(of: descriptor, into: &bound),
      let endpoint = endpoint(of: &bound)
    else {
      let code = errno
      close(descriptor)
      return .failure(code)
    }
    return .success(ListeningSocket(descriptor: descriptor, endpoint: endpoint))
  }

  private static func name(of descriptor: Int32, into storage: inout sockaddr_storage) -> Bool {
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    return withUnsafeMutablePointer(to: &storage) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) == 0 }
    }
  }

  /// Ports stand at the same place in both families: bytes 2 and 3, most significant first.
  private static func setPort(_ port: Int, of storage: inout sockaddr_storage) {
    withUnsafeMutableBytes(of: &storage) { bytes in
      bytes[2] = UInt8(port >> 8 & 0xFF)
      bytes[3] = UInt8(port & 0xFF)
    }
  }

  private static func endpoint(of storage: inout sockaddr_storage) -> Endpoint? {
    let isIPv6 = Int32(storage.ss_family) == AF_INET6
    guard isIPv6 || Int32(storage.ss_family) == AF_INET else { return nil }
    return withUnsafeBytes(of: &storage) { bytes in
      var text = [CChar](repeating: 0, count: 64)
      guard let base = bytes.baseAddress,
        inet_ntop(isIPv6 ? AF_INET6 : AF_INET, base + (isIPv6 ? 8 : 4), &text, socklen_t(text.count)) != nil
      else { return nil }
      let address = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      return Endpoint(address: address, port: Int(bytes[2]) << 8 | Int(bytes[3]))
    }
  }

  static func words(_ code: Int32) -> String {
    switch code {
    case EADDRINUSE: "another program uses this port. Stop it or choose another port"
    case EACCES: "this place needs more rights. Choose a port above 1023, or another folder"
    case EADDRNOTAVAIL: "this machine does not have that address"
    default: String(cString: strerror(code))
    }
  }

  #if canImport(Darwin)
    static let streamType = SOCK_STREAM
  #else
    static let streamType = Int32(SOCK_STREAM.rawValue)
  #endif
}
