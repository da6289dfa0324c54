// Files beside an index: written aside and renamed, joined when there are many, and gone with what they speak of.
//
// No manifest names them: entries are found by keys, and one that is there twice says the same twice. So they need no part in
// the index's own log and segments, and documents that are in no segment yet have them too.

import Platform

extension IndexView {
  /// Bytes of files beside the index.
  package var sideBytes: Int { side.reduce(0) { $0 + $1.content.count } }

  /// Entries of some makers.
  package func sideCount(_ isCounted: (RowKey) -> Bool) -> Int {
    side.reduce(0) { $0 + (isCounted($1.maker) ? $1.count : 0) }
  }

  /// Whether there is an entry, damaged or not.
  package func hasSide(_ key: RowKey, _ maker: RowKey) -> Bool {
    side.contains { $0.maker == maker && $0.has(key) }
  }

  /// What a maker said of a key; nil when that is absent or damaged.
  package func side(_ key: RowKey, _ maker: RowKey) -> [UInt8]? {
    for file in side where file.maker == maker {
      if let bytes = file.bytes(of: key) { return bytes }
    }
    return nil
  }
}

extension VectorIndex {
  /// Files that are joined, and bytes from which on a file is left alone.
  private static let (mostAlike, largestSide) = (4, 64 << 20)
  /// Bytes that are written at once.
  private static let piece = 1 << 20

  /// The files beside an index that can be used; one that is none is taken away.
  static func openSide(_ folder: String, _ names: [String], _ files: any FileSystem) -> [SideFile] {
    names.filter { $0.hasSuffix(SideFile.ending) }.compactMap { name in
      // One that cannot be opened now may be at the next start.
      guard let content = try? Optional.some(files.mapped(folder + "/" + name)) else { return nil }
      if let file = content.flatMap({ SideFile($0, name: name) }) { return file }
      _ = files.unlink(folder + "/" + name)
      return nil
    }
  }

  /// Keeps entries.
  package func addSide(_ block: SideBlock, maker: RowKey) throws(IndexError) {
    guard !block.records.isEmpty else { return }
    try sideWriting.withLock { number throws(IndexError) in
      let file = try writeSide(&number, maker) { write throws(IndexError) in
        try write(block.bytes)
        return block.records
      }
      shared.withLock { $0.side.append(file) }
    }
  }

  /// Takes away what all makers but some have left, and joins their files of like size.
  ///
  /// - Parameter isUnwanted: asked after every MiB.
  package func joinSide(makers: [RowKey], isUnwanted: () -> Bool) throws(IndexError) {
    drop(view.side.filter { !makers.contains($0.maker) })
    for maker in makers {
      while let alike = Self.alike(view.side.filter { $0.maker == maker }), !isUnwanted() {
        guard try rewriteSide(alike, maker, isUnwanted, keeps: { _ in true }) else { return }
      }
    }
  }

  /// Leaves out all entries of a maker but some.
  ///
  /// - Parameters:
  ///   - isUnwanted: asked after every MiB.
  ///   - keeps: whether an entry stays.
  package func cleanSide(
    maker: RowKey, isUnwanted: () -> Bool, keeps: (RowKey) -> Bool
  ) throws(IndexError) {
    for file in view.side where file.maker == maker && !isUnwanted() {
      _ = try rewriteSide([file], maker, isUnwanted, keeps: keeps)
    }
  }

  /// Files of which each has less than four times the bytes of the smallest.
  private static func alike(_ side: [SideFile]) -> [SideFile]? {
    let small = side.filter { $0.content.count < largestSide }.sorted { $0.content.count < $1.content.count }
    for first in small.indices {
      let alike = small[first...].prefix { $0.content.count < 4 * small[first].content.count }
      if alike.count >= mostAlike { return Array(alike.prefix(mostAlike)) }
    }
    return nil
  }

  /// One file in place of some; false when nobody wants it any more.
  func rewriteSide(
    _ old: [SideFile], _ maker: RowKey, _ isUnwanted: () -> Bool, keeps: (RowKey) -> Bool
  ) throws(IndexError) -> Bool {
    var isCut = false
    let new = try sideWriting.withLock { number throws(IndexError) -> SideFile? in
      try writeSide(&number, maker) { write throws(IndexError) in
        var (records, known): ([SideRecord], Set<RowKey>) = ([], [])
        var (pending, offset): ([UInt8], UInt64) = ([], 0)
        for file in old {
          // As they were written: passages of a document stay neighbours.
          for var record in file.records.sorted(by: { $0.offset < $1.offset }) where keeps(record.key) {
            guard !known.contains(record.key), let entry = file.entry(record) else { continue }
            known.insert(record.key)
            record.offset = offset
            offset += UInt64(entry.count)
            records.append(record)
            pending += entry
            guard pending.count >= Self.piece else { continue }
            try write(pending)
            pending.removeAll(keepingCapacity: true)
            isCut = isUnwanted()
            guard !isCut else { return [] }
          }
        }
        try write(pending)
        return records
      }
    }
    guard !isCut else {
      if let new { _ = files.unlink(folder + "/" + new.name) }
      return false
    }
    if let new, new.count > 0 { shared.withLock { $0.side.append(new) } }
    drop(old + (new.map { $0.count == 0 ? [$0] : [] } ?? []))
    return true
  }

  /// Whoever holds a view goes on reading them.
  private func drop(_ old: [SideFile]) {
    guard !old.isEmpty else { return }
    let names = Set(old.map(\.name))
    shared.withLock { $0.side.removeAll { names.contains($0.name) } }
    for name in names { _ = files.unlink(folder + "/" + name) }
  }

  /// Writes a file under the next name.
  ///
  /// - Parameter body: gives the bytes of entries, one piece after another, and then their records.
  private func writeSide(
    _ number: inout Int, _ maker: RowKey,
    _ body: (_ write: ([UInt8]) throws(IndexError) -> Void) throws(IndexError) -> [SideRecord]
  ) throws(IndexError) -> SideFile {
    number += 1
    let digits = String(number)
    let name = String(repeating: "0", count: max(0, 6 - digits.count)) + digits + SideFile.ending
    try publish(name) { descriptor, path throws(IndexError) in
      var written = 0
      func write(_ bytes: [UInt8]) throws(IndexError) {
        try IndexError.system { () throws(PlatformError) in
          try files.write(bytes, to: descriptor, at: written, path: path)
        }
        written += bytes.count
      }
      let records = try body(write)
      try write(SideFile.ending(records, at: written, maker: maker))
    }
    let content = try IndexError.system { () throws(PlatformError) in try files.mapped(folder + "/" + name) }
    guard let content, let file = SideFile(content, name: name) else {
      throw .damaged(path: folder + "/" + name, what: "it is not what was written")
    }
    return file
  }
}
