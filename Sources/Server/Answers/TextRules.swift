// What a request says of texts, as tokens of the model: words that must not appear, and where repetitions end.

import Pipeline
import Sampling
import Tokenizers
import Wire

/// Made once for all answers to a request.
struct TextRules {
  /// Where "don't repeat yourself" begins anew when a request says nothing: as in llama.cpp.
  static let usualBreakers = ["\n", ":", "\"", "*"]

  private(set) var bannedSequences: [[Int32]] = []
  private(set) var breakers = SequenceBreakers()

  /// - Parameter penalizesSequences: whether breakers are of interest.
  init(_ options: GenerationOptions, _ tokenizer: Tokenizer, penalizesSequences: Bool) {
    for word in options.badWords {
      for text in [word, " " + word] {
        let tokens = tokenizer.encode(text, addSpecialTokens: false)
        if !tokens.isEmpty && !bannedSequences.contains(tokens) { bannedSequences.append(tokens) }
      }
    }
    guard penalizesSequences else { return }
    for text in options.sequenceBreakers ?? Self.usualBreakers { add(breaker: text, tokenizer) }
  }

  /// Every token that holds the text, and every one that ends with its beginning, with the tokens of what is left.
  private mutating func add(breaker text: String, _ tokenizer: Tokenizer) {
    let bytes = Array(text.utf8)
    guard let first = bytes.first else { return }
    var rests: [Int: [Int32]] = [:]
    for id in 0..<Int32(clamping: tokenizer.vocabularySize) {
      let spelling = tokenizer.bytes(of: id)
      for start in spelling.indices where spelling[start] == first {
        let shared = spelling[start...].prefix(bytes.count)
        guard shared.elementsEqual(bytes.prefix(shared.count)) else { continue }
        guard shared.count < bytes.count else {
          breakers.insert(id, tail: [])
          break
        }
        if rests[shared.count] == nil {
          let rest = String(validating: bytes.dropFirst(shared.count), as: UTF8.self)
          rests[shared.count] = rest.map { tokenizer.encode($0, addSpecialTokens: false) } ?? []
        }
        if let tail = rests[shared.count], !tail.isEmpty { breakers.insert(id, tail: tail) }
      }
    }
  }
}
