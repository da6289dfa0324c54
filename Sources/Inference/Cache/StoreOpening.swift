// When saved prefixes may be used: once it is certain whose they are.
//
// Blocks lie in a folder that is named by every byte of the weights. Where the files have not been touched since they
// were hashed, the name is known at once. Otherwise a thread hashes them while the server works: at a moderate pace
// while it is idle, and at a slow one while it computes, for there is no lower priority that every sandbox allows.

import Checkpoint
import Compute
import Platform

/// What a model is: the files of its weights, and everything else.
struct ModelContent: Sendable {
  /// A digest of config.json, and of tensors' names, types and shapes.
  var outline: [UInt8] = []
  var weights = WeightFiles()
}

/// Used by the engine's thread, the writer's and that which hashes.
final class StoreOpening: Sendable {
  /// Where the blocks are, and what is to be deleted there.
  struct Place: Sendable {
    let folder: PrefixFolder
    /// The states after some of the blocks, by the same names; nil for models without recurrent layers.
    let states: PrefixFolder?
    let others: OtherModels

    /// Whether a block, and the state that memory has after it, are there.
    func holds(_ record: PrefixCache.Record) -> Bool {
      folder.contains(record.name) && (record.state == nil || states?.contains(record.name) == true)
    }

    /// - Returns: false when the disk did not take it.
    @discardableResult
    func write(_ block: PrefixBlock) -> Bool {
      guard folder.write(block) else { return false }
      guard let state = block.state, let states else { return true }
      return states.write(
        PrefixBlock(name: block.name, parent: block.parent, tokens: block.tokens, payload: state))
    }
  }

  private enum Phase: Sendable {
    case waiting
    case open(Place)
    /// Nothing is read or written any more.
    case closed
  }

  private struct State: Sendable {
    var phase = Phase.waiting
    /// Whether the engine computes.
    var isBusy = false
  }

  private let folder: String
  private let limit: Int
  private let names: BlockNames
  private let bytesPerBlock: Int
  /// 0 for models without recurrent layers.
  private let bytesPerState: Int
  private let weights: WeightFiles
  private let files: any FileSystem
  private let state = Monitor(State())

  /// Seconds of rest after each piece of a mebibyte, which takes some four to hash.
  private static let (idleRest, busyRest) = (0.004, 0.03)
  /// Seconds that files must have been left alone before they are hashed: see `KnownWeights`.
  private static let settling = 0.1
  private static let changed = "a file of the weights was changed or replaced since it was loaded"

  init(
    folder: String, limit: Int, names: BlockNames, bytesPerBlock: Int, bytesPerState: Int,
    weights: WeightFiles, files: any FileSystem
  ) {
    (self.folder, self.limit, self.names) = (folder, limit, names)
    (self.bytesPerBlock, self.bytesPerState, self.weights) = (bytesPerBlock, bytesPerState, weights)
    self.files = files
  }

  private var known: KnownWeights { KnownWeights(folder: folder, files: files) }

  /// The digest of the weights, where it takes no time.
  var knownDigest: [UInt8]? {
    weights.bytes == 0 ? SHA256.digest([]) : known.digest(of: weights)
  }

  /// Opens the folder of these weights, and makes room by deleting what other models have left there longest.
  ///
  /// - Throws: when a folder cannot be used; `EWOULDBLOCK` when another process uses that of these weights.
  func open(_ digest: [UInt8]) throws(PlatformError) {
    let own = Self.folderName(names, digest)
    var others = OtherModels(folder: folder, files: files)
    let ofStates = Self.folderName(names, digest + Array("states".utf8))
    try others.find(besides: [own, ofStates])
    others.shrink(to: limit / 2)
    let left = max(0, limit - others.bytes)
    let forStates = Self.share(of: left, bytesPerBlock: bytesPerBlock, bytesPerState: bytesPerState)
    let prefixes = try PrefixFolder(
      path: folder + "/" + own, limit: left - forStates, payloadBytes: bytesPerBlock, files: files)
    let states =
      bytesPerState == 0
      ? nil
      : try PrefixFolder(
        path: folder + "/" + ofStates, limit: forStates, payloadBytes: bytesPerState, files: files)
    Log.info(
      "prefixes on disk",
      ["folder": prefixes.path, "blocks": "\(prefixes.count)", "bytes": "\(prefixes.bytes)"])
    let place = Place(folder: prefixes, states: states, others: others)
    state.update { state in
      if case .waiting = state.phase { state.phase = .open(place) }
    }
  }

  /// What states may take of a limit: as much as one for every eight blocks, which is how often one is kept of a long text.
  private static func share(of limit: Int, bytesPerBlock: Int, bytesPerState: Int) -> Int {
    guard bytesPerState > 0 else { return 0 }
    return Int(Double(limit) * Double(bytesPerState) / (Double(bytesPerState) + 8 * Double(bytesPerBlock)))
  }

  /// What the folder of some weights is called.
  static func folderName(_ names: BlockNames, _ digest: [UInt8]) -> String {
    var hash = SHA256()
    hash.update(names.model)
    hash.update(digest)
    return String(SHA256.hexadecimal(hash.finish()).prefix(32))
  }

  // MARK: The background

  /// Hashes the weights, then opens their folder; where that fails, prefixes stay in memory.
  func hashAndOpen() {
    Log.info("the weights are hashed before saved prefixes are used", ["bytes": "\(weights.bytes)"])
    do throws(PlatformError) {
      guard rest(Self.settling) else { return }
      let start = Instant.wallNanoseconds
      guard let digest = try weights.digest(goOn: { _ in rest(restAfterPiece) }) else {
        return close(because: Self.changed)
      }
      known.remember(digest, of: weights, since: start)
      try open(digest)
    } catch {
      close(because: "\(error)")
    }
  }

  private var restAfterPiece: Double { state.withLock { $0.isBusy } ? Self.busyRest : Self.idleRest }

  /// False when the store is to close.
  private func rest(_ seconds: Double) -> Bool {
    let isClosed: Bool? = state.wait(until: Instant.now.adding(seconds: seconds)) { state in
      if case .closed = state.phase { true } else { nil }
    }
    return isClosed == nil
  }

  // MARK: Use

  /// Where the blocks are, once it is open.
  var place: Place? {
    state.withLock { state in
      if case .open(let place) = state.phase { place } else { nil }
    }
  }

  /// The folder, once it is open.
  var prefixes: PrefixFolder? { place?.folder }

  /// The place as long as the weights are still what its blocks were computed with.
  var usable: Place? {
    guard let place else { return nil }
    let areUnchanged = weights.areUnchanged
    if areUnchanged == false { close(because: Self.changed) }
    return areUnchanged == true ? place : nil
  }

  /// Waits until the folder is open; nil when it will not be.
  func wait() -> Place? {
    state.wait { state -> Place?? in
      switch state.phase {
      case .waiting: nil
      case .open(let place): .some(place)
      case .closed: .some(nil)
      }
    } ?? nil
  }

  /// Whether the engine computes: hashing gives way to it.
  func note(isBusy: Bool) { state.withLock { $0.isBusy = isBusy } }

  /// Ends the hash; a folder that is open stays so.
  func stop() {
    state.update { state in
      if case .waiting = state.phase { state.phase = .closed }
    }
  }

  private func close(because reason: String) {
    let isNews = state.update { state in
      if case .closed = state.phase { return false }
      state.phase = .closed
      return true
    }
    if isNews { Log.warning("prefixes are kept in memory only", ["because": reason]) }
  }
}
