// The place where indexes of folders are kept, and which folder each is of.

import JSON
import Platform

/// The folder of all indexes: in it one for each folder that was searched, named by the digest of its path.
struct IndexShelf {
  /// What is kept of one folder.
  struct Entry {
    /// Where.
    var home: String
    /// The path of the folder when it was searched last; nil where an older version kept none.
    var folder: String?
    /// The folder's place in its file system, which stays where its name changes.
    var device: String?
    var number: String?
    /// The model that it is indexed with.
    var model: String?
    var bytes = 0
    /// Seconds since 1970.
    var used = 0.0

    /// Whether the folder is not where it was.
    var isGone: Bool { folder.map { !File.isDirectory($0) } ?? false }
  }

  private let base: String
  private let files = SystemFiles()
  private static let (recordName, modelName) = ("folder", "model")

  init(_ flags: ParsedFlags) throws {
    let files = SystemFiles()
    if let folder = flags[.indexDir] {
      try files.makeFolder(folder)
      base = File.resolved(folder) ?? folder
      return
    }
    guard var folder = Environment.cacheFolder else { throw SearchFolderError.noHome }
    try files.makeFolder(folder)
    for name in ["mlxserve", "search"] {
      folder += "/" + name
      try files.makeFolder(folder)
    }
    base = folder
  }

  private func home(_ folder: String) -> String {
    base + "/" + SHA256.hexadecimal(SHA256.digest(Array(folder.utf8))).prefix(16)
  }

  // MARK: One folder

  /// The home of a folder's index, made if there is none. One that was kept for the same folder under another name moves.
  func makeHome(of folder: String) throws -> String {
    let home = home(folder)
    let facts = try File.facts(folder)
    let (device, number) = (String(facts.device), String(facts.number))
    if !File.isDirectory(home), let old = entries().first(where: { $0.isAt(device, number) && $0.isGone }) {
      try File.move(old.home, to: home)
    }
    try files.makeFolder(home)
    let record: JSONValue = [
      "path": .string(folder), "device": .string(device), "number": .string(number),
    ]
    // Written each time: its age says when the index was used.
    try files.writeDurably(record.bytes, folder: home, name: Self.recordName)
    return home
  }

  /// The model that a home's folder is indexed with.
  func model(_ home: String) -> String? {
    (try? File.read(home + "/" + Self.modelName, limit: 1 << 16)).map { String(decoding: $0, as: UTF8.self) }
  }

  func remember(model: String, _ home: String) throws {
    try files.writeDurably(Array(model.utf8), folder: home, name: Self.modelName)
  }

  /// Takes the index of a folder away, also of one that is gone.
  ///
  /// - Returns: nil when there is none.
  func forget(_ folder: String) throws -> Entry? {
    let place = File.resolved(folder) ?? folder
    let home = home(place)
    guard let entry = entries().first(where: { $0.home == home || $0.folder == place }) else { return nil }
    for name in try File.names(in: entry.home) where name.hasPrefix("index-") {
      try Self.clear(entry.home + "/" + name)
    }
    try File.removeAll(entry.home)
    return entry
  }

  /// Takes the files of an index away, unless another process has it open.
  static func clear(_ index: String) throws {
    guard File.isDirectory(index) else { return }
    let lock: FolderLock
    do throws(PlatformError) { lock = try FolderLock(folder: index) } catch {
      throw SearchFolderError.isInUse
    }
    try withExtendedLifetime(lock) { try File.removeAll(index) }
  }

  // MARK: All

  /// Sorted by the folders' paths.
  func entries() -> [Entry] {
    let names = ((try? File.names(in: base)) ?? []).filter { name in
      name.utf8.count == 16
        && name.utf8.allSatisfy { ($0 >= 0x30 && $0 <= 0x39) || ($0 >= 0x61 && $0 <= 0x66) }
    }
    return names.map { entry(base + "/" + $0) }.sorted {
      ($0.folder ?? "", $0.home) < ($1.folder ?? "", $1.home)
    }
  }

  private func entry(_ home: String) -> Entry {
    var entry = Entry(home: home)
    let path = home + "/" + Self.recordName
    let record = (try? File.read(path, limit: 1 << 16)).flatMap { try? JSONValue(parsing: $0) }
    entry.folder = record?["path"]?.stringValue
    entry.device = record?["device"]?.stringValue
    entry.number = record?["number"]?.stringValue
    entry.model = model(home)
    entry.used = (try? File.facts(path))?.modified ?? (try? File.facts(home))?.modified ?? 0
    for name in (try? File.names(in: home)) ?? [] {
      let inner = home + "/" + name
      let parts =
        File.isDirectory(inner) ? ((try? File.names(in: inner)) ?? []).map { inner + "/" + $0 } : [inner]
      entry.bytes += parts.compactMap { try? File.facts($0).bytes }.sumOfSizes
    }
    return entry
  }
}

extension IndexShelf.Entry {
  fileprivate func isAt(_ device: String, _ number: String) -> Bool {
    self.device == device && self.number == number
  }

  var json: JSONValue {
    [
      "folder": folder.map(JSONValue.string) ?? .null, "gone": .bool(isGone),
      "model": model.map(JSONValue.string) ?? .null, "bytes": .int(bytes), "index": .string(home),
    ]
  }
}
