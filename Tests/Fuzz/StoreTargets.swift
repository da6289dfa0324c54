// What is kept or fetched: files of an index, notes that are indexed, answers of the hub, folders of models.

import JSON
import Platform

@testable import Checkpoint
@testable import Hub
@testable import Search
@testable import Vectors

enum StoreTargets {
  // MARK: Indexes

  /// The first byte chooses: a record of a log of that kind, after two whole ones, or a segment whose sums are made right.
  static func index(_ bytes: [UInt8]) {
    guard let kind = bytes.first else { return }
    let rest = Array(bytes.dropFirst())
    if let kind = LogKind(rawValue: Int(kind)) {
      guard let recovery = try? recovered([(kind, rest)]) else { return }
      use(recovery.view)
    } else {
      segment(rest)
    }
  }

  /// A document in memory, with a vector of its own.
  private static func recovered(_ records: [(LogKind, [UInt8])]) throws -> IndexRecovery {
    let key = RowKey(high: 1, low: 2)
    let passage = Passage(text: Array("hello world".utf8), range: 0..<11, rows: [key])
    let whole: [(LogKind, [UInt8])] = [
      (.rows, IndexWriter.payload(rows: [(key: key, vector: [0.5, 0.5, 0.5, 0.5])])),
      (.document, IndexWriter.payload(NewDocument(key: "k", info: [], passages: [passage]), serial: 1)),
    ]
    var recovery = try IndexRecovery(
      Manifest(fingerprint: "f", dimensions: 4), folder: "", files: SystemFiles())
    for (kind, payload) in whole + records {
      try SharedBytes(copying: payload).bytes.withMemoryRebound(to: UInt8.self) { bytes in
        try recovery.take(kind, UnsafeRawBufferPointer(bytes))
      }
    }
    return recovery
  }

  private static let template: [UInt8] = {
    let passage = Passage(text: Array("hello world".utf8), range: 0..<11, rows: [RowKey(high: 1, low: 2)])
    let document = NewDocument(key: "k", info: [], passages: [passage])
    var sink = SegmentSink(nil)
    let vectors: [Float] = [0.5, 0.5, 0.5, 0.5]
    vectors.withUnsafeBufferPointer { vectors in
      let source = SourceDocument(
        key: "k", info: [], serial: 1, passages: document.passages, vectors: vectors)
      try? SegmentWriter(dimensions: 4, documents: [source]).write(to: &sink)
    }
    return sink.pending
  }()

  /// Pairs of a place and a byte change a whole segment.
  private static func segment(_ changes: [UInt8]) {
    var bytes = template
    for at in stride(from: 0, to: changes.count - 2, by: 3) {
      bytes[(Int(changes[at]) << 8 | Int(changes[at + 1])) % bytes.count] = changes[at + 2]
    }
    let end = bytes.count - SegmentFooter.bytes(in: SegmentFooter.version)
    write(Checksum.of(bytes[..<(end - 8)]), to: &bytes, at: end - 8)
    write(Checksum.of(bytes[end..<(bytes.count - 8)]), to: &bytes, at: bytes.count - 8)
    guard let segment = try? Segment(SharedBytes(copying: bytes), path: "s"), segment.footer.dimensions == 4
    else { return }
    var view = IndexView(dimensions: 4)
    view.append(segment, Manifest.Entry(name: "s"))
    use(view)
  }

  private static func write(_ value: UInt64, to bytes: inout [UInt8], at place: Int) {
    for byte in 0..<8 { bytes[place + byte] = UInt8(truncatingIfNeeded: value >> UInt64(8 * byte)) }
  }

  private static func use(_ view: IndexView) {
    if let found = try? view.nearest([0.5, 0.5, 0.5, 0.5], limit: 3) {
      check(found.hits.count <= 3, "a search finds no more than it is asked for")
      for hit in found.hits { _ = try? view.passage(hit) }
    }
    _ = try? view.byWords(WordQuery(Array("hello".utf8)), limit: 3)
    for document in view.documents { _ = try? view.exported(document.key) }
  }

  // MARK: Notes

  private static let names = ["a.md", "a.html", "a.json", "a.csv", "a.swift", "a.jsonl"]

  /// The first byte chooses the kind of file.
  static func notes(_ bytes: [UInt8]) {
    let name = names[Int(bytes.first ?? 0) % names.count]
    guard let source = try? FileReader.read(Array(bytes.dropFirst()), name: name) else { return }
    check(source.text.count <= FileReader.limit, "a text keeps its bound")
    let splitter = Splitter(SplitRules(tokens: 16, overlap: 4), windowTokens: 12) { text in
      text.utf8.count / 4
    }
    var covered = 0
    for passage in splitter.passages(source) {
      check(passage.range.lowerBound <= covered, "passages leave nothing out")
      check(!passage.windows.isEmpty, "a passage has a text for the model")
      covered = max(covered, passage.range.upperBound)
    }
    check(covered == source.text.count, "passages reach the end")
    for word in WordSplitter.words(in: source.text) {
      check(word.range.upperBound <= source.text.count, "a word lies in its text")
    }
    _ = Sentences.ends(source.text, 0..<source.text.count)
  }

  // MARK: The hub

  /// The first byte chooses what the rest is.
  static func hub(_ bytes: [UInt8]) {
    let rest = Array(bytes.dropFirst())
    let text = String(decoding: rest, as: UTF8.self)
    switch bytes.first ?? 0 {
    case 0:
      let entries = (try? JSONValue(parsing: rest))?.arrayValue ?? []
      let files = entries.compactMap { (try? RepositoryFile.read($0)) ?? nil }
      for file in files { check(!file.parts.contains(".."), "a file of a repository stays below it") }
      _ = files.reduce(0) { $0 + $1.bytes }
      _ = FileSelection.problem(with: files)
    case 1:
      let head = Curl.parse(rest[...])
      var patience = Patience()
      _ = patience.pause(after: head)
      _ = Patience.resetSeconds(head["ratelimit"])
    case 2:
      guard let reference = try? ModelReference(text, host: "hub.example") else { return }
      check(!reference.repository.folder.contains("/"), "a repository has one folder")
    case 3:
      guard let name = try? RepositoryName("owner/name") else { return }
      _ = try? FileSelection().files(of: [], index: try? JSONValue(parsing: rest), name)
    default:
      _ = File.matches("model-00001-of-00002.safetensors", pattern: text)
    }
  }

  // MARK: Folders of models

  private static let folder: String = {
    // In memory where there is such a place: an input is six files.
    let path = (File.isDirectory("/dev/shm") ? "/dev/shm" : "/tmp") + "/mlxserve-fuzz-\(getpid())"
    for folder in [path, path + "/1_Pooling", path + "/2_Dense"] { mkdir(folder, 0o700) }
    return path
  }()
  private static let files = [
    "config.json", "model.safetensors", "modules.json", "1_Pooling/config.json", "2_Dense/config.json",
    "config_sentence_transformers.json",
  ]

  /// Files of a folder with a NUL between them; of the weights only the header, before bytes that are there always.
  static func folder(_ bytes: [UInt8]) {
    let parts = bytes.split(separator: 0, omittingEmptySubsequences: false)
    for (name, part) in zip(files, parts) {
      var content = Array(part)
      if name == "model.safetensors" {
        let length = (0..<8).map { UInt8(truncatingIfNeeded: content.count >> ($0 * 8)) }
        let ends = ((try? JSONValue(parsing: content))?.objectValue?.entries ?? []).compactMap {
          $0.value["data_offsets"]?[1]?.intValue
        }
        let data = [UInt8](repeating: 0x3C, count: min(1 << 14, max(0, ends.max() ?? 0)))
        content = length + content + data
      }
      guard (try? File.replace(folder + "/" + name, with: content)) != nil else { return }
    }
    guard let opened = try? ModelFolder(path: folder) else { return }
    _ = try? SentenceFolder(opened)
    _ = try? opened.weights.linear("m", rows: 64, columns: 64)
    _ = try? opened.weights.embedding("m", rows: 64, columns: 64)
  }
}
