// multipart/form-data (RFC 7578): a body's parts by name, within bounds.

/// One part of a form.
package struct FormPart: Sendable, Equatable {
  package let name: String
  package let body: [UInt8]
  /// What the client calls the file; nil for a field.
  package var filename: String?
  package var contentType: String?
}

/// Why a body is no form.
package enum MultipartError: Error, Sendable, Equatable, CustomStringConvertible {
  case noBoundary
  case malformed(String)
  case tooManyParts(limit: Int)

  package var description: String {
    switch self {
    case .noBoundary: "the content-type names no boundary of 1 to 70 characters"
    case .malformed(let problem): "the multipart body is malformed: \(problem)"
    case .tooManyParts(let limit): "the multipart body has more than \(limit) parts"
    }
  }
}

/// Reads forms that are in memory.
package enum Multipart {
  /// Header lines of one part, and bytes of one of them.
  private static let fieldLimit = 16
  private static let lineLimit = 1024

  /// Whether a content-type is that of a form.
  package static func isForm(_ contentType: String) -> Bool {
    ASCII.equalIgnoringCase(essence(contentType).utf8, "multipart/form-data".utf8)
  }

  /// The parts of a form in order.
  ///
  /// - Parameters:
  ///   - contentType: the value of the header, which names the boundary.
  ///   - limit: most parts.
  package static func parse(
    _ body: [UInt8], contentType: String, limit: Int
  ) throws(MultipartError) -> [FormPart] {
    guard let boundary = parameter("boundary", of: contentType), (1...70).contains(boundary.count) else {
      throw .noBoundary
    }
    let delimiter: [UInt8] = [0x0D, 0x0A, 0x2D, 0x2D] + boundary
    // The first one may stand at the very beginning, without a line end before it.
    let isFirst = body.starts(with: delimiter.dropFirst(2))
    guard let first = isFirst ? -2 : find(delimiter, in: body, from: 0) else {
      throw .malformed("the boundary does not occur")
    }
    var at = first + delimiter.count
    var parts: [FormPart] = []
    while true {
      if body[at...].starts(with: [0x2D, 0x2D]) { return parts }
      while at < body.count, ASCII.isBlank(body[at]) { at += 1 }
      guard body[at...].starts(with: [0x0D, 0x0A]) else { throw .malformed("a boundary's line does not end") }
      guard parts.count < limit else { throw .tooManyParts(limit: limit) }
      let (head, start) = try readHead(body, from: at + 2)
      // A part without content ends in the line end of its head.
      guard let end = find(delimiter, in: body, from: start - 2) else {
        throw .malformed("the last boundary is missing")
      }
      parts.append(try part(head, Array(body[start..<max(start, end)])))
      at = end + delimiter.count
    }
  }

  /// The header lines of a part, and where its body begins.
  private static func readHead(
    _ body: [UInt8], from start: Int
  ) throws(MultipartError) -> (lines: [[UInt8]], bodyStart: Int) {
    var lines: [[UInt8]] = []
    var at = start
    while true {
      guard let end = find([0x0D, 0x0A], in: body, from: at, to: at + lineLimit) else {
        throw .malformed("a part's header line does not end, or is too long")
      }
      if end == at { return (lines, end + 2) }
      guard lines.count < fieldLimit else { throw .malformed("a part has too many header lines") }
      lines.append(Array(body[at..<end]))
      at = end + 2
    }
  }

  private static func part(_ head: [[UInt8]], _ body: [UInt8]) throws(MultipartError) -> FormPart {
    var disposition: String?
    var contentType: String?
    for line in head {
      guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else {
        throw .malformed("a part's header line has no colon")
      }
      guard let value = String(validating: ASCII.trimmed(line[(colon + 1)...]), as: UTF8.self) else {
        throw .malformed("a part's header line is not UTF-8")
      }
      let name = line[..<colon]
      if ASCII.equalIgnoringCase(name, "content-disposition".utf8) { disposition = value }
      if ASCII.equalIgnoringCase(name, "content-type".utf8) { contentType = value }
      if ASCII.equalIgnoringCase(name, "content-transfer-encoding".utf8),
        !["binary", "8bit", "7bit"].contains(value.lowercased())
      {
        throw .malformed("a part has a transfer encoding; send its bytes as they are")
      }
    }
    guard let disposition, ASCII.equalIgnoringCase(essence(disposition).utf8, "form-data".utf8),
      let name = parameter("name", of: disposition), let text = String(validating: name, as: UTF8.self)
    else { throw .malformed("a part has no name") }
    let filename = parameter("filename", of: disposition).map { String(decoding: $0, as: UTF8.self) }
    return FormPart(name: text, body: body, filename: filename, contentType: contentType)
  }

  /// The value up to its parameters.
  private static func essence(_ value: String) -> String {
    String(decoding: ASCII.trimmed(Array(value.utf8.prefix { $0 != UInt8(ascii: ";") })[...]), as: UTF8.self)
  }

  /// A parameter after a header's value, as a token or a quoted string.
  private static func parameter(_ name: String, of value: String) -> [UInt8]? {
    let bytes = Array(value.utf8)
    var at = bytes.firstIndex(of: UInt8(ascii: ";")) ?? bytes.count
    while at < bytes.count {
      at += 1
      while at < bytes.count, ASCII.isBlank(bytes[at]) { at += 1 }
      let start = at
      while at < bytes.count, ASCII.isToken(bytes[at]) { at += 1 }
      let found = bytes[start..<at]
      guard at < bytes.count, bytes[at] == UInt8(ascii: "=") else { continue }
      at += 1
      var text: [UInt8] = []
      if at < bytes.count, bytes[at] == UInt8(ascii: "\"") {
        at += 1
        while at < bytes.count, bytes[at] != UInt8(ascii: "\"") {
          // Browsers escape quotes by percent signs, others by backslashes.
          if bytes[at] == UInt8(ascii: "\\"), at + 1 < bytes.count { at += 1 }
          text.append(bytes[at])
          at += 1
        }
        guard at < bytes.count else { return nil }
        at += 1
      } else {
        while at < bytes.count, bytes[at] != UInt8(ascii: ";"), !ASCII.isBlank(bytes[at]) {
          text.append(bytes[at])
          at += 1
        }
      }
      if ASCII.equalIgnoringCase(found, name.utf8) { return text }
      while at < bytes.count, bytes[at] != UInt8(ascii: ";") { at += 1 }
    }
    return nil
  }

  /// The first place of `part` at or after `start`.
  private static func find(_ part: [UInt8], in bytes: [UInt8], from start: Int, to end: Int = .max) -> Int? {
    let end = min(end, bytes.count)
    guard let first = part.first, start >= 0 else { return nil }
    var at = start
    while at + part.count <= end {
      if bytes[at] == first {
        var matched = 1
        while matched < part.count, bytes[at + matched] == part[matched] { matched += 1 }
        if matched == part.count { return at }
      }
      at += 1
    }
    return nil
  }
}
