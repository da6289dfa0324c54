// tokenizer.json, and tokens to text.

import Driver
import JSON

@testable import Tokenizers

@_cdecl("fuzz_tokens_main")
public func main(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) -> CInt {
  Fuzz.run(count, arguments, ["tokenizer": TokenTargets.tokenizer, "detokenizer": TokenTargets.detokenizer])
}

enum TokenTargets {
  static func tokenizer(_ bytes: [UInt8]) {
    guard let tokenizer = try? Tokenizer(tokenizerJSON: bytes) else { return }
    let ids = tokenizer.encode("abc <e> \u{e9}e\u{301}\u{1f44d} ab\n\n  12", addSpecialTokens: true)
    check(ids.allSatisfy { $0 >= 0 && tokenizer.token(of: $0) != nil }, "ids that come out have a spelling")
    _ = tokenizer.decode(ids, skipSpecialTokens: false)
  }

  private static let tokenizer: Tokenizer? = {
    var vocabulary = JSONObject()
    for byte in 0..<256 {
      let digits = String(byte, radix: 16, uppercase: true)
      vocabulary["<0x" + (digits.utf8.count == 1 ? "0" : "") + digits + ">"] = .int(byte)
    }
    for (offset, word) in ["\u{2581}the", "a", "\u{e9}", "\u{1f600}"].enumerated() {
      vocabulary[word] = .int(256 + offset)
    }
    let file: JSONValue = [
      "model": ["type": "BPE", "vocab": .object(vocabulary), "merges": [], "byte_fallback": true],
      "decoder": [
        "type": "Sequence",
        "decoders": [
          ["type": "Replace", "pattern": ["String": "\u{2581}"], "content": " "], ["type": "ByteFallback"],
          ["type": "Fuse"],
        ],
      ],
    ]
    return try? Tokenizer(tokenizerJSON: file.bytes)
  }()

  /// Every byte is a token of that byte, or one of the few words.
  static func detokenizer(_ bytes: [UInt8]) {
    guard let tokenizer else { return check(false, "the small tokenizer loads") }
    let ids = bytes.map { $0 == 0x80 ? Int32(256 + bytes.count % 4) : Int32($0) }
    var stream = tokenizer.makeDetokenizer(skipSpecialTokens: true)
    var text = ""
    for id in ids { text += stream.push(id) }
    text += stream.finish()
    guard !breaksLater(ids) else { return }
    check(
      text.utf8.elementsEqual(tokenizer.decode(ids, skipSpecialTokens: true).utf8),
      "streamed text is the whole text")
  }

  /// Whether a run of byte tokens is valid at first and not as a whole: there the two differ, and say so.
  private static func breaksLater(_ ids: [Int32]) -> Bool {
    ids.split { $0 > 255 }.contains { run in
      let bytes = run.map { UInt8(truncatingIfNeeded: $0) }
      return String(validating: bytes, as: UTF8.self) == nil
        && (1...4).contains { String(validating: bytes.prefix($0), as: UTF8.self) != nil }
    }
  }
}
