// Finds the first stop string in streamed text, and holds back what may become one.
//
// The stop strings form an Aho-Corasick automaton over UTF-8 bytes: after each byte its state is the longest
// suffix of the text that begins a stop string. That suffix is what must be held back, and the work per byte
// is constant however many stop strings there are and however the text is cut into pieces.

/// The result is that of searching the whole text: the match that begins first wins, among matches that begin
/// together the shortest. Text before it is released, the match and all that follows never is.
package struct StopMatcher: Sendable {
  /// A prefix of at least one stop string. The root is the empty prefix.
  private struct Node: Sendable {
    let byte: UInt8
    let depth: Int
    /// The first of the nodes one byte longer, and the next node with the same parent; 0 for none.
    var firstChild = 0
    var nextSibling = 0
    /// The longest proper suffix that is a node too.
    var fallback = 0
    /// The longest stop string that ends here: its index in `stops`.
    var stop: Int?
  }

  private let stops: [String]
  private var nodes = [Node(byte: 0, depth: 0)]
  private var state = 0
  /// Text not released yet is `pending[released...]`.
  private var pending: [UInt8] = []
  private var released = 0
  /// The best match so far, whose end has been read while an earlier beginning is still possible.
  private var match: (start: Int, stop: Int)?
  /// The stop string that ended the text.
  package private(set) var stopped: String?

  /// - Parameter stops: empty strings are ignored.
  package init(stops: [String]) {
    self.stops = stops
    for (index, stop) in stops.enumerated() { insert(Array(stop.utf8), index: index) }
    linkFallbacks()
  }

  private mutating func insert(_ bytes: [UInt8], index: Int) {
    guard !bytes.isEmpty else { return }
    var at = 0
    for byte in bytes {
      if let next = child(of: at, byte) {
        at = next
      } else {
        nodes.append(Node(byte: byte, depth: nodes[at].depth + 1, nextSibling: nodes[at].firstChild))
        nodes[at].firstChild = nodes.count - 1
        at = nodes.count - 1
      }
    }
    nodes[at].stop = nodes[at].stop ?? index
  }

  private func child(of node: Int, _ byte: UInt8) -> Int? {
    var next = nodes[node].firstChild
    while next != 0 {
      if nodes[next].byte == byte { return next }
      next = nodes[next].nextSibling
    }
    return nil
  }

  /// Breadth first, so that the fallbacks of shorter prefixes are known.
  private mutating func linkFallbacks() {
    var queue = [0]
    var at = 0
    while at < queue.count {
      let parent = queue[at]
      at += 1
      var node = nodes[parent].firstChild
      while node != 0 {
        let fallback = parent == 0 ? 0 : advance(from: nodes[parent].fallback, nodes[node].byte)
        nodes[node].fallback = fallback
        nodes[node].stop = nodes[node].stop ?? nodes[fallback].stop
        queue.append(node)
        node = nodes[node].nextSibling
      }
    }
  }

  private func advance(from start: Int, _ byte: UInt8) -> Int {
    var node = start
    while true {
      if let next = child(of: node, byte) { return next }
      if node == 0 { return 0 }
      node = nodes[node].fallback
    }
  }

  /// Takes the next piece of text.
  ///
  /// - Returns: the text that can no longer belong to a stop string, and the stop string once one has been
  ///   found. After that all further text is dropped.
  package mutating func feed(_ text: String) -> (text: String, stopped: String?) {
    if let stopped { return ("", stopped) }
    for byte in text.utf8 {
      pending.append(byte)
      state = advance(from: state, byte)
      let end = pending.count
      if let stop = nodes[state].stop {
        let start = end - stops[stop].utf8.count
        if start < match?.start ?? .max { match = (start, stop) }
      }
      // A stop string in progress that began before the match may still complete.
      if let match, end - nodes[state].depth >= match.start { return (take(match), stopped) }
    }
    return (release(upTo: pending.count - nodes[state].depth), nil)
  }

  /// Ends the text: what was held back is released, up to a stop string if there is one after all.
  package mutating func finish() -> String {
    guard stopped == nil else { return "" }
    if let match { return take(match) }
    return release(upTo: pending.count)
  }

  private mutating func take(_ match: (start: Int, stop: Int)) -> String {
    stopped = stops[match.stop]
    let text = release(upTo: match.start)
    pending = []
    released = 0
    return text
  }

  /// Matches begin and end between code points, so the released text is valid UTF-8.
  private mutating func release(upTo end: Int) -> String {
    guard end > released else { return "" }
    let text = String(decoding: pending[released..<end], as: UTF8.self)
    released = end
    // Dropping the released half at a time keeps the cost per byte constant.
    if released * 2 >= pending.count {
      pending.removeFirst(released)
      if let found = match { match = (found.start - released, found.stop) }
      released = 0
    }
    return text
  }
}
