// Separates reasoning from the rest of a reply.

/// The markers around reasoning.
struct ReasoningMarkers: Sendable {
  let open: [UInt8]
  let close: [UInt8]
  /// A word right after the opening marker that belongs to it: Gemma's channel name and newline.
  let label: [UInt8]
  /// Whether reasoning may open anywhere, or only at the beginning of a reply. The markers that are plain words
  /// may well be talked about in content.
  let opensAnywhere: Bool

  init(_ reasoning: OutputFormat.Reasoning) {
    switch reasoning {
    case .think: self.init("<think>", "</think>", label: "", opensAnywhere: false)
    case .brackets: self.init("[THINK]", "[/THINK]", label: "", opensAnywhere: false)
    case .channel: self.init("<|channel>", "<channel|>", label: "thought\n", opensAnywhere: true)
    }
  }

  private init(_ open: String, _ close: String, label: String, opensAnywhere: Bool) {
    self.open = Array(open.utf8)
    self.close = Array(close.utf8)
    self.label = Array(label.utf8)
    self.opensAnywhere = opensAnywhere
  }

  /// Whether a prompt ends with the opening of reasoning.
  func isOpen(atEndOf prompt: String) -> Bool {
    var tail = Array(prompt.utf8.suffix(256))
    while let last = tail.last, Bytes.isSpace(last) { tail.removeLast() }
    let word = label.filter { !Bytes.isSpace($0) }
    if !word.isEmpty, tail.count >= word.count, tail.suffix(word.count).elementsEqual(word) {
      tail.removeLast(word.count)
    }
    return tail.count >= open.count && tail.suffix(open.count).elementsEqual(open)
  }
}

/// The first stage of `OutputParser`.
struct ReasoningSplitter: Sendable {
  struct Piece: Equatable {
    let isReasoning: Bool
    let bytes: [UInt8]
  }

  private enum State {
    /// Nothing but whitespace so far.
    case beginning
    /// Behind an opening marker: its label and whitespace are dropped.
    case opening
    case inside
    /// Behind a closing marker: whitespace is dropped.
    case closed
    case content
  }

  private let markers: ReasoningMarkers
  private var state: State
  /// Text not given out yet: whitespace that may turn out to be none, then the beginning of a marker.
  private var held: ArraySlice<UInt8> = []

  init(_ markers: ReasoningMarkers, startsInside: Bool) {
    self.markers = markers
    state = startsInside ? .opening : .beginning
  }

  var isInside: Bool {
    switch state {
    case .opening, .inside: true
    case .beginning, .closed, .content: false
    }
  }

  mutating func feed(_ bytes: [UInt8]) -> [Piece] {
    held += bytes
    return advance(isLast: false)
  }

  mutating func finish() -> [Piece] {
    advance(isLast: true)
  }

  private mutating func advance(isLast: Bool) -> [Piece] {
    var pieces: [Piece] = []
    while step(isLast, &pieces) {}
    return pieces
  }

  /// One move; false when more text is needed.
  private mutating func step(_ isLast: Bool, _ pieces: inout [Piece]) -> Bool {
    switch state {
    case .beginning, .closed: return begin(isLast)
    case .opening: return dropOpening(isLast)
    case .inside: return giveReasoning(isLast, &pieces)
    case .content: return giveContent(isLast, &pieces)
    }
  }

  /// Decides at the first text that is not whitespace.
  private mutating func begin(_ isLast: Bool) -> Bool {
    let isClosed = if case .closed = state { true } else { false }
    guard let first = held.firstIndex(where: { !Bytes.isSpace($0) }) else {
      if isClosed { held = [] }
      if isLast, !isClosed { state = .content }
      return isLast && !isClosed && !held.isEmpty
    }
    if isClosed { held = held[first...] }
    let text = held[first...]
    let mayOpen = !isClosed || markers.opensAnywhere
    if mayOpen, text.starts(with: markers.open) {
      held = text.dropFirst(markers.open.count)
      state = .opening
      return true
    }
    if mayOpen, !isLast, text.count < markers.open.count, markers.open.starts(with: text) { return false }
    state = .content
    return true
  }

  private mutating func dropOpening(_ isLast: Bool) -> Bool {
    let first = held.firstIndex { !Bytes.isSpace($0) } ?? held.endIndex
    let text = held[first...]
    // The label ends with the newline that makes it a label.
    if !markers.label.isEmpty, text.starts(with: markers.label) {
      held = text.dropFirst(markers.label.count)
      return true
    }
    if text.isEmpty || (!isLast && text.count < markers.label.count && markers.label.starts(with: text)) {
      if isLast { held = [] }
      return false
    }
    held = text
    state = .inside
    return true
  }

  private mutating func giveReasoning(_ isLast: Bool, _ pieces: inout [Piece]) -> Bool {
    if let end = Bytes.find(markers.close, in: held) {
      give(Bytes.trimmedEnd(held[..<end]), isReasoning: true, &pieces)
      held = held[(end + markers.close.count)...]
      state = .closed
      return true
    }
    let keep = isLast ? 0 : Bytes.heldBack(of: held, before: markers.close)
    let certain = Bytes.trimmedEnd(held.dropLast(keep))
    give(certain, isReasoning: true, &pieces)
    held = held.dropFirst(certain.count)
    if isLast { held = [] }
    return false
  }

  private mutating func giveContent(_ isLast: Bool, _ pieces: inout [Piece]) -> Bool {
    guard markers.opensAnywhere else {
      give(held, isReasoning: false, &pieces)
      held = []
      return false
    }
    if let start = Bytes.find(markers.open, in: held) {
      give(Bytes.trimmedEnd(held[..<start]), isReasoning: false, &pieces)
      held = held[(start + markers.open.count)...]
      state = .opening
      return true
    }
    let keep = isLast ? 0 : Bytes.heldBack(of: held, before: markers.open)
    let sure = held.dropLast(keep)
    let certain = isLast ? sure : Bytes.trimmedEnd(sure)
    give(certain, isReasoning: false, &pieces)
    held = held.dropFirst(certain.count)
    return false
  }

  private func give(_ bytes: ArraySlice<UInt8>, isReasoning: Bool, _ pieces: inout [Piece]) {
    if !bytes.isEmpty { pieces.append(Piece(isReasoning: isReasoning, bytes: Array(bytes))) }
  }
}
