// Separates reasoning from the rest of a reply.

/// The first stage of `OutputParser`.
struct ReasoningSplitter: Sendable {
  struct Piece: Equatable {
    let isReasoning: Bool
    let bytes: [UInt8]
  }

  private enum State {
    /// Nothing but whitespace so far.
    case beginning
    /// After an opening marker: its label and whitespace are dropped.
    case opening
    case inside
    /// After a closing marker: whitespace is dropped.
    case closed
    case content
  }

  private let open: [UInt8]
  private let close: [UInt8]
  private let label: [UInt8]
  private let opensAnywhere: Bool
  private var state: State
  /// Whitespace that may turn out to be none, then the beginning of a marker. No marker begins with whitespace.
  private var held = HeldText()

  init(_ markers: ReasoningMarkers, startsInside: Bool) {
    open = Array(markers.open.utf8)
    close = Array(markers.close.utf8)
    label = Array(markers.label.utf8)
    opensAnywhere = markers.opensAnywhere
    state = startsInside ? .opening : .beginning
  }

  mutating func feed(_ bytes: [UInt8]) -> [Piece] {
    held.append(bytes)
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
    if isClosed { held.dropSpace() }
    let text = held.text()
    guard !text.isEmpty else {
      if isLast, !isClosed { state = .content }
      return isLast && !isClosed && !held.isEmpty
    }
    let mayOpen = !isClosed || opensAnywhere
    if mayOpen, text.starts(with: open) {
      held.drop(before: text.startIndex + open.count)
      state = .opening
      return true
    }
    if mayOpen, !isLast, text.count < open.count, open.starts(with: text) { return false }
    state = .content
    return true
  }

  private mutating func dropOpening(_ isLast: Bool) -> Bool {
    held.dropSpace()
    let text = held.text()
    // The label ends with the newline that makes it a label.
    if !label.isEmpty, text.starts(with: label) {
      held.drop(before: text.startIndex + label.count)
      return true
    }
    if text.isEmpty || (!isLast && text.count < label.count && label.starts(with: text)) { return false }
    state = .inside
    return true
  }

  private mutating func giveReasoning(_ isLast: Bool, _ pieces: inout [Piece]) -> Bool {
    let text = held.text()
    if let end = Bytes.find(close, in: text) {
      give(Bytes.trimmedEnd(held.bytes[..<end]), isReasoning: true, &pieces)
      held.drop(before: end + close.count)
      state = .closed
      return true
    }
    let certain = held.certain(keeping: isLast ? 0 : Bytes.heldBack(of: text, before: close))
    give(certain, isReasoning: true, &pieces)
    held.drop(before: certain.endIndex)
    if isLast { held.removeAll() }
    return false
  }

  private mutating func giveContent(_ isLast: Bool, _ pieces: inout [Piece]) -> Bool {
    guard opensAnywhere else {
      give(held.bytes, isReasoning: false, &pieces)
      held.removeAll()
      return false
    }
    let text = held.text()
    if let start = Bytes.find(open, in: text) {
      give(Bytes.trimmedEnd(held.bytes[..<start]), isReasoning: false, &pieces)
      held.drop(before: start + open.count)
      state = .opening
      return true
    }
    let certain =
      isLast ? held.bytes : held.certain(keeping: Bytes.heldBack(of: text, before: open))
    give(certain, isReasoning: false, &pieces)
    held.drop(before: certain.endIndex)
    return false
  }

  private func give(_ bytes: ArraySlice<UInt8>, isReasoning: Bool, _ pieces: inout [Piece]) {
    if !bytes.isEmpty { pieces.append(Piece(isReasoning: isReasoning, bytes: Array(bytes))) }
  }
}
