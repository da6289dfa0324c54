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
    let others: OtherModels
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
  private let weights: WeightFiles
  private let files: any FileSystem
  private let state = Monitor(State())

  /// Seconds of rest after each piece of a mebibyte, which takes some four to hash.
  private static let (idleRest, busyRest) = (0.004, 0.03)
  /// Seconds that files must have been left alone before they are hashed: see `KnownWeights`.
  private static let settling = 0.1
  private static let changed = "a file of the weights was changed or replaced since it was loaded"

  init(
    folder: String, limit: Int, names: BlockNames, bytesPerBlock: Int, weights: WeightFiles,
    files: any FileSystem
  ) {
    self.folder = folder
    self.limit = limit
    self.names = names
    self.bytesPerBlock = bytesPerBlock
    self.weights = weights
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
    try others.find(besides: own)
    others.shrink(to: limit / 2)
    let prefixes = try PrefixFolder(
      path: folder + "/" + own, limit: max(0, limit - others.bytes), payloadBytes: bytesPerBlock, files: files
    )
    Log.info(
      "prefixes on disk",
      ["folder": prefixes.path, "blocks": "\(prefixes.count)", "bytes": "\(prefixes.bytes)"])
    let place = Place(folder: prefixes, others: others)
    state.update { state in
      if case .waiting = state.phase { state.phase = .open(place) }
    }
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

  /// The folder, once it is open.
  var prefixes: PrefixFolder? {
    state.withLock { state in
      if case .open(let place) = state.phase { place.folder } else { nil }
    }
  }

  /// The folder as long as the weights are still what its blocks were computed with.
  var usable: PrefixFolder? {
    guard let prefixes else { return nil }
    let areUnchanged = weights.areUnchanged
    if areUnchanged == false { close(because: Self.changed) }
    return areUnchanged == true ? prefixes : nil
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
