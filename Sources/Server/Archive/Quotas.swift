// What clients have in files, stores and batches, what is being written for them, and how much of it they may have.

import JSON

/// What one client causes, or one thing of it.
struct Holding: Sendable, Equatable {
  /// Bytes of files, of their parts while they come, and of the requests and answers of batches, on the disk.
  var bytes = 0
  /// Bytes of indexes on the disk, about.
  var indexBytes = 0
  /// Files and uploads.
  var files = 0
  /// About the bytes that records take in memory.
  var memory = 0

  /// Whether it only gives back.
  var isLess: Bool { bytes <= 0 && indexBytes <= 0 && files <= 0 && memory <= 0 }

  static func + (a: Holding, b: Holding) -> Holding {
    Holding(
      bytes: sum(a.bytes, b.bytes), indexBytes: sum(a.indexBytes, b.indexBytes), files: a.files + b.files,
      memory: sum(a.memory, b.memory))
  }

  static func - (a: Holding, b: Holding) -> Holding {
    Holding(
      bytes: a.bytes - b.bytes, indexBytes: a.indexBytes - b.indexBytes, files: a.files - b.files,
      memory: a.memory - b.memory)
  }

  static func += (a: inout Holding, b: Holding) { a = a + b }

  /// Records may say up to 2^40 bytes each, and there may be as many of them as fit the disk.
  private static func sum(_ a: Int, _ b: Int) -> Int {
    let (sum, overflow) = a.addingReportingOverflow(b)
    return overflow ? .max / 2 : sum
  }
}

/// The account of all clients: what is written is counted before it is, so that two that write at once cannot both take the
/// last room.
struct Quotas: Sendable {
  /// The code of the error where there is no room.
  static let code = "storage_limit_exceeded"

  private(set) var all = Holding()
  private var shares: [String: Holding] = [:]

  /// Why something has no room.
  enum Refusal: Equatable {
    case bytes, indexBytes, files, memory

    func words(_ more: Holding, _ settings: Archive.Settings) -> String {
      switch self {
      case .bytes: "There is no room for \(more.bytes) more bytes of files; delete some first."
      case .indexBytes:
        "There is no room for \(more.indexBytes) more bytes of indexes; take files out of vector stores first."
      case .files: "There are \(settings.filesPerClient) files and uploads already; delete some first."
      case .memory:
        "There are too many files, vector stores and batches for the memory of the server; delete some first."
      }
    }
  }

  func share(of owner: String?) -> Holding { shares[owner ?? ""] ?? Holding() }

  /// Counts something, whatever room there is; less where it is given back.
  mutating func add(_ more: Holding, of owner: String?) {
    all += more
    let share = share(of: owner) + more
    shares[owner ?? ""] = share == Holding() ? nil : share
  }

  /// Counts something if there is room for it; else says what there is no room for.
  ///
  /// - Parameter unseen: what is still there of the owner's, and he does not have to answer for.
  mutating func reserve(
    _ more: Holding, for owner: String?, _ settings: Archive.Settings, unseen: () -> Holding
  ) -> Refusal? {
    let total = all + more
    let own = share(of: owner) + more
    func refusal(_ own: Holding) -> Refusal? {
      // What a kind does not grow by is no reason: what is there already stays.
      if more.bytes > 0, own.bytes > settings.clientBytes || total.bytes > settings.bytes { return .bytes }
      if more.indexBytes > 0, own.indexBytes > settings.clientIndexBytes { return .indexBytes }
      if more.files > 0, own.files > settings.filesPerClient { return .files }
      if more.memory > 0,
        own.memory > settings.recordBytes / 2 || total.memory > settings.recordBytes
      {
        return .memory
      }
      return nil
    }
    // What is not seen is looked for where it decides.
    if refusal(own) != nil, let refusal = refusal(own - unseen()) { return refusal }
    add(more, of: owner)
    return nil
  }
}

extension FileRecord {
  var holding: Holding { Holding(bytes: bytes, files: 1, memory: Self.byteCount) }
}

extension EntryRecord {
  var holding: Holding { Holding(indexBytes: bytes, memory: byteCount) }
}

extension StoreRecord {
  var holding: Holding {
    let told = name.utf8.count + (description?.utf8.count ?? 0) + (model?.utf8.count ?? 0)
    return Holding(memory: 1_000 + told + metadata.byteCount)
  }
}

extension BatchRecord {
  var holding: Holding { Holding(memory: byteCount) }
}

extension RequestBatch {
  /// Without its faults, which are on the disk alone, and the places of its requests, which are claimed while it runs.
  var holding: Holding {
    let told = endpoint.utf8.count + (model?.utf8.count ?? 0)
    return Holding(memory: 1_500 + told + (metadata?.byteCount ?? 0))
  }
}

extension Upload {
  /// All that was promised, whether it has come or not.
  var holding: Holding { Holding(bytes: bytes, files: 1, memory: 1_000 + Self.partBytes * parts.count) }

  /// What a part takes in memory.
  static let partBytes = 200
}

extension JSONObject {
  /// About the bytes that names and their texts take in memory.
  var byteCount: Int {
    entries.reduce(0) { $0 + 120 + $1.key.utf8.count + ($1.value.stringValue?.utf8.count ?? 0) }
  }
}
