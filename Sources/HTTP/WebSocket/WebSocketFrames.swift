// WebSocket frames without any input or output of their own (RFC 6455 section 5): bytes in, messages out.
//
// No extension is ever negotiated, so reserved bits are errors. The result does not depend on how the bytes are
// cut into pieces, and an error is final.

/// Reads what a client sends.
struct WebSocketFrameReader {
  enum Event: Equatable {
    /// All input has been used.
    case needMore
    case text(String)
    case binary
    case ping([UInt8])
    case pong
    /// The code is nil when the client gave none.
    case close(code: UInt16?)
  }

  /// Why the connection must be closed: a status of section 7.4.1 and words for the client.
  struct Failure: Error, Equatable {
    let code: UInt16
    let reason: String
  }

  private struct Frame {
    var opcode: UInt8
    var isLast: Bool
    var mask: [UInt8]
    var missing: Int
    /// Bytes of the payload unmasked so far.
    var taken = 0
  }

  private let messageLimit: Int
  private var input: [UInt8] = []
  private var position = 0
  private var frame: Frame?
  /// The opcode of the message whose fragments are being collected.
  private var messageOpcode: UInt8?
  private var message: [UInt8] = []
  private var control: [UInt8] = []
  private var failure: Failure?

  init(messageLimit: Int) { self.messageLimit = messageLimit }

  mutating func feed(_ bytes: some Collection<UInt8>) {
    if position == input.count {
      input.removeAll(keepingCapacity: true)
      position = 0
    } else if position > 64 << 10 {
      input.removeFirst(position)
      position = 0
    }
    input += bytes
  }

  /// Bytes that have come and are not a message yet.
  var bufferedBytes: Int { message.count + input.count - position }

  /// Whether a frame or a message has begun.
  var isInsideMessage: Bool { frame != nil || messageOpcode != nil || position < input.count }

  mutating func next() throws(Failure) -> Event {
    if let failure { throw failure }
    do throws(Failure) {
      return try advance()
    } catch {
      failure = error
      throw error
    }
  }

  private mutating func advance() throws(Failure) -> Event {
    while true {
      guard var current = frame else {
        guard try readHead() else { return .needMore }
        continue
      }
      let count = min(current.missing, input.count - position)
      let isControl = current.opcode >= 8
      for offset in 0..<count {
        let byte = input[position + offset] ^ current.mask[(current.taken + offset) & 3]
        if isControl { control.append(byte) } else { message.append(byte) }
      }
      position += count
      current.taken += count
      current.missing -= count
      frame = current
      guard current.missing == 0 else { return .needMore }
      frame = nil
      if isControl {
        defer { control = [] }
        return try finishControl(current.opcode)
      }
      if current.isLast { return try finishMessage() }
    }
  }

  /// Takes the head of a frame; false when it has not come whole.
  private mutating func readHead() throws(Failure) -> Bool {
    let head = input[position...]
    guard head.count >= 2 else { return false }
    let first = head[position]
    let second = head[position + 1]
    guard first & 0x70 == 0 else { throw Self.protocolError("reserved bits are set") }
    guard second & 0x80 != 0 else { throw Self.protocolError("a frame is not masked") }
    let opcode = first & 0x0F
    let isLast = first & 0x80 != 0
    try check(opcode, isLast: isLast, shortLength: second & 0x7F)
    let extra = second & 0x7F == 126 ? 2 : second & 0x7F == 127 ? 8 : 0
    guard head.count >= 2 + extra + 4 else { return false }
    let length = try Self.length(second & 0x7F, head[(position + 2)..<(position + 2 + extra)])
    if opcode < 8, length > messageLimit - message.count {
      throw Failure(code: 1009, reason: "a message may have \(messageLimit) bytes")
    }
    let maskStart = position + 2 + extra
    frame = Frame(
      opcode: opcode, isLast: isLast, mask: Array(input[maskStart..<maskStart + 4]), missing: length)
    position = maskStart + 4
    if opcode == 1 || opcode == 2 { messageOpcode = opcode }
    return true
  }

  private func check(_ opcode: UInt8, isLast: Bool, shortLength: UInt8) throws(Failure) {
    switch opcode {
    case 0:
      if messageOpcode == nil { throw Self.protocolError("a continuation continues nothing") }
    case 1, 2:
      if messageOpcode != nil { throw Self.protocolError("a message begins within another") }
    case 8, 9, 10:
      if !isLast || shortLength > 125 { throw Self.protocolError("a control frame is too long or in parts") }
    default: throw Self.protocolError("unknown opcode \(opcode)")
    }
  }

  /// The shortest form is required, and no length needs the highest bit.
  private static func length(_ short: UInt8, _ bytes: ArraySlice<UInt8>) throws(Failure) -> Int {
    guard !bytes.isEmpty else { return Int(short) }
    guard bytes.count == 2 || bytes.first.map({ $0 < 0x80 }) == true else {
      throw protocolError("a length has its highest bit set")
    }
    let value = bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    guard value >= (bytes.count == 2 ? 126 : 1 << 16) else {
      throw protocolError("a length is not in its shortest form")
    }
    return Int(clamping: value)
  }

  private mutating func finishMessage() throws(Failure) -> Event {
    defer {
      messageOpcode = nil
      message = []
    }
    if messageOpcode == 2 { return .binary }
    guard let text = String(validating: message, as: UTF8.self) else {
      throw Failure(code: 1007, reason: "a text is not valid UTF-8")
    }
    return .text(text)
  }

  private func finishControl(_ opcode: UInt8) throws(Failure) -> Event {
    switch opcode {
    case 9: return .ping(control)
    case 10: return .pong
    default:
      guard !control.isEmpty else { return .close(code: nil) }
      guard control.count >= 2 else { throw Self.protocolError("a close frame has half a code") }
      let code = UInt16(control[0]) << 8 | UInt16(control[1])
      guard Self.isValidCode(code) else { throw Self.protocolError("\(code) is not a status to close with") }
      guard String(validating: control[2...], as: UTF8.self) != nil else {
        throw Failure(code: 1007, reason: "a reason is not valid UTF-8")
      }
      return .close(code: code)
    }
  }

  /// Codes that may stand in a frame (sections 7.4.1 and 7.4.2).
  private static func isValidCode(_ code: UInt16) -> Bool {
    switch code {
    case 1000...1003, 1007...1014, 3000...4999: true
    default: false
    }
  }

  private static func protocolError(_ reason: String) -> Failure { Failure(code: 1002, reason: reason) }
}

/// Makes the frames that a server sends: never masked, never fragmented.
enum WebSocketFrameWriter {
  static func text(_ bytes: [UInt8]) -> [UInt8] { frame(1, bytes) }
  static func ping() -> [UInt8] { frame(9, []) }
  static func pong(_ payload: [UInt8]) -> [UInt8] { frame(10, payload) }

  /// The reason is cut to what a control frame holds, between characters.
  static func close(_ code: UInt16, _ reason: String) -> [UInt8] {
    var payload = [UInt8(code >> 8), UInt8(code & 0xFF)]
    for scalar in reason.unicodeScalars {
      let bytes = Array(String(scalar).utf8)
      guard payload.count + bytes.count <= 125 else { break }
      payload += bytes
    }
    return frame(8, payload)
  }

  private static func frame(_ opcode: UInt8, _ payload: [UInt8]) -> [UInt8] {
    var out: [UInt8] = [0x80 | opcode]
    switch payload.count {
    case ..<126: out.append(UInt8(payload.count))
    case ..<(1 << 16): out += [126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
    default:
      out.append(127)
      for shift in stride(from: 56, through: 0, by: -8) {
        out.append(UInt8(truncatingIfNeeded: payload.count >> shift))
      }
    }
    return out + payload
  }
}
