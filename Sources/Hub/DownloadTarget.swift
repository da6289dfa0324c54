// Where a download goes: the shared cache, or a plain folder of the user's.

import Platform

/// A place for the files of one commit.
protocol DownloadTarget: Sendable {
  /// The folder that a model is served from afterwards.
  var folder: String { get }
  /// The folder whose disk the bytes go to.
  var disk: String { get }
  func prepare() throws(HubError)
  /// Whether the file is there, whole.
  func has(_ file: RepositoryFile) -> Bool
  /// Where the bytes are while they come.
  func partial(_ file: RepositoryFile) -> String
  /// The lock of whoever fetches it.
  func lock(_ file: RepositoryFile) -> String
  /// Where they are afterwards.
  func place(_ file: RepositoryFile) -> String
  /// Makes a model of the files: the last step of a download.
  func finish(_ files: [RepositoryFile]) throws(HubError)
}

/// The shared cache: files are blobs until all of them are there.
struct CacheTarget: DownloadTarget {
  let cache: HubCache
  let reference: ModelReference
  let commit: String
  let usesLinks: Bool

  private var repository: RepositoryName { reference.repository }
  var folder: String { cache.snapshot(repository, commit: commit) }
  var disk: String { cache.folder(repository) + "/blobs" }

  func prepare() throws(HubError) { try cache.prepare(repository) }
  func has(_ file: RepositoryFile) -> Bool { cache.has(file, of: repository, commit: commit) }
  func place(_ file: RepositoryFile) -> String { cache.blob(repository, file.digest) }
  func partial(_ file: RepositoryFile) -> String { place(file) + ".incomplete" }
  func lock(_ file: RepositoryFile) -> String { cache.lock(repository, file.digest) }

  /// config.json is the last: a snapshot that has it is whole.
  func finish(_ files: [RepositoryFile]) throws(HubError) {
    try cache.makeSnapshot(repository, commit: commit)
    func rank(_ file: RepositoryFile) -> Int {
      if file.path == FileSelection.configName { return 2 }
      return file.path.hasSuffix(".safetensors") ? 0 : 1
    }
    for file in files.sorted(by: { (rank($0), $1.bytes) < (rank($1), $0.bytes) }) {
      try cache.link(file, of: repository, commit: commit, usesLinks: usesLinks)
    }
    // A commit, or the beginning of one, is no name of a revision.
    if !commit.hasPrefix(reference.revisionName) { try cache.write(reference, commit: commit) }
  }
}

/// A plain folder, with SHA256SUMS as `sha256sum -c` and `mlxserve verify` read it.
struct FolderTarget: DownloadTarget {
  let folder: String

  private static let work = ".mlxserve"
  var disk: String { folder }

  func prepare() throws(HubError) {
    do {
      try File.makeFolders(folder)
      try File.makeFolders([Self.work], below: folder)
    } catch {
      throw .disk(error)
    }
  }

  func has(_ file: RepositoryFile) -> Bool {
    guard let facts = File.status(place(file)), facts.kind == .file, facts.bytes == file.bytes else {
      return false
    }
    return digits(file) == file.digest.digits
  }

  /// Of the file as it is; nil when it cannot be read.
  private func digits(_ file: RepositoryFile) -> String? {
    guard let open = try? GrowingFile(place(file)) else { return nil }
    var hash = FileHash(file.digest, bytes: file.bytes)
    guard
      (try? open.read({ bytes in
        hash.update(bytes)
        return true
      })) != nil
    else { return nil }
    return hash.digits
  }

  func place(_ file: RepositoryFile) -> String { folder + "/" + file.path }
  func partial(_ file: RepositoryFile) -> String { "\(folder)/\(Self.work)/\(file.digest.digits).incomplete" }
  func lock(_ file: RepositoryFile) -> String { "\(folder)/\(Self.work)/\(file.digest.digits).lock" }

  func finish(_ files: [RepositoryFile]) throws(HubError) {
    var lines = ""
    for file in files {
      var digits = file.digest.digits
      if case .gitBlob = file.digest {
        do {
          digits = SHA256.hexadecimal(SHA256.digest(try File.read(place(file), limit: 1 << 30)))
        } catch {
          throw .disk(error)
        }
      }
      lines += "\(digits)  \(file.path)\n"
    }
    do {
      try File.replace(folder + "/SHA256SUMS", with: Array(lines.utf8))
      try File.removeAll(folder + "/" + Self.work)
    } catch {
      throw .disk(error)
    }
  }
}
