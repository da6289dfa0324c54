// Files that come in parts: what has come of each, until it is complete, given up, or an hour old.

import Platform
import Wire

/// A file of which parts come.
struct Upload: Sendable {
  var id: String
  var owner: String?
  var created: Int
  var bytes: Int
  var name: String
  var type: String
  var purpose: String
  var fileExpiry: Int?
  /// Bytes of each part, by its id; those that are being written too.
  var parts: [String: Int] = [:]
  /// Whether its file is being made: it takes no more parts, and is made once.
  var isCompleting = false

  /// Seconds that parts may take to come.
  static let lifetime = 3_600
  var expires: Int { created + Self.lifetime }
}

extension Archive {
  /// Uploads of one client at a time.
  static let uploadsPerClient = 64
  /// Parts of one upload.
  static let partsPerUpload = 1_000

  /// An upload that still takes parts.
  func upload(_ id: String, owner: String?) -> Upload? {
    forgetOldUploads()
    return uploads.withLock { $0[id] }.flatMap { $0.owner == owner && !$0.isCompleting ? $0 : nil }
  }

  /// Begins one: the room for all that it promises is taken at once.
  ///
  /// - Returns: false when the client has too many.
  func begin(_ upload: Upload) throws(APIError) -> Bool {
    forgetOldUploads()
    try reserve(upload.holding, for: upload.owner)
    let isTaken = uploads.withLock { all in
      guard all.values.count(where: { $0.owner == upload.owner }) < Self.uploadsPerClient else {
        return false
      }
      all[upload.id] = upload
      return true
    }
    if !isTaken { count(Holding() - upload.holding, of: upload.owner) }
    return isTaken
  }

  /// Keeps a part, if the upload has promised it. A restart takes what belongs to no file away.
  ///
  /// - Returns: false when the upload is gone, or would have more parts or bytes than it may.
  func add(part id: String, _ content: [UInt8], to upload: Upload) throws(APIError) -> Bool {
    let place = Holding(memory: Upload.partBytes)
    try reserve(place, for: upload.owner)
    let isPromised = uploads.withLock { all -> Bool in
      guard let found = all[upload.id], !found.isCompleting, found.parts.count < Self.partsPerUpload,
        found.parts.values.reduce(0, +) + content.count <= found.bytes
      else { return false }
      all[upload.id]?.parts[id] = content.count
      return true
    }
    guard isPromised else {
      count(Holding() - place, of: upload.owner)
      return false
    }
    do throws(APIError) {
      try storing { () throws(PlatformError) in
        try makeFolders()
        try files.writeDurably(content, folder: folder + "/files", name: id + ".data")
      }
    } catch {
      let wasThere = uploads.withLock { $0[upload.id]?.parts.removeValue(forKey: id) != nil }
      if wasThere { count(Holding() - place, of: upload.owner) }
      forget(parts: [id])
      throw error
    }
    // Given up while it was written: nobody else takes it away.
    let isKept = uploads.withLock { $0[upload.id]?.parts[id] != nil }
    if !isKept { forget(parts: [id]) }
    return isKept
  }

  /// Says that the file of an upload is being made, or, where that failed, that it is not.
  ///
  /// - Returns: false when it is gone, or somebody else makes it.
  func setCompleting(_ id: String, _ isCompleting: Bool) -> Bool {
    uploads.withLock { all in
      guard let found = all[id], found.isCompleting != isCompleting else { return false }
      all[id]?.isCompleting = isCompleting
      return true
    }
  }

  /// The bytes of parts, in this order.
  func content(ofParts ids: [String]) throws(PlatformError) -> [UInt8] {
    var content: [UInt8] = []
    for id in ids { content += try files.read(folder + "/files/" + id + ".data", limit: settings.fileBytes) }
    return content
  }

  /// Ends an upload and forgets its parts.
  ///
  /// - Parameter kept: what of it is a file's now.
  func end(_ id: String, keeping kept: Holding = Holding()) {
    guard let upload = uploads.withLock({ $0.removeValue(forKey: id) }) else { return }
    forget(parts: Array(upload.parts.keys))
    count(kept - upload.holding, of: upload.owner)
  }

  private func forget(parts: [String]) {
    for id in parts { try? files.remove(folder + "/files/" + id + ".data") }
  }

  private func forgetOldUploads() {
    let time = now()
    let old = uploads.withLock { all in all.values.filter { $0.expires <= time }.map(\.id) }
    for id in old { end(id) }
  }
}
