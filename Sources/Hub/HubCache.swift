// The hub's cache on disk, shared with the hub's own tools: blobs by digest, links to them by commit, names of commits.
//
//   CACHEDIR.TAG
//   .locks/models--owner--name/<digest>.lock        flock; never deleted
//   models--owner--name/blobs/<digest>              SHA-256 of large files, Git's SHA-1 of small ones
//   models--owner--name/refs/main                   40 hexadecimal digits without a line end
//   models--owner--name/snapshots/<commit>/<path>   relative link to the blob
//   models--owner--name/trees/<commit>.json         files of a commit, written by the hub's own tools only: with it and
//                                                   without a file that it lists, they call the snapshot incomplete
//
// A blob may itself be a link into a store that repositories share: it is never written through.

import Checkpoint
import JSON
package import Platform

package struct HubCache: Sendable {
  /// The folder of all repositories.
  package let root: String

  package init(root: String) { self.root = root }

  package func folder(_ repository: RepositoryName) -> String { root + "/" + repository.folder }
  private func locks(_ repository: RepositoryName) -> String { root + "/.locks/" + repository.folder }
  func blob(_ repository: RepositoryName, _ digest: FileDigest) -> String {
    folder(repository) + "/blobs/" + digest.digits
  }
  package func snapshot(_ repository: RepositoryName, commit: String) -> String {
    folder(repository) + "/snapshots/" + commit
  }
  /// The folder of a model all of which is here, or the GGUF file; nil for any other.
  package func wholeSnapshot(of reference: ModelReference) -> String? {
    if let quantization = reference.quantization {
      guard let commit = commit(of: reference) else { return nil }
      let place = snapshot(reference.repository, commit: commit) + "/"
      let paths = Self.files(below: place).map { String($0.dropFirst(place.count)) }
      let files = try? QuantizedFiles.files(quantization, of: paths, reference.repository)
      guard let files, SnapshotCheck.areWhole(files.map { place + $0 }) else { return nil }
      return files.first.map { place + $0 }
    }
    guard let commit = commit(of: reference), state(reference.repository, commit: commit) == .whole else {
      return nil
    }
    return snapshot(reference.repository, commit: commit)
  }
  func lock(_ repository: RepositoryName, _ digest: FileDigest) -> String {
    locks(repository) + "/" + digest.digits + ".lock"
  }

  /// Held by servers for the snapshots that they have mapped, each with others; alone by who removes them.
  package func use(_ repository: RepositoryName) -> String { locks(repository) + "/mlxserve-use.lock" }
  /// Keeps `rm` from taking away a model for as long as the lock is held.
  ///
  /// - Parameter path: of a snapshot or a file in it, or of anything else, for which there is no lock.
  package static func hold(_ path: String) -> FileLock? {
    // A file of a snapshot is a link to a blob.
    let folder = File.isDirectory(path) ? path : File.parent(of: path)
    let parts = (File.resolved(folder) ?? folder).split(separator: "/").map(String.init)
    guard let index = parts.lastIndex(where: { $0.hasPrefix("models--") }), index + 1 < parts.count,
      parts[index + 1] == "snapshots", let repository = RepositoryName(folder: parts[index])
    else { return nil }
    let cache = HubCache(root: "/" + parts[..<index].joined(separator: "/"))
    try? File.makeFolders(cache.locks(repository))
    return try? FileLock.take(cache.use(repository), .shared)
  }

  /// Lists what a finished download of a commit has: `<bytes> <path>` a line.
  private func receipt(_ repository: RepositoryName, _ commit: String) -> String {
    locks(repository) + "/mlxserve-\(commit).files"
  }

  // MARK: Reading

  /// The commit that a revision was when it was last fetched; a commit stands for itself.
  package func commit(of reference: ModelReference) -> String? {
    let revision = reference.revisionName
    if FileDigest.isHexadecimal(revision, count: 40) { return revision }
    if let bytes = written(reference) {
      let commit = String(decoding: bytes.prefix { $0 > 0x20 }, as: UTF8.self)
      return FileDigest.isHexadecimal(commit, count: 40) ? commit : nil
    }
    if revision.utf8.elementsEqual(ModelReference.usualRevision.utf8) {
      return ModelFolder.mainCommit(ofRepository: folder(reference.repository))
    }
    // The beginning of a commit, where it is not ambiguous.
    guard revision.utf8.count >= 7, FileDigest.isHexadecimal(revision, count: revision.utf8.count) else {
      return nil
    }
    let found = commits(reference.repository).filter { $0.hasPrefix(revision) }
    return found.count == 1 ? found[0] : nil
  }

  /// What is written down of a revision; nil for nothing.
  private func written(_ reference: ModelReference) -> [UInt8]? {
    try? File.read(folder(reference.repository) + "/refs/" + reference.revisionName, limit: 200)
  }

  /// Commits with a snapshot.
  package func commits(_ repository: RepositoryName) -> [String] {
    ((try? File.names(in: folder(repository) + "/snapshots")) ?? []).filter {
      FileDigest.isHexadecimal($0, count: 40)
    }
  }

  /// Names of revisions, and the commits they are.
  package func revisions(_ repository: RepositoryName) -> [(name: String, commit: String)] {
    var found: [(String, String)] = []
    func look(_ below: String, depth: Int) {
      for name in (try? File.names(in: folder(repository) + "/refs/" + below)) ?? [] where depth < 8 {
        if File.isDirectory(folder(repository) + "/refs/" + below + name) {
          look(below + name + "/", depth: depth + 1)
        } else if let commit = commit(of: ModelReference(repository, revision: below + name)) {
          found.append((below + name, commit))
        }
      }
    }
    look("", depth: 0)
    return found
  }

  /// What the hub's own tools wrote down of a commit's files; nil when they did not, or it cannot be used.
  func tree(_ repository: RepositoryName, commit: String) -> [RepositoryFile]? {
    guard let bytes = try? File.read(folder(repository) + "/trees/\(commit).json", limit: 64 << 20),
      let value = try? JSONValue(parsing: bytes), value["format_version"]?.intValue == 1,
      let files = value["files"]?.objectValue
    else { return nil }
    var found: [RepositoryFile] = []
    for (path, entry) in files.entries {
      guard let file = try? RepositoryFile.read(path: path, cached: entry) else { return nil }
      found.append(file)
    }
    return found
  }

  /// Whether a commit has a file of that length, as a blob or, on systems without links, in its place.
  func has(_ file: RepositoryFile, of repository: RepositoryName, commit: String) -> Bool {
    [blob(repository, file.digest), snapshot(repository, commit: commit) + "/" + file.path].contains { path in
      guard let facts = File.status(path) else { return false }
      return facts.kind == .file && facts.bytes == file.bytes
    }
  }

  /// How much of a commit is there.
  package enum State: Sendable, Equatable {
    case whole
    /// Per cent, where it is known.
    case partial(Int?)
    /// Nothing is.
    case missing
  }

  /// Judged by what is there: the hub's tools write a revision's name before its files.
  package func state(_ repository: RepositoryName, commit: String) -> State {
    let place = snapshot(repository, commit: commit)
    guard File.isDirectory(place) else { return hasBlobs(repository) ? .partial(nil) : .missing }
    if isReceived(repository, commit: commit) { return .whole }
    return SnapshotCheck(folder: place).isWhole ? .whole : .partial(share(repository, commit: commit))
  }

  private func hasBlobs(_ repository: RepositoryName) -> Bool {
    !((try? File.names(in: folder(repository) + "/blobs")) ?? []).isEmpty
  }

  /// How much of what the hub's own list says.
  private func share(_ repository: RepositoryName, commit: String) -> Int? {
    guard let all = tree(repository, commit: commit),
      let files = try? FileSelection().files(of: all, index: nil, repository)
    else { return nil }
    let total = files.reduce(0) { $0 + $1.bytes }
    let here = files.reduce(0) { $0 + (has($1, of: repository, commit: commit) ? $1.bytes : 0) }
    return total > 0 ? Int(Double(here) / Double(total) * 100) : nil
  }

  /// Whether a download of this program has finished, and its files are still there.
  func isReceived(_ repository: RepositoryName, commit: String) -> Bool {
    guard let bytes = try? File.read(receipt(repository, commit), limit: 64 << 20), !bytes.isEmpty else {
      return false
    }
    let place = snapshot(repository, commit: commit)
    return bytes.split(separator: 10).allSatisfy { line in
      let parts = line.split(separator: UInt8(ascii: " "), maxSplits: 1)
      guard parts.count == 2, let size = Int(String(decoding: parts[0], as: UTF8.self)) else { return false }
      return File.status(place + "/" + String(decoding: parts[1], as: UTF8.self))?.bytes == size
    }
  }

  // MARK: Writing

  /// Makes the folders that a download needs.
  func prepare(_ repository: RepositoryName) throws(HubError) {
    do {
      for path in [
        folder(repository) + "/blobs", folder(repository) + "/snapshots", folder(repository) + "/refs",
        locks(repository),
      ] {
        try File.makeFolders(path)
      }
      let tag = root + "/CACHEDIR.TAG"
      if !File.exists(tag) {
        let words = """
          Signature: 8a477f597d28d172789f06886806bc55
          # This file is a cache directory tag created by mlxserve.
          # For information about cache directory tags, see: https://bford.info/cachedir/

          """
        try File.replace(tag, with: Array(words.utf8))
      }
    } catch {
      throw .disk(error)
    }
  }

  /// Links a file of a snapshot to its blob; where links cannot be, the file itself moves there.
  func link(
    _ file: RepositoryFile, of repository: RepositoryName, commit: String, usesLinks: Bool
  ) throws(HubError) {
    let place = snapshot(repository, commit: commit)
    let path = place + "/" + file.path
    let blob = blob(repository, file.digest)
    let up = String(repeating: "../", count: file.parts.count + 1)
    let target = up + "blobs/" + file.digest.digits
    if let old = File.linkTarget(path), old.utf8.elementsEqual(target.utf8) { return }
    do {
      try File.makeFolders(file.parts.dropLast(), below: place)
      guard File.status(blob) != nil else { return }
      do {
        guard usesLinks else { throw PlatformError.file(action: "link", path: path, code: ENOTSUP) }
        try File.makeLink(path, to: target)
      } catch PlatformError.file(_, _, EPERM), PlatformError.file(_, _, ENOTSUP), PlatformError.file(
        _, _, ENOSYS)
      {
        try File.move(blob, to: path)
      }
    } catch let error as PlatformError {
      throw .disk(error)
    } catch {
      throw .badSetting(name: path, problem: "cannot be linked")
    }
  }

  /// Makes the folder of a snapshot.
  func makeSnapshot(_ repository: RepositoryName, commit: String) throws(HubError) {
    do {
      try File.makeFolders(["snapshots", commit], below: folder(repository))
    } catch {
      throw .disk(error)
    }
  }

  /// Writes down which commit a revision is.
  func write(_ reference: ModelReference, commit: String) throws(HubError) {
    guard written(reference) != Array(commit.utf8) else { return }
    let path = folder(reference.repository) + "/refs/" + reference.revisionName
    do {
      try File.makeFolders(
        ["refs"] + reference.revisionName.split(separator: "/").dropLast().map(String.init),
        below: folder(reference.repository))
      try File.replace(path, with: Array(commit.utf8))
    } catch {
      throw .disk(error)
    }
  }

  /// Writes down what a finished download has, so that the next one need not ask.
  func writeReceipt(_ files: [RepositoryFile], of repository: RepositoryName, commit: String) throws(HubError)
  {
    do {
      let lines = files.map { "\($0.bytes) \($0.path)\n" }.joined()
      try File.replace(receipt(repository, commit), with: Array(lines.utf8))
    } catch {
      throw .disk(error)
    }
  }
}
