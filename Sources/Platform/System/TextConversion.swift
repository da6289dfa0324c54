// Text in other encodings than UTF-8, as the C library's iconv reads it.

/// From any encoding that the C library knows.
package enum TextConversion {
  /// Why a text is not read.
  package enum Failure: Error, Equatable {
    /// The C library has no such encoding.
    case unknown
    /// The bytes are not what the encoding has.
    case malformed
  }

  /// The text as UTF-8.
  ///
  /// - Parameter name: as iconv takes it, such as `GB18030`.
  package static func utf8(_ bytes: [UInt8], from name: String) throws(Failure) -> [UInt8] {
    guard name.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") }),
      let state = iconv_open("UTF-8", name), state != iconv_t(bitPattern: -1)
    else { throw .unknown }
    defer { iconv_close(state) }
    var out: [UInt8] = []
    var piece = [CChar](repeating: 0, count: 1 << 16)
    var input = bytes.map { CChar(bitPattern: $0) }
    let isWhole = input.withUnsafeMutableBufferPointer { input -> Bool in
      var (from, left) = (input.baseAddress, input.count)
      while true {
        // Some encodings keep a character back until they are told that nothing follows.
        let isEnd = left == 0
        let (failed, code, count) = piece.withUnsafeMutableBufferPointer { piece in
          var (to, room) = (piece.baseAddress, piece.count)
          let result =
            isEnd ? iconv(state, nil, nil, &to, &room) : iconv(state, &from, &left, &to, &room)
          return (result == Int(bitPattern: UInt.max), errno, piece.count - room)
        }
        out += piece[..<count].lazy.map { UInt8(bitPattern: $0) }
        // The piece may have been too small; but it takes any one character.
        if failed, code != E2BIG || count == 0 { return false }
        if isEnd, !failed { return true }
      }
    }
    guard isWhole else { throw .malformed }
    return out
  }
}
