// What was found of the leaves of one grammar.

import Synchronization

/// Kept by place; all is forgotten when it would take more bytes than allowed.
final class LeafCache: Sendable {
  struct Key: Hashable {
    var leaf: Int32
    var state: Int32
    /// Characters that must still come, and that may still come, as far as one token can tell.
    var missing: Int32
    var left: Int32
  }

  private struct Content {
    var masks: [Key: LeafMask] = [:]
    var costs: [Key: LeafCosts] = [:]
    var reaches: [Int32: SliceReach] = [:]
    /// States that are left at the same nodes share what follows.
    var leaving: [[Int32]: LeafExits] = [:]
    /// Nil of those that differ much from all shared ones.
    var deltas: [Int32: AutomatonDelta?] = [:]
    var bytes = 0
  }

  private let content = Mutex(Content())

  var byteCount: Int { content.withLock { $0.bytes } }

  func forget() { content.withLock { $0 = Content() } }

  /// The mask, if it was made.
  func mask(_ key: Key) -> LeafMask? { content.withLock { $0.masks[key] } }

  /// - Parameters:
  ///   - isShared: whether others keep it, too.
  ///   - limit: most bytes.
  func keep(_ mask: LeafMask, _ key: Key, isShared: Bool, limit: Int) -> LeafMask {
    keep(isShared ? 64 : mask.byteCount, limit) { $0.masks.updateValue(mask, forKey: key) == nil }
    return mask
  }

  // Each is made without the lock; two threads may both make the same.

  func costs(_ key: Key, limit: Int, make: () -> LeafCosts) -> LeafCosts {
    if let known = content.withLock({ $0.costs[key] }) { return known }
    let made = make()
    keep(made.byteCount, limit) { $0.costs.updateValue(made, forKey: key) == nil }
    return made
  }

  func reach(_ leaf: Int32, _ dfa: ByteDFA, limit: Int) -> SliceReach {
    if let known = content.withLock({ $0.reaches[leaf] }) { return known }
    let made = SliceReach(dfa)
    keep(made.byteCount, limit) { $0.reaches.updateValue(made, forKey: leaf) == nil }
    return made
  }

  /// What follows nodes of the trie.
  func leaving(_ exits: [Int32], _ vocabulary: GrammarVocabulary, limit: Int) -> LeafExits {
    if let known = content.withLock({ $0.leaving[exits] }) { return known }
    let made = LeafExits(exits, vocabulary: vocabulary)
    keep(made.byteCount, limit) { $0.leaving.updateValue(made, forKey: exits) == nil }
    return made
  }

  /// What an automaton differs in from a shared one; nil where that is much.
  func delta(_ leaf: Int32, _ dfa: ByteDFA, limit: Int) -> AutomatonDelta? {
    if let known = content.withLock({ $0.deltas[leaf] }) { return known }
    let made = AutomatonDelta(dfa)
    keep(made?.byteCount ?? 64, limit) { $0.deltas.updateValue(made, forKey: leaf) == nil }
    return made
  }

  /// - Parameter add: adds to the content; false where it is there already.
  private func keep(_ bytes: Int, _ limit: Int, _ add: (inout Content) -> Bool) {
    content.withLock { content in
      if content.bytes + bytes > limit { content = Content() }
      if add(&content) { content.bytes += bytes }
    }
  }
}
