// The parts of an answer, gathered from the pieces in which it comes.

/// What has come of an answer so far, without what only its reader sees as it comes.
package struct AnswerParts: Sendable {
  package private(set) var content = ""
  package private(set) var reasoning = ""
  /// Arguments are JSON text.
  package private(set) var calls: [(name: String, arguments: String)] = []
  package private(set) var end = TokenStream.End.stop

  package init() {}

  /// Takes the next piece.
  package mutating func add(_ piece: TokenStream.Piece) {
    switch piece {
    case .content(let text, _): content += text
    case .reasoning(let text): reasoning += text
    case .toolCallBegan(let name): calls.append((name, ""))
    case .toolCallArguments(let text): if let last = calls.indices.last { calls[last].arguments += text }
    case .toolCallsFailed(let count): calls.removeLast(min(count, calls.count))
    case .finish(let reason): end = reason
    case .toolCallEnded, .search, .reading: break
    }
  }
}
