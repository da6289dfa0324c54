// Every system call of an index fails once, or from there on, and a restart finds what was acknowledged.

import Platform
import Support
import Testing

@testable import Vectors

/// A document with one passage and one row.
private func document(_ key: String, _ text: String) -> (NewDocument, (key: RowKey, vector: [Float])) {
  let row = RowKey(of: Array(text.utf8))
  let vector: [Float] = [Float(row.high & 0xFF) + 1, Float(row.low & 0xFF) + 1, 1, 2]
  let passage = Passage(text: Array(text.utf8), range: 0..<text.utf8.count, rows: [row])
  return (NewDocument(key: key, info: Array("\"\(text)\"".utf8), passages: [passage]), (row, vector))
}

private func found(_ key: String, _ view: IndexView) throws -> String? {
  guard let document = view.document(key) else { return nil }
  let passages = try view.passages(of: key)
  #expect(passages.count == 1)
  #expect(document.info == Array("\"".utf8) + passages[0].text + Array("\"".utf8))
  return String(decoding: passages[0].text, as: UTF8.self)
}

/// What is kept beside the index of a text.
private func entry(_ text: String) -> (key: RowKey, bytes: [UInt8]) {
  (RowKey(of: Array(text.utf8)), Array("entry of \(text)".utf8))
}

private func block(_ texts: [String]) -> SideBlock {
  var block = SideBlock()
  for text in texts { block.append(entry(text).key, entry(text).bytes) }
  return block
}

private let maker = RowKey(high: 1, low: 2)

@Suite struct IndexFaultTests {
  private static let faults = [ENOSPC, EIO, EMFILE].map { SimulatedDisk.Fault.error($0) } + [.short]

  private func open(_ disk: SimulatedDisk) throws -> VectorIndex {
    var limits = VectorIndex.Limits()
    limits.memoryDocuments = 3
    limits.segments = 2
    return try VectorIndex(folder: "/index", fingerprint: "f", dimensions: 4, limits: limits, files: disk)
  }

  private static let sides = ["a", "b", "c", "d"]

  private static func expectRight(_ view: IndexView) {
    for text in sides {
      let found = view.side(entry(text).key, maker)
      #expect(found == nil || found == entry(text).bytes)
    }
  }

  /// Opened, used, opened again, used on; documents move to files and these are joined on the way.
  private func live(_ disk: SimulatedDisk, _ promises: inout Promises) throws {
    for round in 0..<2 {
      guard let index = try? open(disk) else { continue }
      for (key, text) in [
        ("kept", "kept \(round)"), ("gone", "gone \(round)"), ("a\(round)", "a"), ("b\(round)", "b"),
        ("kept", "kept again \(round)"), ("c\(round)", "c"), ("d\(round)", "d"),
      ] {
        promises.change(key, to: text) {
          let (document, row) = document(key, text)
          try index.remember([row])
          try index.commit(document)
        }
        if key == "a\(round)" {
          promises.change("gone", to: nil) {
            guard try index.remove("gone") else { throw IndexError.missingRow }
          }
        }
      }
      promises.change("zz", to: nil) { try index.compact(all: round == 1) }
      // A cache promises nothing, but that what it says is right.
      for text in Self.sides { try? index.addSide(block([text, "of all \(round)"]), maker: maker) }
      try? index.joinSide(makers: [maker], isUnwanted: { false })
      try? index.cleanSide(maker: maker, isUnwanted: { false }, keeps: { $0 != entry("a").key })
      Self.expectRight(index.view)
      for (key, allowed) in promises.allowed {
        let found = try found(key, index.view)
        #expect(allowed.contains(found), "\(key) is \(found ?? "gone")")
      }
    }
  }

  @Test(arguments: faults, [false, true])
  func `after a restart every acknowledged change is there`(fault: SimulatedDisk.Fault, isLasting: Bool)
    throws
  {
    for losesPower in [false, true] {
      var number = 0
      var failures = 0
      while true {
        let disk = SimulatedDisk()
        disk.follow(.init(fault, at: number, isLasting: isLasting))
        var promises = Promises()
        try live(disk, &promises)
        failures += promises.failures
        let isOver = disk.calls <= number
        #expect(disk.openDescriptors == 0, "call \(number) leaves a descriptor")
        disk.restart(losingPower: losesPower)
        disk.follow(nil)
        let index = try open(disk)
        #expect(index.losses.isEmpty)
        Self.expectRight(index.view)
        #expect(!disk.files.contains { $0.hasSuffix(".tmp") })
        for (key, allowed) in promises.allowed {
          let found = try found(key, index.view)
          #expect(
            allowed.contains(found),
            "\(fault) at call \(number): \(key) is \(found ?? "gone"), not of \(allowed)")
        }
        // It goes on, and its files are those that count.
        let (next, row) = document("next", "next")
        try index.remember([row])
        try index.commit(next)
        try index.compact(all: true)
        #expect(disk.files.count { !$0.hasSuffix(".side") } == 4, "\(disk.files)")
        try index.addSide(block(Self.sides), maker: maker)
        try index.joinSide(makers: [maker], isUnwanted: { false })
        #expect(Self.sides.allSatisfy { index.view.side(entry($0).key, maker) == entry($0).bytes })
        guard !isOver else { break }
        number += 1
      }
      #expect(number > 100)
      #expect((failures > 20) == (fault != .short))
    }
  }

  @Test func `a log cut anywhere opens with what came before`() throws {
    let disk = SimulatedDisk()
    var sizes: [(bytes: Int, texts: [String])] = []
    do {
      let index = try open(disk)
      for text in ["one", "two", "three"] {
        let (document, row) = document(text, text)
        try index.remember([row])
        try index.commit(document)
        sizes.append((index.logBytes, (sizes.last?.texts ?? []) + [text]))
      }
    }
    let log = try #require(disk.files.first { $0.hasSuffix(".log") })
    let whole = try #require(disk.content(log))
    for count in 0...whole.count {
      disk.restart(losingPower: false)
      disk.put(log, Array(whole.prefix(count)))
      let index = try open(disk)
      #expect(index.losses.isEmpty)
      let expected = sizes.last { $0.bytes <= count }?.texts ?? []
      #expect(index.view.documents.map(\.key) == expected)
      let (next, row) = document("next", "next")
      try index.remember([row])
      try index.commit(next)
      #expect(index.view.documentCount == expected.count + 1)
    }
  }

  @Test func `a changed bit in the middle of a log is told, and what comes before it stays`() throws {
    let disk = SimulatedDisk()
    do {
      let index = try open(disk)
      for text in ["one", "two", "three"] {
        let (document, row) = document(text, text)
        try index.remember([row])
        try index.commit(document)
      }
    }
    let log = try #require(disk.files.first { $0.hasSuffix(".log") })
    let whole = try #require(disk.content(log))
    let manifest = try #require(disk.content("/index/" + Manifest.name))
    for place in [30, whole.count / 3 + 40, whole.count / 2] {
      var bytes = whole
      bytes[place] ^= 4
      disk.restart(losingPower: false)
      disk.put(log, bytes)
      for name in disk.files where name != log && name != "/index/lock" { _ = disk.unlink(name) }
      disk.put("/index/" + Manifest.name, manifest)
      do {
        let index = try open(disk)
        #expect(index.losses.contains { $0.contains(log) && $0.contains("changed after byte") }, "\(place)")
        #expect(index.view.documents.map(\.key) == (place == 30 ? [] : ["one"]), "\(place)")
        #expect(disk.content(log + ".damaged") == bytes)
        let (next, row) = document("next", "next")
        try index.remember([row])
        try index.commit(next)
      }
      // The first start that finds it whole deletes what was damaged.
      disk.restart(losingPower: true)
      let index = try open(disk)
      #expect(index.losses.isEmpty && !disk.files.contains { $0.hasSuffix(".damaged") })
      #expect(try found("next", index.view) == "next")
    }
  }

  @Test func `a log or a segment in the place of another is seen, and nothing whole is lost`() throws {
    func made(_ texts: [String], compacted: Int) throws -> SimulatedDisk {
      let disk = SimulatedDisk()
      let index = try open(disk)
      for (number, text) in texts.enumerated() {
        let (document, row) = document(text, text)
        try index.remember([row])
        try index.commit(document)
        if number < compacted { try index.compact() }
      }
      disk.restart(losingPower: false)
      return disk
    }
    func kept(_ disk: SimulatedDisk) -> Set<UInt64> {
      Set(
        disk.files.filter { $0.hasSuffix(".segment") }.compactMap { disk.content($0) }.map { Checksum.of($0) }
      )
    }
    let other = try made(["five", "six"], compacted: 1)
    let log = try #require(other.files.first { $0.hasSuffix(".log") })
    for kind in ["segment over another", "segment of another index", "log of another index", "no index.json"]
    {
      let disk = try made(["one", "two", "three"], compacted: 2)
      let segments = disk.files.filter { $0.hasSuffix(".segment") }
      #expect(segments.count == 2)
      switch kind {
      case "segment over another": disk.put(segments[0], try #require(disk.content(segments[1])))
      case "segment of another index":
        disk.put(
          segments[0], try #require(other.content(other.files.first { $0.hasSuffix(".segment") } ?? "")))
      case "log of another index":
        disk.put(disk.files.first { $0.hasSuffix(".log") } ?? "", try #require(other.content(log)))
      default: _ = disk.unlink("/index/" + Manifest.name)
      }
      let whole = kept(disk)
      #expect(!VectorIndex.check(folder: "/index", files: disk).faults.isEmpty, "\(kind)")
      let index = try open(disk)
      #expect(!index.losses.isEmpty, "\(kind)")
      #expect(whole.isSubset(of: kept(disk)), "\(kind)")
      let keys = Set(index.view.documents.map(\.key))
      switch kind {
      case "segment over another": #expect(keys == ["two", "three"])
      // Its owner knows that "five" is not one of his.
      case "segment of another index": #expect(keys == ["two", "three", "five"])
      case "log of another index": #expect(keys.isSuperset(of: ["one", "two"]) && !keys.contains("three"))
      default: #expect(keys == ["one", "two", "three"])
      }
      #expect(VectorIndex.check(folder: "/index", files: disk).faults.isEmpty, "\(kind)")
    }
  }

  @Test func `a changed bit in a segment is found, wherever it is`() throws {
    let disk = SimulatedDisk()
    do {
      let index = try open(disk)
      for text in ["one word", "two words"] {
        let (document, row) = document(text, text)
        try index.remember([row])
        try index.commit(document)
      }
      try index.compact()
    }
    let path = try #require(disk.files.first { $0.hasSuffix(".segment") })
    let whole = try #require(disk.content(path))
    let others = disk.files.filter { $0 != path }.map { ($0, disk.content($0) ?? []) }
    for place in whole.indices {
      var bytes = whole
      bytes[place] ^= 1
      disk.restart(losingPower: false)
      disk.put(path, bytes)
      for (name, content) in others { disk.put(name, content) }
      let index = try open(disk)
      let faults = index.losses + index.faults()
      #expect(!faults.isEmpty && faults.allSatisfy { $0.contains(path) }, "byte \(place)")
      _ = try index.heal()
      #expect(index.faults().isEmpty && index.view.documentCount == 0, "byte \(place)")
      #expect(disk.content(path + ".damaged") == bytes)
    }
  }

  @Test func `what is kept beside an index is found by its key and its maker until it is left out`() throws {
    let disk = SimulatedDisk()
    let other = RowKey(high: 3, low: 4)
    let texts = (0..<40).map { "text \($0)" }
    func found(_ index: VectorIndex) -> [String] {
      texts.filter { index.view.side(entry($0).key, maker) == entry($0).bytes }
    }
    do {
      let index = try open(disk)
      try index.addSide(block(["text 3"]), maker: other)
      for start in 0..<20 { try index.addSide(block(Array(texts[start..<start + 20])), maker: maker) }
      #expect(disk.files.count { $0.hasSuffix(".side") } == 21 && found(index) == Array(texts[..<39]))
      // Of a document in no segment, and through a compaction.
      let (next, row) = document("next", "next")
      try index.remember([row])
      try index.commit(next)
      try index.compact(all: true)
      #expect(found(index) == Array(texts[..<39]))
      #expect(index.view.side(entry("text 3").key, other) == entry("text 3").bytes)
      let view = index.view
      // Nobody wants it any more: what there was stays.
      try index.joinSide(makers: [maker], isUnwanted: { true })
      #expect(found(index) == Array(texts[..<39]))
      try index.joinSide(makers: [maker], isUnwanted: { false })
      #expect(disk.files.count { $0.hasSuffix(".side") } <= 6 && found(index) == Array(texts[..<39]))
      #expect(index.view.side(entry("text 3").key, other) == nil)
      #expect(view.side(entry("text 3").key, other) == entry("text 3").bytes)
    }
    disk.restart(losingPower: true)
    let index = try open(disk)
    #expect(found(index) == Array(texts[..<39]))
    let wanted = Set(texts[5..<7].map { entry($0).key })
    try index.cleanSide(maker: maker, isUnwanted: { false }, keeps: wanted.contains)
    #expect(found(index) == Array(texts[5..<7]))
    try index.cleanSide(maker: maker, isUnwanted: { false }, keeps: { _ in false })
    #expect(index.view.sideBytes == 0 && !disk.files.contains { $0.hasSuffix(".side") })
  }

  @Test func `what two makers keep is joined apart, and cleaned apart`() throws {
    let index = try open(SimulatedDisk())
    let other = RowKey(high: 3, low: 4)
    let texts = (0..<40).map { "text \($0)" }
    for start in 0..<20 {
      try index.addSide(block(Array(texts[start..<start + 2])), maker: maker)
      try index.addSide(block(Array(texts[start + 20..<start + 21])), maker: other)
    }
    try index.joinSide(makers: [other, maker], isUnwanted: { false })
    #expect(index.view.sideCount { $0 == maker } >= 21 && index.view.sideCount { $0 == other } == 20)
    #expect(index.view.side.count <= 8)
    #expect(texts[..<21].allSatisfy { index.view.side(entry($0).key, maker) == entry($0).bytes })
    #expect(texts[20...].allSatisfy { index.view.side(entry($0).key, other) == entry($0).bytes })
    try index.cleanSide(maker: maker, isUnwanted: { false }, keeps: { _ in false })
    #expect(index.view.sideCount { $0 == maker } == 0 && index.view.sideCount { $0 == other } == 20)
  }

  @Test func `a changed bit beside an index costs an entry, and never changes one`() throws {
    let disk = SimulatedDisk()
    let texts = (0..<5).map { "text \($0)" }
    do { try open(disk).addSide(block(texts), maker: maker) }
    let path = try #require(disk.files.first { $0.hasSuffix(".side") })
    let whole = try #require(disk.content(path))
    for place in whole.indices {
      for count in [whole.count, place] {
        var bytes = Array(whole.prefix(count))
        if count > place { bytes[place] ^= 1 << UInt8(place % 8) }
        disk.restart(losingPower: false)
        disk.put(path, bytes)
        let index = try open(disk)
        let found = texts.map { index.view.side(entry($0).key, maker) }
        #expect(zip(found, texts).allSatisfy { $0 == nil || $0 == entry($1).bytes })
        #expect(found.contains(nil), "byte \(place)")
        #expect(index.losses.isEmpty && index.faults().isEmpty)
        try index.joinSide(makers: [maker], isUnwanted: { false })
        try index.cleanSide(maker: maker, isUnwanted: { false }, keeps: { _ in true })
        let later = texts.map { index.view.side(entry($0).key, maker) }
        #expect(zip(later, texts).allSatisfy { $0 == nil || $0 == entry($1).bytes })
        disk.restart(losingPower: false)
        for file in disk.files where file.hasSuffix(".side") { _ = disk.unlink(file) }
      }
    }
  }

  @Test func `a manifest that is not what was written is made again from what is there`() throws {
    let disk = SimulatedDisk()
    do {
      let index = try open(disk)
      let (one, row) = document("one", "one")
      try index.remember([row])
      try index.commit(one)
      try index.compact()
    }
    let path = "/index/" + Manifest.name
    let whole = try #require(disk.content(path))
    for place in whole.indices {
      var bytes = whole
      bytes[place] ^= 1
      disk.restart(losingPower: false)
      disk.put(path, bytes)
      let index = try open(disk)
      #expect(!index.losses.isEmpty && index.view.documents.map(\.key) == ["one"])
    }
  }

  @Test func `a second process is told, and may read`() throws {
    let disk = SimulatedDisk()
    let index = try open(disk)
    let (document, row) = document("one", "one")
    try index.remember([row])
    try index.commit(document)
    #expect(throws: IndexError.self) { try open(disk) }
    let snapshot = try #require(try VectorIndex.snapshot(folder: "/index", files: disk))
    #expect(snapshot.view.documents.map(\.key) == ["one"] && snapshot.fingerprint == "f")
    #expect(try VectorIndex.snapshot(folder: "/other", files: disk) == nil)
  }

  @Test func `a view stays as it is, whatever happens to the index`() throws {
    let disk = SimulatedDisk()
    let index = try open(disk)
    for number in 0..<10 {
      let (document, row) = document("d\(number)", "text \(number)")
      try index.remember([row])
      try index.commit(document)
    }
    let view = index.view
    let query: [Float] = try #require(RowCode.normalized([1, 2, 3, 4]))
    let before = try view.nearest(query, limit: 10)?.hits
    let texts = try before?.map { try view.passage($0).text }
    for number in 0..<10 { _ = try index.remove("d\(number)") }
    try index.compact(all: true)
    #expect(index.view.documentCount == 0)
    #expect(try view.nearest(query, limit: 10)?.hits == before)
    #expect(try before?.map { try view.passage($0).text } == texts)
  }

  @Test func `compaction changes no result`() throws {
    let disk = SimulatedDisk()
    let index = try open(disk)
    for number in 0..<20 {
      let (document, row) = document("d\(number)", "words of text \(number) \(number % 3)")
      try index.remember([row])
      try index.commit(document)
      if number % 4 == 3 { _ = try index.remove("d\(number - 2)") }
    }
    func results() throws -> [String] {
      let view = index.view
      let query: [Float] = try #require(RowCode.normalized([1, 2, 3, 4]))
      let near = try #require(try view.nearest(query, limit: 20)).hits
      let worded = try view.byWords(WordQuery(Array("text 1 2".utf8)), limit: 20).hits
      return try (near + worded).map { "\(try view.passage($0).document.key) \($0.score)" }
    }
    let before = try results()
    #expect(before.count > 20)
    try index.compact()
    #expect(try results() == before)
    try index.compact(all: true)
    #expect(try results() == before)
  }

  @Test func `vectors of a document that was not finished are there after a restart`() throws {
    let disk = SimulatedDisk()
    do {
      let index = try open(disk)
      try index.remember([document("x", "half done").1])
      try index.compact()
    }
    disk.restart(losingPower: false)
    let index = try open(disk)
    let key = RowKey(of: Array("half done".utf8))
    #expect(index.hasRow(key) && !index.hasRow(RowKey(of: [])))
    try index.commit(document("x", "half done").0)
    #expect(try found("x", index.view) == "half done")
    #expect(throws: IndexError.missingRow) { try index.commit(document("y", "never given").0) }
    #expect(throws: IndexError.badVector) { try index.remember([(key, [0, 0, 0, 0])]) }
    #expect(throws: IndexError.badVector) { try index.remember([(key, [1, 2])]) }
    #expect(throws: IndexError.badVector) { try index.remember([(key, [.nan, 1, 1, 1])]) }
  }
}
