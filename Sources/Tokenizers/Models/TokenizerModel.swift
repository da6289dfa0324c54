// The model of a tokenizer: pieces to token ids.

enum TokenizerModel: Sendable {
  case bpe(BPE)
  case wordPiece(WordPiece)
  case unigram(Unigram)
  /// Whole pieces only.
  case wordLevel(Vocabulary, unknown: Int32?)

  var vocabulary: Vocabulary {
    switch self {
    case .bpe(let model): model.vocabulary
    case .wordPiece(let model): model.vocabulary
    case .unigram(let model): model.vocabulary
    case .wordLevel(let vocabulary, _): vocabulary
    }
  }

  /// What stands for text that no token spells.
  var unknown: Int32? {
    switch self {
    case .bpe(let model): model.options.unknown
    case .wordPiece(let model): model.unknown
    case .unigram(let model): model.unknown
    case .wordLevel(_, let unknown): unknown
    }
  }

  /// Appends the tokens of all pieces.
  func encode(_ pieces: Pieces, _ workspace: inout MergeWorkspace, into ids: inout [Int32]) {
    switch self {
    case .bpe(let model):
      for piece in pieces.ranges { model.encode(pieces.bytes, piece, &workspace, into: &ids) }
    case .wordPiece(let model):
      for piece in pieces.ranges { model.encode(pieces.bytes, piece, into: &ids) }
    case .unigram(let model):
      for piece in pieces.ranges { model.encode(pieces.bytes, piece, into: &ids) }
    case .wordLevel(let vocabulary, let unknown):
      for piece in pieces.ranges {
        if let id = vocabulary.id(of: pieces.bytes, piece) ?? unknown { ids.append(id) }
      }
    }
  }
}
