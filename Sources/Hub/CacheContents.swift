// What is in the cache: repositories, the bytes that they take, and how to take them away again.

import Platform

extension HubCache {
  /// Repositories of models, by name.
  package func repositories() -> [RepositoryName] {
    ((try? File.names(in: root)) ?? []).compactMap { RepositoryName(folder: $0) }
  }

  /// A snapshot that is there.
  package struct Snapshot: Sendable {
    package let repository: RepositoryName
    package let commit: String
    /// Names of revisions that are this commit.
    package let revisions: [String]
    package let folder: String
    /// Of the files, each once, whoever else shares them.
    package let bytes: Int
    package let state: State
    /// Seconds since 1970 when one of its files was last read, as far as the file system notes it.
    package let used: Double
  }

  /// The snapshots of a repository; one without a commit for a download that has left only blobs.
  package func snapshots(_ repository: RepositoryName) -> [Snapshot] {
    let revisions = revisions(repository)
    let found = commits(repository).map { commit in
      let place = snapshot(repository, commit: commit)
      var bytes: [[UInt64]: Int] = [:]
      var used = 0.0
      for path in Self.files(below: place) {
        guard let facts = File.status(path), facts.kind == .file else { continue }
        bytes[facts.identity] = facts.bytes
        used = max(used, facts.used)
      }
      return Snapshot(
        repository: repository, commit: commit,
        revisions: revisions.filter { $0.commit == commit }.map(\.name),
        folder: place, bytes: bytes.values.sumOfSizes, state: state(repository, commit: commit), used: used)
    }
    guard found.isEmpty, let facts = Self.sum(of: folder(repository) + "/blobs"), facts.bytes > 0 else {
      return found
    }
    return [
      Snapshot(
        repository: repository, commit: "", revisions: revisions.map(\.name), folder: folder(repository),
        bytes: facts.bytes, state: .partial(nil), used: facts.used)
    ]
  }

  private static func sum(of folder: String) -> (bytes: Int, used: Double)? {
    guard let names = try? File.names(in: folder) else { return nil }
    let facts = names.compactMap { File.status(folder + "/" + $0) }
    return (facts.map(\.bytes).sumOfSizes, facts.map(\.used).max() ?? 0)
  }

  /// Paths of all that is no folder.
  static func files(below folder: String, depth: Int = 0) -> [String] {
    guard depth < 32 else { return [] }
    return ((try? File.names(in: folder)) ?? []).flatMap { name -> [String] in
      let path = folder + "/" + name
      return File.status(path, followingLinks: false)?.kind == .folder
        ? files(below: path, depth: depth + 1) : [path]
    }
  }
}

/// What a removal takes away.
package struct CacheRemoval: Sendable {
  private let cache: HubCache
  package let repository: RepositoryName
  /// The commits that go; nil when the repository goes as a whole.
  private let commits: [String]?
  /// What goes, as a person is told.
  package let words: String
  /// Files and links that go.
  private let paths: [String]
  /// Bytes that become free.
  package let bytes: Int

  /// Looks at what would go; nothing goes yet.
  ///
  /// - Parameter reference: without a revision, all of the repository.
  /// - Throws: when it is not in the cache.
  package init(_ reference: ModelReference, in cache: HubCache) throws(HubError) {
    self.cache = cache
    repository = reference.repository
    if let quantization = reference.quantization {
      throw .badName(
        repository.text + ":" + quantization,
        problem: "what goes is all of a repository: leave ':\(quantization)' out, or delete the file")
    }
    let folder = cache.folder(repository)
    guard File.isDirectory(folder) else { throw .badName(repository.text, problem: "it is not in the cache") }
    let name = reference.repository
    guard let revision = reference.revision else {
      commits = nil
      words = "\(repository.text), all of it"
      paths = HubCache.files(below: folder)
      bytes = Self.ownBytes(paths)
      return
    }
    guard let commit = cache.commit(of: reference), cache.commits(name).contains(commit) else {
      throw .noRevision(revision, name, known: cache.revisions(name).map(\.name) + cache.commits(name))
    }
    commits = [commit]
    words = "\(repository.text) at \(commit.prefix(7))"
    // Blobs that no other snapshot needs.
    let others = cache.commits(name).filter { $0 != commit }
    let needed = Set(
      others.flatMap { HubCache.files(below: cache.snapshot(name, commit: $0)) }.compactMap(Self.blobName))
    let own = HubCache.files(below: cache.snapshot(name, commit: commit))
    let blobs = Set(own.compactMap(Self.blobName)).subtracting(needed).map { folder + "/blobs/" + $0 }
    paths = own + blobs + [folder + "/trees/\(commit).json"]
    bytes = Self.ownBytes(own + blobs)
  }

  /// The digest that a link of a snapshot leads to.
  private static func blobName(_ path: String) -> String? {
    guard let parts = File.linkTarget(path)?.split(separator: "/"), parts.count >= 2,
      parts[parts.count - 2] == "blobs"
    else { return nil }
    return parts.last.map(String.init)
  }

  /// A link takes nothing: what it leads to belongs to others too, or is counted itself.
  private static func ownBytes(_ paths: [String]) -> Int {
    var bytes: [[UInt64]: Int] = [:]
    for path in paths {
      guard let facts = File.status(path, followingLinks: false), facts.kind == .file else { continue }
      bytes[facts.identity] = facts.bytes
    }
    return bytes.values.sumOfSizes
  }

  /// Takes it away.
  ///
  /// - Throws: `inUse` when a server of this machine has it.
  package func run() throws(HubError) {
    do {
      let lock = cache.use(repository)
      let held = File.exists(lock) ? try FileLock.take(lock) : nil
      if held == nil, File.exists(lock) {
        let who = FileLock.holders(of: lock).map(String.init).joined(separator: ", ")
        throw HubError.inUse(
          "\(repository.text) is in use" + (who.isEmpty ? "" : " by process \(who)")
            + "; end that server first")
      }
      defer { withExtendedLifetime(held) {} }
      let folder = cache.folder(repository)
      let shared = HubCache.files(below: folder + "/blobs").compactMap(SharedBlob.init)
      guard let commits else {
        try File.removeAll(folder)
        for blob in shared { blob.removeIfUnneeded(below: cache.root) }
        for commit in receipts() { try File.removeAll(commit) }
        return
      }
      for commit in commits {
        for revision in cache.revisions(repository) where revision.commit == commit {
          try File.removeAll(folder + "/refs/" + revision.name)
        }
        try File.removeAll(cache.snapshot(repository, commit: commit))
        for receipt in receipts() where receipt.hasSuffix("mlxserve-\(commit).files") {
          try File.removeAll(receipt)
        }
      }
      for path in paths { try File.removeAll(path) }
      for blob in shared where !File.exists(blob.link) { blob.removeIfUnneeded(below: cache.root) }
    } catch let error as PlatformError {
      throw .disk(error)
    } catch let error as HubError {
      throw error
    } catch {
      throw .cancelled
    }
  }

  /// What this program has noted beside the locks.
  private func receipts() -> [String] {
    let folder = cache.root + "/.locks/" + repository.folder
    return ((try? File.names(in: folder)) ?? []).filter {
      $0.hasPrefix("mlxserve-") && $0.hasSuffix(".files")
    }
    .map { folder + "/" + $0 }
  }
}

/// A blob that is a link into the store that repositories share (`blobs/<2 digits>/<hash>` beside them). A list of who
/// needs it stands beside it; without that list, or where it cannot be read, the bytes stay.
private struct SharedBlob {
  /// Where the repository had it.
  let link: String
  private let entry: String

  init?(_ path: String) {
    guard let target = File.linkTarget(path), target.contains("/blobs/") || target.hasPrefix("../../blobs/"),
      let entry = File.resolved(path)
    else { return nil }
    link = path
    self.entry = entry
  }

  func removeIfUnneeded(below root: String) {
    guard let base = File.resolved(root), entry.hasPrefix(base + "/blobs/"),
      // A store of another kind has other rules.
      let marker = try? File.read(base + "/blobs/.huggingface-shared-blobs", limit: 100),
      marker.filter({ $0 > 0x20 }).elementsEqual("1".utf8),
      let lock = try? FileLock.take(entry + ".lock"),
      let list = try? File.read(entry + ".refs", limit: 16 << 20)
    else { return }
    defer { withExtendedLifetime(lock) {} }
    let isNeeded = list.split(separator: 10).contains { line in
      let path = String(decoding: line, as: UTF8.self)
      guard let found = File.resolved(path.hasPrefix("/") ? path : base + "/" + path) else { return false }
      return found.utf8.elementsEqual(entry.utf8)
    }
    guard !isNeeded else { return }
    try? File.removeAll(entry)
    try? File.removeAll(entry + ".refs")
  }
}
