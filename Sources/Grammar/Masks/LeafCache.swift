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
    /// What the mask says nothing of.
    var covered: PlainSet?
  }

  private struct Content {
    var masks: [Key: LeafMask] = [:]
    var costs: [Key: LeafCosts] = [:]
    var reaches: [Int32: PlainReach] = [:]
    /// States that are left at the same nodes share what follows.
    var leaving: [[Int32]: LeafExits] = [:]
    /// Masks of kindred states by what follows them.
    var shared: [[Int32]: LeafMask] = [:]
    /// Nil of those that have no kin.
    var kindred: [Int32: KindredStates?] = [:]
    var bytes = 0
  }

  private let content = Mutex(Content())

  var byteCount: Int { content.withLock { $0.bytes } }

  func forget() { content.withLock { $0 = Content() } }

  // Each is made without the lock; two threads may both make the same.

  /// - Parameters:
  ///   - limit: most bytes.
  ///   - make: the mask, and whether others keep it, too.
  func mask(_ key: Key, limit: Int, make: () -> (mask: LeafMask, isShared: Bool)) -> LeafMask {
    if let known = content.withLock({ $0.masks[key] }) { return known }
    let (made, isShared) = make()
    keep(isShared ? 64 : made.byteCount, limit) { $0.masks.updateValue(made, forKey: key) == nil }
    return made
  }

  /// The mask, if it was made.
  func known(_ key: Key) -> LeafMask? { content.withLock { $0.masks[key] } }

  func costs(_ key: Key, limit: Int, make: () -> LeafCosts) -> LeafCosts {
    if let known = content.withLock({ $0.costs[key] }) { return known }
    let made = make()
    keep(made.byteCount, limit) { $0.costs.updateValue(made, forKey: key) == nil }
    return made
  }

  func reach(_ leaf: Int32, _ dfa: ByteDFA, limit: Int) -> PlainReach {
    if let known = content.withLock({ $0.reaches[leaf] }) { return known }
    let made = PlainReach(dfa)
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

  /// The mask of a state that differs little from a common one, or not at all; nil where it differs much.
  func mask(of state: Int32, _ kin: KindredStates, _ vocabulary: GrammarVocabulary, limit: Int) -> LeafMask? {
    if let shared = kin.shared(state), let mask = vocabulary.mask(shared) { return mask }
    guard let signature = kin.signature(at: state) else { return kin.mask(of: state, vocabulary) }
    if let known = content.withLock({ $0.shared[signature] }) { return known }
    guard let made = kin.mask(of: state, vocabulary) else { return nil }
    keep(made.byteCount + signature.count * 4, limit) {
      $0.shared.updateValue(made, forKey: signature) == nil
    }
    return made
  }

  /// The states of an automaton beside a common one's; nil where it has no kin.
  func kindred(_ leaf: Int32, _ dfa: ByteDFA, limit: Int) -> KindredStates? {
    if let known = content.withLock({ $0.kindred[leaf] }) { return known }
    let made = KindredStates(dfa)
    keep(made?.byteCount ?? 64, limit) { $0.kindred.updateValue(made, forKey: leaf) == nil }
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
