// WebSocket frames: every form and every mistake, cut anywhere.

import Testing

@testable import HTTP

/// A frame as a client sends it.
func clientFrame(
  _ opcode: UInt8, _ payload: [UInt8], isLast: Bool = true, mask: [UInt8] = [0x11, 0x22, 0x33, 0x44],
  reserved: UInt8 = 0
) -> [UInt8] {
  var out: [UInt8] = [(isLast ? 0x80 : 0) | reserved | opcode]
  switch payload.count {
  case ..<126: out.append(0x80 | UInt8(payload.count))
  case ..<65_536: out += [0x80 | 126 as UInt8, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
  default:
    out.append(0x80 | 127)
    for shift in stride(from: 56, through: 0, by: -8) { out.append(UInt8(payload.count >> shift & 0xFF)) }
  }
  return out + mask + payload.enumerated().map { $0.element ^ mask[$0.offset % 4] }
}

func clientText(_ text: String, isLast: Bool = true) -> [UInt8] {
  clientFrame(1, Array(text.utf8), isLast: isLast)
}

@Suite struct WebSocketFrameTests {
  private typealias Event = WebSocketFrameReader.Event

  /// All events of some bytes, and the status of the failure that ends them.
  private func read(_ bytes: [UInt8], limit: Int = 1_000_000, pieces: Int = .max) -> ([Event], UInt16?) {
    var reader = WebSocketFrameReader(messageLimit: limit)
    var events: [Event] = []
    var start = 0
    do throws(WebSocketFrameReader.Failure) {
      while start < bytes.count {
        let end = start + min(pieces, bytes.count - start)
        reader.feed(bytes[start..<end])
        start = end
        while true {
          let event = try reader.next()
          if event == .needMore { break }
          events.append(event)
        }
      }
      return (events, nil)
    } catch {
      #expect(throws: WebSocketFrameReader.Failure.self) { try reader.next() }
      return (events, error.code)
    }
  }

  @Test(arguments: [1, 2, 3, 7, Int.max])
  func `messages, fragments and control frames are read however they are cut`(pieces: Int) {
    let bytes =
      clientText("hello") + clientText("") + clientText("a", isLast: false) + clientFrame(9, [1, 2])
      + clientFrame(0, Array("bé".utf8), isLast: false) + clientFrame(10, []) + clientFrame(0, [0x63])
      + clientFrame(2, [0xFF]) + clientText(String(repeating: "x", count: 300))
      + clientText(String(repeating: "y", count: 70_000)) + clientFrame(8, [0x03, 0xE8])
    let (events, failure) = read(bytes, pieces: pieces)
    #expect(failure == nil)
    #expect(
      events == [
        .text("hello"), .text(""), .ping([1, 2]), .pong, .text("abéc"), .binary,
        .text(String(repeating: "x", count: 300)), .text(String(repeating: "y", count: 70_000)),
        .close(code: 1000),
      ])
  }

  @Test func `a character may be cut between fragments but not be wrong`() {
    let cut = clientFrame(1, [0xC3], isLast: false) + clientFrame(0, [0xA9])
    #expect(read(cut).0 == [.text("é")])
    #expect(read(clientFrame(1, [0xC3])).1 == 1007)
    #expect(read(clientFrame(1, [0xED, 0xA0, 0x80])).1 == 1007)
    #expect(read(clientFrame(8, [0x03, 0xE8, 0xFF])).1 == 1007)
  }

  /// Bytes that break the protocol, with what is wrong about them.
  private static let breaches: [(bytes: [UInt8], name: String)] = {
    var breaches: [(bytes: [UInt8], name: String)] = []
    func add(_ name: String, _ bytes: [UInt8]) { breaches.append((bytes, name)) }
    add("a reserved bit", clientFrame(1, [], reserved: 0x40))
    add("another reserved bit", clientFrame(1, [], reserved: 0x10))
    add("an unknown data opcode", clientFrame(3, []))
    add("an unknown control opcode", clientFrame(11, []))
    add("a continuation of nothing", clientFrame(0, []))
    add("a message within another", clientText("a", isLast: false) + clientText("b"))
    add("a ping in parts", clientFrame(9, [], isLast: false))
    add("a ping that is too long", [0x89, 0x80 | 126, 0, 126, 0, 0, 0, 0])
    add("a frame without a mask", [0x81, 0x01, 0x61])
    add("a length not in its shortest form", [0x81, 0x80 | 126, 0, 125, 0, 0, 0, 0])
    add(
      "a long length not in its shortest form", [0x81, 0x80 | 127, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 0, 0])
    add("a length with its highest bit", [0x81, 0x80 | 127, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    add("half a status", clientFrame(8, [0x03]))
    add("status 1005", clientFrame(8, [0x03, 0xED]))
    add("status 1006", clientFrame(8, [0x03, 0xEE]))
    add("status 999", clientFrame(8, [0x03, 0xE7]))
    add("status 5000", clientFrame(8, [0x13, 0x88]))
    return breaches
  }()

  @Test func `a breach of the protocol ends the connection`() {
    for (bytes, name) in Self.breaches {
      #expect(read(bytes).1 == 1002, "\(name)")
      #expect(read(bytes, pieces: 1).1 == 1002, "\(name), byte by byte")
    }
  }

  @Test func `a message has a limit, whole or in parts, and the length alone decides`() {
    #expect(read(clientText("12345"), limit: 5).0 == [.text("12345")])
    #expect(read(clientText("123456"), limit: 5).1 == 1009)
    #expect(read(clientText("123", isLast: false) + clientFrame(0, [1, 2, 3]), limit: 5).1 == 1009)
    let head: [UInt8] = [0x81, 0x80 | 127, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]
    #expect(read(head).1 == 1009)
  }

  @Test func `a close frame may be empty`() {
    #expect(read(clientFrame(8, [])).0 == [.close(code: nil)])
    #expect(read(clientFrame(8, [0x0F, 0xA0] + Array("why".utf8))).0 == [.close(code: 4000)])
  }

  @Test func `the server's frames have the shortest length and no mask`() {
    #expect(WebSocketFrameWriter.text(Array("hi".utf8)) == [0x81, 2, 0x68, 0x69])
    #expect(WebSocketFrameWriter.text([UInt8](repeating: 0, count: 126)).prefix(4) == [0x81, 126, 0, 126])
    #expect(
      WebSocketFrameWriter.text([UInt8](repeating: 0, count: 65_536)).prefix(10)
        == [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0])
    #expect(WebSocketFrameWriter.pong([7]) == [0x8A, 1, 7])
    #expect(WebSocketFrameWriter.close(1001, "é") == [0x88, 4, 0x03, 0xE9, 0xC3, 0xA9])
    let long = WebSocketFrameWriter.close(1000, String(repeating: "é", count: 100))
    #expect(long.count == 2 + 124)
  }

  @Test func `the key of the standard gets the answer of the standard`() {
    let key = Array("dGhlIHNhbXBsZSBub25jZQ==".utf8)
    #expect(WebSocketHandshake.isKey(key))
    #expect(WebSocketHandshake.accept(key) == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    #expect(!WebSocketHandshake.isKey(Array("dGhlIHNhbXBsZSBub25jZQ".utf8)))
    #expect(!WebSocketHandshake.isKey(Array("dGhlIHNhbXBsZSBub25j!Q==".utf8)))
  }
}
