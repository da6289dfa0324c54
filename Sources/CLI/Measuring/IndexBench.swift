// `mlxserve bench --index N`: how many searches a second an index of N vectors answers, each way of reading it.

import Compute
import Inference
import JSON
import Platform
import Vectors

/// Measures an index of vectors that lie around centres, a hundred around each, as those of real texts do more or less.
struct IndexBench {
  /// One way to search.
  private struct Measurement {
    let name: String
    /// Searches a second.
    let speed: BenchReport.Spread
    /// The share of the ten nearest that it found.
    var recall = 1.0
    /// Vectors that a search scored in float32.
    var rescored = 0
  }

  /// What an index was found to do.
  private struct Report {
    let rows: Int
    var addSeconds: Double?
    var openSeconds = 0.0
    var firstSeconds = 0.0
    var searches: [Measurement] = []
  }

  private static let dimensions = 384
  private static let documentRows = 10_000
  private static let centreRows = 100
  private static let limit = 10
  private static let queries = 50
  /// Searches at once, and seconds for each way.
  private static let (batch, seconds) = (32, 2.0)

  private let isa: ISA
  private let kernels: ScanKernels
  /// Where indexes are kept; nil for a folder that is deleted at the end.
  private let kept: String?
  private let printsJSON: Bool

  /// - Throws: for an instruction set that this machine lacks.
  init(_ flags: ParsedFlags) throws {
    isa = try flags.word(.isa) ?? CPUFeatures.best
    guard CPUFeatures.available.contains(isa) else {
      throw UsageError.unusable(flag: "isa", reason: "names what this machine does not have")
    }
    kernels = ScanKernels.table(for: isa)
    kept = flags[.indexDir]
    printsJSON = flags[.json]
  }

  func run(_ sizes: [Int]) throws -> Int32 {
    let passing = kept == nil ? try PassingFolder() : nil
    defer { withExtendedLifetime(passing) {} }
    let place = passing?.path ?? kept ?? ""
    if let kept { try SystemFiles().makeFolder(kept) }
    let bandwidth = MemoryBandwidth(threads: 1)
    for rows in sizes {
      let folder = "\(place)/rows-\(rows)"
      defer { if kept == nil { try? File.removeAll(folder) } }
      let report = try measure(rows, folder)
      show(report, bytesPerSecond: bandwidth.read(seconds: 1))
    }
    return 0
  }

  // MARK: Filling

  /// Opens the index, and fills it where that was not done before.
  private func filled(_ rows: Int, _ folder: String) throws -> (index: VectorIndex, addSeconds: Double?) {
    var limits = VectorIndex.Limits()
    limits.logBytes = 1 << 40
    func open() throws(IndexError) -> VectorIndex {
      try VectorIndex(folder: folder, fingerprint: "bench", dimensions: Self.dimensions, limits: limits)
    }
    let index = try open()
    guard index.view.rowCount != rows else { return (index, nil) }
    var bar = ProgressBar()
    defer { bar.clear() }
    var addSeconds: Double?
    for (number, start) in stride(from: 0, to: rows, by: Self.documentRows).enumerated() {
      bar.show(start, of: rows, ["vectors"])
      let numbers = start..<min(start + Self.documentRows, rows)
      let keyed = numbers.map { row in
        (key: RowKey(high: UInt64(row), low: 1), vector: Self.vector(row, of: rows))
      }
      let passages = keyed.map { Passage(text: [UInt8](), range: 0..<0, rows: [$0.key]) }
      let begin = Instant.now
      try index.remember(keyed)
      try index.commit(NewDocument(key: "\(number)", info: [], passages: passages))
      if addSeconds == nil, numbers.count == Self.documentRows {
        addSeconds = Instant.now.seconds(since: begin)
      }
      if number % 20 == 19 { try index.compact() }
    }
    try index.compact(all: true)
    return (index, addSeconds)
  }

  /// A vector of length 1 near its centre.
  private static func vector(_ row: Int, of rows: Int) -> [Float] {
    var centre = NormalNumbers(seed: UInt64(row % max(1, rows / centreRows)) | 1 << 62)
    var own = NormalNumbers(seed: UInt64(row))
    return unit((0..<dimensions).map { _ in centre.next() + 0.4 * own.next() })
  }

  private static func unit(_ vector: [Float]) -> [Float] { RowCode.normalized(vector) ?? vector }

  /// Something near a row.
  private static func query(_ number: Int, of rows: Int) -> [Float] {
    var noise = NormalNumbers(seed: UInt64(number) | 1 << 61)
    return unit(vector(number * (rows / queries), of: rows).map { $0 + 0.02 * noise.next() })
  }

  // MARK: Measuring

  private func measure(_ rows: Int, _ folder: String) throws -> Report {
    var report = Report(rows: rows)
    // Closed before it is opened again: only one may have it.
    report.addSeconds = try filled(rows, folder).addSeconds
    let opened = Instant.now
    let index = try VectorIndex(folder: folder, fingerprint: "bench", dimensions: Self.dimensions)
    report.openSeconds = Instant.now.seconds(since: opened)
    let view = index.view
    let queries = (0..<Self.queries).map { Self.query($0, of: rows) }
    let first = Instant.now
    _ = try view.nearest(queries[0], limit: Self.limit, kernels: kernels)
    report.firstSeconds = Instant.now.seconds(since: first)
    let truth = try queries.map { try search(view, [$0], .exact).first?.hits ?? [] }
    for (name, depth) in [("exact", ScanDepth.exact), ("signs", .signs)] {
      var (right, rescored) = (0, 0)
      for (query, truth) in zip(queries, truth) {
        guard let found = try search(view, [query], depth).first else { continue }
        right += found.hits.count { truth.contains($0) }
        rescored += found.count.rescored
      }
      var next = 0
      let speed = try repeated {
        _ = try search(view, [queries[next % queries.count]], depth)
        next += 1
        return 1
      }
      report.searches.append(
        Measurement(
          name: name, speed: speed, recall: Double(right) / Double(Self.limit * queries.count),
          rescored: rescored / queries.count))
    }
    let many = Array(queries.prefix(Self.batch))
    let together = try repeated {
      _ = try search(view, many, .exact)
      return many.count
    }
    report.searches.append(Measurement(name: "exact, \(Self.batch) together", speed: together))
    report.searches.append(Measurement(name: "exact, 2 threads", speed: try twoThreads(view, queries)))
    return report
  }

  private func search(
    _ view: IndexView, _ queries: [[Float]], _ depth: ScanDepth
  ) throws(IndexError) -> [(hits: [Hit], count: ScanCount)] {
    try view.nearest(queries, limit: Self.limit, depth: depth, kernels: kernels) ?? []
  }

  /// Searches a second of calls that are repeated for a while; each says how many it made.
  private func repeated(_ body: () throws -> Int) rethrows -> BenchReport.Spread {
    var speeds: [Double] = []
    let begin = Instant.now
    while speeds.count < 5 || Instant.now.seconds(since: begin) < Self.seconds {
      let start = Instant.now
      let count = try body()
      speeds.append(Double(count) / max(1e-9, Instant.now.seconds(since: start)))
    }
    return BenchReport.Spread(speeds)
  }

  /// Of both together.
  private func twoThreads(_ view: IndexView, _ queries: [[Float]]) throws -> BenchReport.Spread {
    try repeated {
      let threads = try (0..<2).map { thread in
        try Thread(name: "search", stackBytes: 1 << 20) {
          for query in queries.dropFirst(thread * 10).prefix(10) { _ = try? search(view, [query], .exact) }
        }
      }
      for thread in threads { thread.join() }
      return 20
    }
  }

  // MARK: Words

  private func show(_ report: Report, bytesPerSecond: Double) {
    if printsJSON { return Terminal.print(json(report, bytesPerSecond).text) }
    Terminal.print(
      "\(report.rows) vectors of \(Self.dimensions), \(isa.rawValue), one thread unless it says otherwise")
    var facts =
      "opened in \(fixed(1e3 * report.openSeconds, 1)) ms, first search \(fixed(1e3 * report.firstSeconds, 1)) ms"
    if let seconds = report.addSeconds { facts += ", 10,000 added in \(fixed(seconds, 2)) s" }
    Terminal.print(facts + "; a loop reads \(fixed(bytesPerSecond / 1e9, 1)) GB/s")
    let rows = report.searches.map { search in
      [
        search.name, fixed(search.speed.median, 0),
        "\(fixed(search.speed.least, 0)) to \(fixed(search.speed.largest, 0))", fixed(search.recall, 4),
        "\(search.rescored)",
      ]
    }
    for line in Table.lines(["search", "a second", "from to", "recall@10", "in float32"], rows) {
      Terminal.print(line)
    }
  }

  private func json(_ report: Report, _ bytesPerSecond: Double) -> JSONValue {
    let searches = report.searches.map { search -> JSONValue in
      [
        "name": .string(search.name), "queries_per_second": search.speed.json,
        "recall": .double(search.recall), "rescored": .int(search.rescored),
      ]
    }
    return [
      "rows": .int(report.rows), "dimensions": .int(Self.dimensions), "isa": .string(isa.rawValue),
      "open_seconds": .double(report.openSeconds), "first_seconds": .double(report.firstSeconds),
      "add_10000_seconds": report.addSeconds.map(JSONValue.double) ?? nil,
      "memory_read_bytes_per_second": .double(bytesPerSecond), "searches": .array(searches),
    ]
  }
}

/// Numbers of a normal distribution, the same for the same seed; Box and Muller, 1958.
private struct NormalNumbers {
  private var state: UInt64
  private var spare: Float?

  init(seed: UInt64) { state = seed }

  private mutating func uniform() -> Double {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return (Double((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53
  }

  mutating func next() -> Float {
    if let value = spare {
      spare = nil
      return value
    }
    let (length, angle) = ((-2 * log(uniform())).squareRoot(), 2 * Double.pi * uniform())
    spare = Float(length * sin(angle))
    return Float(length * cos(angle))
  }
}
