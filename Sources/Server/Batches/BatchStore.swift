// Batches of all clients: kept in the library's folder, given out request by request, and gone on with after a restart.
//
//   batches/ID.json        what is known of it
//   batches/ID.requests    its requests, one a line, while it is not over
//   batches/ID.output      answers, one a line
//   batches/ID.errors      what failed, likewise

import HTTP
import JSON
import OpenAI
import Platform

/// What a batch's thread works on.
struct BatchWork: Sendable {
  let batch: RequestBatch
  /// Of the request's line.
  let index: Int
  fileprivate let content: SharedBytes
  fileprivate let range: Range<Int>

  /// Bytes of the line.
  var count: Int { range.count }
  /// A copy of the line, which whoever takes it has claimed.
  var line: [UInt8] { content.copy(range) }

  private static let partBytes = 1 << 16

  /// Bytes that it takes to send the request: the line, its texts, the body, that before it is whole, and its values.
  var weight: Int {
    var values = 0
    for start in stride(from: range.lowerBound, to: range.upperBound, by: Self.partBytes) {
      values += JSONValue.weight(of: content.copy(start..<min(start + Self.partBytes, range.upperBound)))
    }
    return 4 * range.count + min(values, JSONValue.mostRequestWeight)
  }
}

final class BatchStore: Sendable {
  /// The requests of a batch, in a mapped file.
  private struct Requests: Sendable {
    let content: SharedBytes?
    let lines: [Range<Int>]
  }

  private struct Entry: Sendable {
    var batch: RequestBatch
    var requests = Requests(content: nil, lines: [])
    /// What their places take until the batch is over.
    var memory: MemoryLoan?
    /// The first that was never given out.
    var next = 0
    /// Requests whose answers an earlier process has written.
    var isDone: Set<Int> = []
    /// Requests that were given out and are not done.
    var open: Set<Int> = []
    /// When a request of it was last given out, in turns.
    var turn = 0

    /// Requests that nobody will answer any more.
    var left: [Int] {
      (open.union(next..<max(next, requests.lines.count))).subtracting(isDone).sorted()
    }
  }

  private struct State {
    var entries: [String: Entry] = [:]
    var turn = 0
    var isStopped = false
  }

  /// Batches of one client that are not over.
  static let mostOpen = 100
  /// Requests of a file.
  static let mostLines = 50_000
  /// Faults of a file that are told.
  private static let mostFaults = 100

  let library: Library
  private var files: any FileSystem { library.files }
  private var folder: String { library.folder + "/batches" }
  private let state: Monitor<State>
  /// Held while an answer is written: lengths of the files that this process has written to, by their paths, without
  /// what a write has left that failed.
  private let writing = Monitor([String: Int]())

  /// Reads what the library's folder holds.
  init(_ library: Library) {
    self.library = library
    state = Monitor(State())
    guard library.settings.folder != nil else { return }
    do throws(PlatformError) { try recover() } catch {
      Log.error("batches cannot be read", ["folder": folder, "error": "\(error)"])
    }
  }

  private func path(_ id: String, _ ending: String) -> String { folder + "/" + id + ending }

  // MARK: Recovery

  private func recover() throws(PlatformError) {
    try files.makeFolder(folder)
    for name in try files.names(in: folder) where name.hasSuffix(".json") {
      guard let batch = read(name), batch.id + ".json" == name else { continue }
      var entry = Entry(batch: batch)
      switch batch.phase {
      case .running: try resume(&entry)
      // All is written but its files.
      case .finalizing: entry.batch.phase = .running
      case .ended: break
      }
      let found = entry
      state.withLock { $0.entries[batch.id] = found }
    }
    dropOld()
  }

  private func read(_ name: String) -> RequestBatch? {
    do {
      let path = folder + "/" + name
      let value = try SealedRecord.record(try files.read(path, limit: Library.recordBytes), path: path)
      return RequestBatch(value)
    } catch {
      Log.error("a batch cannot be read", ["file": folder + "/" + name, "error": "\(error)"])
      return nil
    }
  }

  /// Finds out which requests an earlier process has answered. A line that it did not write to its end is cut off.
  private func resume(_ entry: inout Entry) throws(PlatformError) {
    let id = entry.batch.id
    entry.requests = try requests(of: id)
    var done: Set<ByteKey> = []
    entry.batch.counts = RequestBatch.Counts()
    entry.batch.usage = BatchUsage()
    for (ending, isSuccess) in [(".output", true), (".errors", false)] {
      guard let content = try present(path(id, ending)) else { continue }
      let lines = content.lines(takesRest: false)
      try cut(path(id, ending), to: lines.last.map { $0.upperBound + 1 } ?? 0, of: content.count)
      for line in lines {
        guard let value = try? JSONValue(parsing: content.copy(line)),
          let customID = value["custom_id"]?.stringValue
        else { continue }
        done.insert(ByteKey(customID))
        entry.batch.usage.add(value["response"]?["body"]?["usage"])
        count(value, isSuccess, in: &entry.batch.counts)
      }
    }
    for (index, line) in entry.requests.lines.enumerated() {
      guard let content = entry.requests.content,
        let value = try? JSONValue(parsing: content.copy(line)), let kept = BatchLine(kept: value)
      else { continue }
      if done.contains(ByteKey(kept.customID)) { entry.isDone.insert(index) }
    }
  }

  private func count(_ line: JSONValue, _ isSuccess: Bool, in counts: inout RequestBatch.Counts) {
    guard !isSuccess else {
      counts.succeeded += 1
      return
    }
    switch line["result"]?["type"]?.stringValue ?? line["error"]?["code"]?.stringValue {
    case "canceled", "batch_cancelled": counts.cancelled += 1
    case "expired", "batch_expired": counts.expired += 1
    default: counts.errored += 1
    }
  }

  private func cut(_ path: String, to count: Int, of bytes: Int) throws(PlatformError) {
    guard count < bytes else { return }
    let descriptor = try files.openForWriting(path)
    defer { files.close(descriptor) }
    try files.cut(descriptor, to: count, path: path)
  }

  /// A mapped file; nil when it is empty or not there.
  private func present(_ path: String) throws(PlatformError) -> SharedBytes? {
    do throws(PlatformError) {
      return try files.mapped(path)
    } catch .file(_, _, ENOENT) {
      return nil
    }
  }

  private func requests(of id: String) throws(PlatformError) -> Requests {
    let content = try present(path(id, ".requests"))
    return Requests(content: content, lines: content?.lines(takesRest: true) ?? [])
  }

  /// Forgets those that ended long ago, by a clock that agrees with the newest.
  private func dropOld() {
    let now = library.now()
    let all = state.withLock { state in
      state.entries.values.map { ($0.batch, $0.batch.ended ?? $0.batch.created) }
    }
    var clock = RecordClock()
    for time in all.map(\.1).sorted() { clock.note(time, gap: RequestBatch.memory) }
    for (batch, time) in all where batch.isOver {
      guard clock.isExpired(time, now: now, after: RequestBatch.memory) else { continue }
      Log.info("a batch that ended long ago is forgotten", ["batch": batch.id])
      try? remove(batch)
    }
  }

  // MARK: What clients see

  /// - Throws: 404 for one that is not there, or another's, or of the other API.
  func batch(_ id: String, _ api: RequestBatch.API, _ client: ClientIdentity) throws(APIError) -> RequestBatch
  {
    let found = state.withLock { $0.entries[id]?.batch }
    guard let found, found.api == api, Library.sees(client, found.owner) else { throw .notFound("batch", id) }
    return found
  }

  /// A client's batches, the oldest first.
  func batches(_ api: RequestBatch.API, of client: ClientIdentity) -> [RequestBatch] {
    state.withLock { state in
      state.entries.values.map(\.batch).filter { $0.api == api && Library.sees(client, $0.owner) }
    }.sorted { ($0.created, $0.id) < ($1.created, $1.id) }
  }

  /// The lines that one has answered with, as far as it is over.
  func results(of batch: RequestBatch) throws(APIError) -> [SharedBytes] {
    try library.storing { () throws(PlatformError) in
      [try present(path(batch.id, ".output")), try present(path(batch.id, ".errors"))].compactMap { $0 }
    }
  }

  /// Bytes that the place of a request takes, and the note that it is done.
  private static let bytesPerLine = 64

  /// Takes a batch whose requests are written line by line.
  ///
  /// - Parameters:
  ///   - memory: where the places of its requests are claimed; the batch holds it until it is over.
  ///   - write: gives each line away.
  func add(
    _ batch: RequestBatch, _ memory: MemoryLoan?,
    _ write: (_ line: (BatchLine) throws(APIError) -> Void) throws(APIError) -> Void
  ) throws(APIError) {
    dropOld()
    let open = state.withLock { state in
      state.entries.values.count { !$0.batch.isOver && $0.batch.owner == batch.owner }
    }
    guard open < Self.mostOpen else {
      throw APIError(
        status: 429, type: "rate_limit_error", code: "batch_limit_exceeded",
        message: "There are \(open) batches under way already.", retryAfter: 60)
    }
    try library.storing { () throws(PlatformError) in
      try library.makeFolders()
      try files.makeFolder(folder)
    }
    do throws(APIError) {
      let count = try writeRequests(batch.id, write)
      var batch = batch
      batch.total = count
      try hold(Self.bytesPerLine * count, memory)
      try save(batch)
      let id = batch.id
      let requests = try library.storing { () throws(PlatformError) -> Requests in try self.requests(of: id) }
      let entry = Entry(batch: batch, requests: requests, memory: memory)
      state.update { $0.entries[batch.id] = entry }
    } catch {
      try? files.remove(path(batch.id, ".requests"))
      throw error
    }
  }

  /// Claims the places of requests: those of all batches are an eighth of the memory at most.
  private func hold(_ bytes: Int, _ memory: MemoryLoan?) throws(APIError) {
    guard let memory else { return }
    let held = state.withLock { state in
      state.entries.values.reduce(0) { $0 + Self.bytesPerLine * $1.requests.lines.count }
    }
    guard held + bytes <= memory.limit / 8 else {
      throw .outOfMemory(needed: held + bytes, limit: memory.limit)
    }
    try claim(bytes, of: memory)
  }

  /// Takes one whose file cannot be used.
  func add(failed batch: RequestBatch) throws(APIError) {
    try library.storing { () throws(PlatformError) in
      try library.makeFolders()
      try files.makeFolder(folder)
    }
    try save(batch)
    state.withLock { $0.entries[batch.id] = Entry(batch: batch) }
  }

  /// Bytes of requests that are written at a time, and a line more.
  private static let partBytes = 64 << 10

  /// Bytes that a client's request claims beside its longest line: a place and an id for each line while they are checked, and
  /// the part that is written, which grows by doubling.
  static func writingBytes(lines: Int) -> Int { 128 * lines + 3 * partBytes }

  private func writeRequests(
    _ id: String, _ write: (_ line: (BatchLine) throws(APIError) -> Void) throws(APIError) -> Void
  ) throws(APIError) -> Int {
    let path = path(id, ".requests")
    let descriptor = try library.storing { () throws(PlatformError) in try files.create(path) }
    defer { files.close(descriptor) }
    var (count, offset) = (0, 0)
    var part: [UInt8] = []
    func flush() throws(APIError) {
      try library.storing { () throws(PlatformError) in
        try files.write(part, to: descriptor, at: offset, path: path)
      }
      offset += part.count
      part.removeAll(keepingCapacity: true)
    }
    try write { line throws(APIError) in
      part += line.json.bytes
      part.append(0x0A)
      count += 1
      guard offset + part.count <= library.settings.clientBytes else {
        throw APIError(
          status: 400, code: "storage_limit_exceeded", message: "The requests are too many bytes to keep.")
      }
      if part.count >= Self.partBytes { try flush() }
    }
    try flush()
    try library.storing { () throws(PlatformError) in
      try files.flush(descriptor, path: path)
      try files.synchronizeFolder(folder)
    }
    return count
  }

  private func save(_ batch: RequestBatch) throws(APIError) {
    try library.write(batch.record, "batches", batch.id + ".json")
  }

  /// Asks a batch to end; what runs of it ends soon.
  func cancel(_ batch: RequestBatch) throws(APIError) -> RequestBatch {
    guard batch.phase == .running, batch.ending == nil else { return batch }
    let changed = state.update { state -> RequestBatch? in
      guard state.entries[batch.id]?.batch.ending == nil else { return state.entries[batch.id]?.batch }
      state.entries[batch.id]?.batch.ending = .cancelled
      state.entries[batch.id]?.batch.stopped = library.now()
      return state.entries[batch.id]?.batch
    }
    guard let changed else { throw .notFound("batch", batch.id) }
    try save(changed)
    return changed
  }

  /// The keys whose requests are being answered, or will be.
  var keysAtWork: Set<UInt64> {
    Set(state.withLock { $0.entries.values.filter { !$0.batch.isOver }.map(\.batch.client.key) }).subtracting(
      [0])
  }

  /// Cancels what was asked for with these keys.
  func cut(keys: Set<UInt64>) {
    let cut = state.withLock { state in
      state.entries.values.map(\.batch).filter { !$0.isOver && keys.contains($0.client.key) }
    }
    for batch in cut { _ = try? cancel(batch) }
  }

  /// Forgets one that is over, with its results.
  func remove(_ batch: RequestBatch) throws(APIError) {
    try library.storing { () throws(PlatformError) in
      try files.removeDurably(folder: folder, name: batch.id + ".json")
    }
    for ending in [".requests", ".output", ".errors"] { try? files.remove(path(batch.id, ending)) }
    state.withLock { $0.entries[batch.id] = nil }
  }

  // MARK: Work

  /// Ends the work of all threads.
  func stop() { state.update { $0.isStopped = true } }

  var isStopped: Bool { state.withLock { $0.isStopped } }

  /// Whether there is something to do.
  var hasWork: Bool { state.withLock { $0.entries.values.contains { !$0.batch.isOver } } }

  /// Whether the answer to a request of this batch is of no use any more.
  func isUnwanted(_ id: String) -> Bool {
    let now = library.now()
    return state.withLock { state in
      guard let batch = state.entries[id]?.batch else { return true }
      return state.isStopped || batch.ending != nil || batch.expires <= now
    }
  }

  /// What a thread is to do next.
  enum Step {
    case answer(BatchWork)
    /// Every request of it is done, or will never be: its files are to be made.
    case finish(RequestBatch)
  }

  /// Waits for the next thing to do; nil when the server ends. Batches take turns, a request each.
  func next() -> Step? {
    while true {
      let now = library.now()
      let found: Step?? = state.wait(until: Instant.now.adding(seconds: 1)) { state -> Step?? in
        if state.isStopped { return .some(nil) }
        return Self.take(&state, now: now).map { .some($0) }
      }
      if let found { return found }
    }
  }

  private static func take(_ state: inout State, now: Int) -> Step? {
    for (id, entry) in state.entries where entry.batch.phase == .running {
      if entry.batch.expires <= now, entry.batch.ending == nil {
        state.entries[id]?.batch.ending = .expired
        state.entries[id]?.batch.stopped = now
      }
    }
    let running = state.entries.values.filter { $0.batch.phase == .running }
    if var over = running.first(where: { $0.open.isEmpty && ($0.batch.ending != nil || hasEnd($0)) }) {
      over.batch.phase = .finalizing
      over.batch.finalized = now
      state.entries[over.batch.id] = over
      return .finish(over.batch)
    }
    let waiting = running.filter { $0.batch.ending == nil && !hasEnd($0) }
    guard var entry = waiting.min(by: { ($0.turn, $0.batch.id) < ($1.turn, $1.batch.id) }),
      let content = entry.requests.content
    else { return nil }
    state.turn += 1
    entry.turn = state.turn
    let index = firstOpen(entry)
    entry.next = index + 1
    entry.open.insert(index)
    state.entries[entry.batch.id] = entry
    return .answer(
      BatchWork(
        batch: entry.batch, index: index, content: content, range: entry.requests.lines[index]))
  }

  private static func firstOpen(_ entry: Entry) -> Int {
    var index = entry.next
    while index < entry.requests.lines.count, entry.isDone.contains(index) || entry.open.contains(index) {
      index += 1
    }
    return index
  }

  private static func hasEnd(_ entry: Entry) -> Bool { firstOpen(entry) >= entry.requests.lines.count }

  /// Keeps what became of a request, so that it outlives a loss of power.
  func put(_ outcome: BatchOutcome, usage: JSONValue?, of work: BatchWork, customID: String) throws(APIError)
  {
    let id = work.batch.id
    try append(line(outcome, work.batch, work.index, customID), to: id, isSuccess: outcome.isSuccess)
    state.update { state in
      state.entries[id]?.batch.counts.add(outcome)
      state.entries[id]?.batch.usage.add(usage)
      state.entries[id]?.isDone.insert(work.index)
      state.entries[id]?.open.remove(work.index)
    }
  }

  /// A request that was given out is not answered: its batch has stopped, or the server ends.
  func giveUp(_ work: BatchWork) {
    state.update { state in
      guard let entry = state.entries[work.batch.id] else { return }
      state.entries[work.batch.id]?.open.remove(work.index)
      state.entries[work.batch.id]?.next = min(entry.next, work.index)
    }
  }

  /// A request whose line is damaged counts as failed: nobody knows any more what it was.
  func passOver(_ work: BatchWork) {
    Log.error("a request of a batch cannot be read", ["batch": work.batch.id, "line": "\(work.index + 1)"])
    state.update { state in
      state.entries[work.batch.id]?.batch.counts.errored += 1
      state.entries[work.batch.id]?.isDone.insert(work.index)
      state.entries[work.batch.id]?.open.remove(work.index)
    }
  }

  private func line(_ outcome: BatchOutcome, _ batch: RequestBatch, _ index: Int, _ customID: String)
    -> [UInt8]
  {
    switch batch.api {
    case .openAI:
      outcome.line(id: "batch_req_\(batch.id.dropFirst("batch_".count))_\(index)", customID: customID)
    case .messages: outcome.messagesLine(customID: customID)
    }
  }

  private func append(_ line: [UInt8], to id: String, isSuccess: Bool) throws(APIError) {
    let path = path(id, isSuccess ? ".output" : ".errors")
    try writing.withLock { lengths throws(APIError) in
      let end = try settle(path, &lengths)
      try library.storing { () throws(PlatformError) in
        let descriptor = try files.openToAppend(path).number
        defer { files.close(descriptor) }
        try files.write(line, to: descriptor, at: end, path: path)
        try files.flush(descriptor, path: path)
        if end == 0 { try files.synchronizeFolder(folder) }
      }
      lengths[path] = end + line.count
    }
  }

  /// Cuts off what a write has left that failed; gives the file's length without it.
  private func settle(_ path: String, _ lengths: inout [String: Int]) throws(APIError) -> Int {
    let known = lengths[path]
    let end = try library.storing { () throws(PlatformError) -> Int in
      let descriptor = try files.openToAppend(path)
      defer { files.close(descriptor.number) }
      let end = known ?? descriptor.count
      if descriptor.count > end { try files.cut(descriptor.number, to: end, path: path) }
      return end
    }
    lengths[path] = end
    return end
  }

  /// The length of a file whose last write may have failed; nil when it is empty or not there.
  private func settled(_ path: String) throws(APIError) -> Int? {
    let content = try library.storing { () throws(PlatformError) in try present(path) }
    guard content != nil else { return nil }
    return try writing.withLock { lengths throws(APIError) in try settle(path, &lengths) }
  }

  /// Makes the files of a batch that is over, and says so.
  ///
  /// - Parameter memory: where lines are claimed that are read once more.
  func finish(_ batch: RequestBatch, _ memory: MemoryLoan?) throws(APIError) {
    guard var entry = state.withLock({ $0.entries[batch.id] }) else { return }
    try writeRest(&entry, memory)
    var batch = entry.batch
    if batch.ending == nil { batch.ending = .completed }
    batch.phase = .finalizing
    try save(batch)
    switch batch.api {
    case .openAI: try makeFiles(&batch)
    case .messages: for ending in [".output", ".errors"] { _ = try settled(path(batch.id, ending)) }
    }
    batch.ended = library.now()
    batch.phase = .ended
    try save(batch)
    try? files.remove(path(batch.id, ".requests"))
    let done = batch
    state.update { $0.entries[done.id] = Entry(batch: done) }
    writing.withLock { lengths in
      for ending in [".output", ".errors"] { lengths[path(done.id, ending)] = nil }
    }
    Log.info(
      "a batch is over",
      [
        "batch": batch.id, "because": batch.ending?.rawValue ?? "", "succeeded": "\(batch.counts.succeeded)",
        "errored": "\(batch.counts.errored)",
      ])
  }

  /// Tells of requests that were not answered. OpenAI's clients hear nothing of those that were cancelled.
  private func writeRest(_ entry: inout Entry, _ memory: MemoryLoan?) throws(APIError) {
    guard entry.batch.ending == .cancelled || entry.batch.ending == .expired,
      let content = entry.requests.content
    else { return }
    let outcome: BatchOutcome = entry.batch.ending == .expired ? .expired : .cancelled
    guard entry.batch.api == .messages || outcome == .expired else { return }
    let longest = entry.left.reduce(0) { max($0, entry.requests.lines[$1].count) }
    try claim(2 * longest, of: memory)
    for index in entry.left {
      let line = content.copy(entry.requests.lines[index])
      guard let customID = BatchLine.member("custom_id", of: line)?.stringValue else { continue }
      try append(self.line(outcome, entry.batch, index, customID), to: entry.batch.id, isSuccess: false)
      entry.batch.counts.add(outcome)
      entry.isDone.insert(index)
      // Once written it is not written again, should a later one fail.
      let (counts, id) = (entry.batch.counts, entry.batch.id)
      state.withLock { state in
        state.entries[id]?.isDone.insert(index)
        state.entries[id]?.batch.counts = counts
      }
    }
  }

  /// The files get their ids before they move: a process that goes on with this finds them by their ids.
  private func makeFiles(_ batch: inout RequestBatch) throws(APIError) {
    let suffix = String(batch.id.dropFirst("batch_".count))
    for (ending, name) in [(".output", "output"), (".errors", "error")] {
      let path = path(batch.id, ending)
      let id = "file-\(name)\(suffix)"
      let isThere = library.state.withLock { $0.files[id] != nil }
      let bytes = try settled(path)
      guard bytes != nil || isThere else { continue }
      if let bytes {
        var file = FileRecord(
          id: id, owner: batch.owner, bytes: bytes, created: library.now(),
          name: "\(batch.id)_\(name).jsonl", purpose: "batch_output")
        file.contentType = "application/jsonl"
        file.expires = batch.outputSeconds.map { file.created + $0 }
        try library.adopt(file, from: path)
      }
      if ending == ".output" { batch.outputFile = id } else { batch.errorFile = id }
    }
  }

  /// Runs a batch on whose files could not be made, so that they are made again.
  func postpone(_ batch: RequestBatch) {
    state.update { $0.entries[batch.id]?.batch.phase = .running }
  }

  /// A batch's file that cannot be used: what is told of it.
  static func faults(_ errors: [(line: Int, error: APIError)]) -> [JSONValue] {
    errors.prefix(mostFaults).map { line, error in
      [
        "code": error.code.map(JSONValue.string) ?? nil, "message": .string(error.message),
        "param": error.param.map(JSONValue.string) ?? nil, "line": .int(line),
      ]
    }
  }
}
