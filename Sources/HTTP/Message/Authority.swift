// The grammar of `host [":" port]` in a host field or an absolute target (RFC 3986 section 3.2).

/// Reads and checks hosts. Nothing is looked up.
package enum Authority {
  /// Whether `bytes` name a host: a registered name, an IPv4 address or a bracketed IPv6 address, perhaps
  /// with a port. User information, empty names and empty labels are refused.
  static func isValid(_ bytes: ArraySlice<UInt8>) -> Bool { split(bytes) != nil }

  /// The host without brackets and port, in lower case, and the port; nil when the grammar is broken.
  package static func parse(_ text: String) -> (host: String, port: Int?)? {
    guard let (host, port) = split(Array(text.utf8)[...]) else { return nil }
    return (String(decoding: host.map(ASCII.lowered), as: UTF8.self), port)
  }

  /// Whether `host`, as `parse` returns it, is an IPv4 or IPv6 address rather than a name.
  package static func isNumeric(_ host: String) -> Bool {
    let bytes = Array(host.utf8)[...]
    return isIPv4(bytes) || isIPv6(bytes)
  }

  private static func split(_ bytes: ArraySlice<UInt8>) -> (host: ArraySlice<UInt8>, port: Int?)? {
    let host: ArraySlice<UInt8>
    var rest: ArraySlice<UInt8>
    if bytes.first == UInt8(ascii: "[") {
      guard let close = bytes.firstIndex(of: UInt8(ascii: "]")) else { return nil }
      host = bytes[(bytes.startIndex + 1)..<close]
      rest = bytes[(close + 1)...]
      guard isIPv6(host) || isFutureAddress(host) else { return nil }
    } else {
      let colon = bytes.firstIndex(of: UInt8(ascii: ":")) ?? bytes.endIndex
      host = bytes[..<colon]
      rest = bytes[colon...]
      guard isName(host) else { return nil }
    }
    if rest.isEmpty { return (host, nil) }
    guard rest.removeFirst() == UInt8(ascii: ":") else { return nil }
    // RFC 3986 allows an empty port.
    if rest.isEmpty { return (host, nil) }
    guard let port = ASCII.decimal(rest), port <= 65535 else { return nil }
    return (host, port)
  }

  /// `reg-name`, with at least one byte, and no empty label but the one after a final dot.
  private static func isName(_ bytes: ArraySlice<UInt8>) -> Bool {
    guard let first = bytes.first, first != UInt8(ascii: ".") else { return false }
    var previous: UInt8 = 0
    for byte in bytes {
      if byte == UInt8(ascii: ".") && previous == byte { return false }
      previous = byte
      guard isPlain(byte) || byte == UInt8(ascii: "%") else { return false }
    }
    return RequestTarget.percentDecoded(bytes) != nil
  }

  /// `unreserved` and `sub-delims`.
  private static func isPlain(_ byte: UInt8) -> Bool {
    switch byte {
    case _ where ASCII.isDigit(byte) || ASCII.isLetter(byte): true
    case 0x2D, 0x2E, 0x5F, 0x7E: true  // - . _ ~
    case 0x21, 0x24, 0x26...0x2C, 0x3B, 0x3D: true  // ! $ & ' ( ) * + , ; =
    default: false
    }
  }

  /// `IPvFuture`: `v`, hexadecimal digits, a dot, then anything plain or a colon.
  private static func isFutureAddress(_ bytes: ArraySlice<UInt8>) -> Bool {
    guard let first = bytes.first, ASCII.lowered(first) == UInt8(ascii: "v") else { return false }
    let parts = bytes.dropFirst().split(
      separator: UInt8(ascii: "."), maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, !parts[0].isEmpty, parts[0].allSatisfy({ ASCII.hexValue($0) != nil }) else {
      return false
    }
    let address = parts[1]
    return !address.isEmpty && address.first != UInt8(ascii: ".")
      && address.allSatisfy { isPlain($0) || $0 == UInt8(ascii: ":") }
  }

  /// Groups of one to four hexadecimal digits, one `::` at most, perhaps an IPv4 address at the end, perhaps
  /// a zone after `%25` (RFC 6874).
  private static func isIPv6(_ bytes: ArraySlice<UInt8>) -> Bool {
    if let percent = bytes.firstIndex(of: UInt8(ascii: "%")) {
      let zone = bytes[percent...]
      return zone.starts(with: "%25".utf8) && zone.count > 3 && zone.dropFirst(3).allSatisfy(isPlain)
        && isIPv6(bytes[..<percent])
    }
    var groups = bytes.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
    guard groups.count >= 3, groups.count <= 9 else { return false }
    // A leading or trailing "::" makes two empty pieces, one in the middle makes one.
    let isShortened = hasDoubleColon(bytes)
    if groups[0].isEmpty {
      guard groups[1].isEmpty else { return false }
      groups.removeFirst()
    }
    if let last = groups.last, last.isEmpty {
      guard groups.count >= 2, groups[groups.count - 2].isEmpty else { return false }
      groups.removeLast()
    }
    guard groups.filter(\.isEmpty).count == (isShortened ? 1 : 0) else { return false }
    var width = 0
    for (index, group) in groups.enumerated() where !group.isEmpty {
      if index == groups.count - 1 && group.contains(UInt8(ascii: ".")) {
        guard isIPv4(group) else { return false }
        width += 2
      } else {
        guard group.count <= 4, group.allSatisfy({ ASCII.hexValue($0) != nil }) else { return false }
        width += 1
      }
    }
    return isShortened ? width < 8 : width == 8
  }

  private static func hasDoubleColon(_ bytes: ArraySlice<UInt8>) -> Bool {
    zip(bytes, bytes.dropFirst()).contains { $0 == UInt8(ascii: ":") && $1 == UInt8(ascii: ":") }
  }

  private static func isIPv4(_ bytes: ArraySlice<UInt8>) -> Bool {
    let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    return parts.count == 4
      && parts.allSatisfy { part in part.count <= 3 && ASCII.decimal(part).map { $0 <= 255 } == true }
  }
}
