// Internet addresses: which a name stands for, and which of them are there for everyone.

/// An IPv4 or IPv6 address.
package struct IPAddress: Sendable, Hashable {
  /// 4 or 16, the most significant first.
  package let bytes: [UInt8]

  /// Nil for any other number of bytes.
  package init?(_ bytes: [UInt8]) {
    guard bytes.count == 4 || bytes.count == 16 else { return nil }
    self.bytes = bytes
  }

  /// As in a URL, without brackets; an IPv6 address in full, without `::`.
  package var text: String {
    if bytes.count == 4 { return bytes.map { String($0) }.joined(separator: ".") }
    return stride(from: 0, to: 16, by: 2).map { index in
      String(UInt16(bytes[index]) << 8 | UInt16(bytes[index + 1]), radix: 16)
    }.joined(separator: ":")
  }

  // MARK: Public or not

  /// A range of addresses: the first bits of all that are in it.
  private struct Block {
    let prefix: [UInt8]
    let bits: Int

    init(_ prefix: [UInt8], _ bits: Int) {
      (self.prefix, self.bits) = (prefix, bits)
    }

    func contains(_ bytes: [UInt8]) -> Bool {
      (0..<bits).allSatisfy { bit in
        let expected = bit / 8 < prefix.count ? prefix[bit / 8] : 0
        return (bytes[bit / 8] ^ expected) & (0x80 >> UInt8(bit % 8)) == 0
      }
    }
  }

  /// IPv4 addresses that are not globally reachable hosts (the IANA registry of special-purpose addresses), and one
  /// that is, but answers each virtual machine of a large provider with what concerns that machine.
  private static let special4 = [
    Block([0], 8), Block([10], 8), Block([100, 64], 10), Block([127], 8), Block([169, 254], 16),
    Block([172, 16], 12), Block([192, 0, 0], 24), Block([192, 0, 2], 24), Block([192, 88, 99], 24),
    Block([192, 168], 16), Block([198, 18], 15), Block([198, 51, 100], 24), Block([203, 0, 113], 24),
    Block([224], 4), Block([240], 4), Block([168, 63, 129, 16], 32),
  ]

  /// All that is given out as global unicast addresses (RFC 4291).
  private static let global6 = Block([0x20], 3)
  /// What is special within: protocols of the IETF with Teredo, and two ranges for documentation.
  private static let special6 = [
    Block([0x20, 0x01], 23), Block([0x20, 0x01, 0x0D, 0xB8], 32), Block([0x3F, 0xFF], 20),
  ]

  /// Forms of IPv6 addresses that stand for an IPv4 address, and where in them it is: mapped (RFC 4291), NAT64
  /// (RFC 6052), 6to4 (RFC 3056).
  private static let embedded = [
    (Block([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF], 96), 12),
    (Block([0, 0x64, 0xFF, 0x9B], 96), 12), (Block([0x20, 0x02], 16), 2),
  ]

  /// Whether this is one host that everyone can reach: not the machine itself, not its networks, no group.
  package var isPublic: Bool {
    if bytes.count == 4 { return !Self.special4.contains { $0.contains(bytes) } }
    if let (_, place) = Self.embedded.first(where: { $0.0.contains(bytes) }) {
      return IPAddress(Array(bytes[place..<place + 4]))?.isPublic ?? false
    }
    return Self.global6.contains(bytes) && !Self.special6.contains { $0.contains(bytes) }
  }

  // MARK: Names

  /// The addresses that a host has, in the order in which they are to be tried; 16 at most.
  ///
  /// The C library cannot be interrupted: after the deadline it goes on by itself.
  ///
  /// - Parameters:
  ///   - host: a name, or an address in any form that the C library reads.
  ///   - held: kept until the C library has answered, so that its owner can count what is under way.
  /// - Returns: none for a host that does not exist, nil when there was no answer in time.
  /// - Throws: when no thread can be started.
  package static func find(
    _ host: String, until deadline: Instant, holding held: any Sendable
  ) throws(PlatformError) -> [IPAddress]? {
    let answer = Monitor<[IPAddress]?>(nil)
    let thread = try Thread(name: "host lookup", stackBytes: 512 << 10) {
      withExtendedLifetime(held) {
        let addresses = find(host)
        answer.update { $0 = addresses }
      }
    }
    thread.detach()
    return answer.wait(until: deadline) { $0 }
  }

  private static func find(_ host: String) -> [IPAddress] {
    // An empty name would mean this machine; a NUL byte would end the name early.
    guard !host.utf8.isEmpty, !host.utf8.contains(0) else { return [] }
    var list: UnsafeMutablePointer<addrinfo>?
    guard getaddrinfo(host, nil, nil, &list) == 0 else { return [] }
    defer { freeaddrinfo(list) }
    var addresses: [IPAddress] = []
    var next = list
    while let entry = next?.pointee, addresses.count < 16 {
      next = entry.ai_next
      // `sockaddr_in` holds its address after family and port, `sockaddr_in6` after a flow label too.
      let place: Range<Int>
      switch entry.ai_family {
      case AF_INET: place = 4..<8
      case AF_INET6: place = 8..<24
      default: continue
      }
      guard let source = entry.ai_addr, Int(entry.ai_addrlen) >= place.upperBound else { continue }
      let bytes = UnsafeRawBufferPointer(start: source, count: place.upperBound)[place]
      // Without a hint every address comes once for each kind of socket.
      if let address = IPAddress(Array(bytes)), !addresses.contains(address) { addresses.append(address) }
    }
    return addresses
  }
}
