// Files that come in parts: what has come of each, until it is complete, given up, or an hour old.

import Platform

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
  /// Bytes of each part, by its id.
  var parts: [String: Int] = [:]

  /// Seconds that parts may take to come.
  static let lifetime = 3_600
  var expires: Int { created + Self.lifetime }
}

extension Library {
  /// Uploads of one client at a time.
  static let uploadsPerClient = 64
  /// Parts of one upload.
  static let partsPerUpload = 1_000

  /// An upload that still takes parts.
  func upload(_ id: String, owner: String?) -> Upload? {
    forgetOldUploads()
    return uploads.withLock { $0[id] }.flatMap { $0.owner == owner ? $0 : nil }
  }

  /// - Returns: false when the client has too many.
  func begin(_ upload: Upload) -> Bool {
    forgetOldUploads()
    return uploads.withLock { all in
      guard all.values.count(where: { $0.owner == upload.owner }) < Self.uploadsPerClient else {
        return false
      }
      all[upload.id] = upload
      return true
    }
  }

  /// Keeps a part. A restart takes what belongs to no file away.
  ///
  /// - Returns: false when the upload is gone, or would have more parts or bytes than it may.
  func add(part id: String, _ content: [UInt8], to upload: String) throws(PlatformError) -> Bool {
    try makeFolders()
    try files.writeDurably(content, folder: folder + "/files", name: id + ".data")
    let isKept = uploads.withLock { all -> Bool in
      guard let found = all[upload], found.parts.count < Self.partsPerUpload,
        found.parts.values.reduce(0, +) + content.count <= found.bytes
      else { return false }
      all[upload]?.parts[id] = content.count
      return true
    }
    if !isKept { forget(parts: [id]) }
    return isKept
  }

  /// The bytes of parts, in this order.
  func content(ofParts ids: [String]) throws(PlatformError) -> [UInt8] {
    var content: [UInt8] = []
    for id in ids { content += try files.read(folder + "/files/" + id + ".data", limit: settings.fileBytes) }
    return content
  }

  /// Ends an upload and forgets its parts.
  func end(_ id: String) {
    let upload = uploads.withLock { $0.removeValue(forKey: id) }
    forget(parts: upload.map { Array($0.parts.keys) } ?? [])
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
