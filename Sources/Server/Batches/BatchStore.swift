// Batches of all clients: kept in the archive's folder, given out request by request, and gone on with after a restart.
//
//   batches/ID.json        what is known of it, and once more as ID.copy
//   batches/ID.requests    its requests, one a line, while it is not over
//   batches/ID.output      answers, one a line, sealed until the batch is over
//   batches/ID.errors      what failed, likewise

import HTTP
import JSON
import Platform
import Wire

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
    /// Bytes of its requests and answers that are counted as its client's.
    var held = 0
    /// By `uptime`, when it may have come to its end: the time of day may be wrong, at one start or from one moment on.
    var earliest: Double

    func isExpired(_ now: Int, _ uptime: Double) -> Bool { batch.expires <= now && earliest <= uptime }

    /// Requests that nobody will answer any more.
    var left: [Int] {
      (open.union(next..<max(next, requests.lines.count))).subtracting(isDone).sorted()
    }
  }

  private struct State {
    var entries: [String: Entry] = [:]
    /// Batches whose requests are being written, by owner.
    var beginning: [String: Int] = [:]
    var turn = 0
    var isStopped = false
  }

  /// Batches of one client that are not over.
  static let mostOpen = 100
  /// Batches of one client that are over, and whose results, if there are any, are files: the oldest goes for a new one.
  static let mostOver = 1_000
  /// Room that is taken at once for the answer to a request, as many bytes as an error has in its place.
  private static let bytesPerResult = 512
  /// Bytes that it takes to show one that has failed.
  static let bytesToShow = 128 << 10
  /// Requests of a file.
  static let mostLines = 50_000
  /// Faults of a file that are told.
  private static let mostFaults = 100

  let archive: Archive
  private var files: any FileSystem { archive.files }
  private var folder: String { archive.folder + "/batches" }
  private let state: Monitor<State>
  /// Held while an answer is written: lengths of the files that this process has written to, by their paths, without
  /// what a write has left that failed.
  private let writing = Monitor([String: Int]())

  /// Reads what the archive's folder holds.
  init(_ archive: Archive) {
    self.archive = archive
    state = Monitor(State())
    guard archive.settings.folder != nil else { return }
    do throws(PlatformError) { try recover() } catch {
      Log.error("batches cannot be read", ["folder": folder, "error": "\(error)"])
    }
  }

  private static let results = RequestBatch.resultEndings

  private func path(_ id: String, _ ending: String) -> String { folder + "/" + id + ending }

  // MARK: Recovery

  private func recover() throws(PlatformError) {
    try files.makeFolder(folder)
    let names = try files.names(in: folder)
    let gone = Set(Archive.bases(names, [Archive.gone]))
    for base in gone { archive.forget("batches", base, with: [".requests"] + Self.results) }
    let known = Set(Archive.bases(names, [Archive.json, Archive.copy])).subtracting(gone)
    for base in Archive.bases(names, [".requests"] + Self.results)
    where !known.contains(base) && !gone.contains(base) {
      let isLost = archive.state.withLock { $0.lost.contains("batches/" + base) }
      guard isLost || names.contains(where: { name in Self.results.contains { name == base + $0 } }) else {
        // It was being begun.
        try files.remove(path(base, ".requests"))
        continue
      }
      Log.error("a batch has lost its record", ["batch": base])
    }
    for base in known.sorted() {
      let recorded = try archive.readTwice("batches", base) { value in
        RequestBatch(value).flatMap { $0.id == base ? $0 : nil }
      }
      guard let batch = recorded else { continue }
      var entry = Entry(batch: batch, earliest: archive.settings.uptime() + Self.grace)
      switch batch.phase {
      case .running: try resume(&entry)
      // All is written but its files.
      case .finalizing: entry.batch.phase = .running
      case .ended: break
      }
      entry.held = try bytes(of: entry)
      entry.batch.faults = []
      archive.count(entry.batch.holding + Holding(bytes: entry.held), of: batch.owner)
      let found = entry
      state.withLock { $0.entries[batch.id] = found }
    }
    dropOld()
  }

  /// Seconds after a start before which no batch is taken for expired: clocks are set meanwhile.
  private static let grace = 3_600.0

  /// What a batch has on the disk, and room for the answers that are not there.
  private func bytes(of entry: Entry) throws(PlatformError) -> Int {
    try bytes(of: entry.batch.id, [".requests"] + Self.results)
      + Self.bytesPerResult * max(0, entry.requests.lines.count - entry.isDone.count)
  }

  private func bytes(of id: String, _ endings: [String]) throws(PlatformError) -> Int {
    var bytes = 0
    for ending in endings { bytes += try present(path(id, ending))?.count ?? 0 }
    return bytes
  }

  /// Finds out which requests an earlier process has answered. A line that it did not write to its end is cut off.
  private func resume(_ entry: inout Entry) throws(PlatformError) {
    let id = entry.batch.id
    entry.requests = try requests(of: id)
    entry.batch.counts = RequestBatch.Counts()
    entry.batch.usage = BatchUsage()
    // Requests by their ids, and those that nobody can read any more.
    var known: [ByteKey: Int] = [:]
    var damaged: [Int] = []
    for (index, line) in entry.requests.lines.enumerated() {
      if let content = entry.requests.content, let kept = BatchLine(sealed: content.copy(line), of: id) {
        known[ByteKey(kept.customID)] = index
      } else {
        damaged.append(index)
      }
    }
    let missing = max(0, entry.batch.total - entry.requests.lines.count)
    var nameless = damaged.count + missing
    if nameless > 0 { Log.error("requests of a batch are lost", ["batch": id, "requests": "\(nameless)"]) }
    for (ending, isSuccess) in [(".output", true), (".errors", false)] {
      guard let content = try present(path(id, ending)) else { continue }
      let lines = content.lines(takesRest: false)
      try cut(path(id, ending), to: lines.last.map { $0.upperBound + 1 } ?? 0, of: content.count)
      var whole: [Range<Int>] = []
      for line in lines {
        guard let value = try? SealedRecord.record(content.copy(line), path: "", in: id),
          let customID = value["custom_id"]?.stringValue
        else { continue }
        if let index = known.removeValue(forKey: ByteKey(customID)) {
          entry.isDone.insert(index)
        } else if nameless > 0 {
          nameless -= 1
          if let index = damaged.popLast() { entry.isDone.insert(index) }
        } else {
          // Another batch's.
          continue
        }
        whole.append(line)
        entry.batch.usage.add(value["response"]?["body"]?["usage"])
        count(value, isSuccess, in: &entry.batch.counts)
      }
      guard whole.count < lines.count else { continue }
      Log.error(
        "answers of a batch are damaged, and are made again",
        ["batch": id, "answers": "\(lines.count - whole.count)"])
      try rewrite(id + ending, content, whole)
    }
    entry.batch.counts.errored += min(missing, nameless - damaged.count)
  }

  /// Writes a file of answers anew, with some of its lines alone.
  ///
  /// - Parameter change: what becomes of a line; nil where it is left out.
  private func rewrite(
    _ name: String, _ content: SharedBytes, _ lines: [Range<Int>], _ change: ([UInt8]) -> [UInt8]? = { $0 }
  ) throws(PlatformError) {
    let temporary = folder + "/" + name + ".tmp"
    let descriptor = try files.create(temporary)
    defer { files.close(descriptor) }
    var offset = 0
    for line in lines {
      guard let text = change(content.copy(line)) else { continue }
      let written = text + [0x0A]
      try files.write(written, to: descriptor, at: offset, path: temporary)
      offset += written.count
    }
    try files.flush(descriptor, path: temporary)
    try files.publish(temporary, folder: folder, name: name)
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
    let now = archive.now()
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
    guard let found, found.api == api, Archive.sees(client, found.owner) else { throw .notFound("batch", id) }
    return whole(found)
  }

  /// A batch with what is wrong with its file, which is on the disk alone.
  func whole(_ batch: RequestBatch) -> RequestBatch {
    guard batch.ending == .failed,
      let stored = try? archive.readTwice("batches", batch.id, RequestBatch.init)
    else { return batch }
    var whole = batch
    whole.faults = stored.faults
    return whole
  }

  /// A client's batches, the oldest first, not as a `whole`.
  func batches(_ api: RequestBatch.API, of client: ClientIdentity) -> [RequestBatch] {
    state.withLock { state in
      state.entries.values.map(\.batch).filter { $0.api == api && Archive.sees(client, $0.owner) }
    }.sorted { ($0.created, $0.id) < ($1.created, $1.id) }
  }

  /// The lines that one has answered with, as far as it is over.
  ///
  /// - Throws: 500 for lines that are not those that were stored.
  func results(of batch: RequestBatch) throws(APIError) -> [SharedBytes] {
    let found = try readResults(batch.id)
    guard batch.sums.isEmpty || batch.sums == RequestBatch.sums(found) else {
      guard state.withLock({ $0.entries[batch.id] != nil }) else { throw .notFound("batch", batch.id) }
      Log.error("the results of a batch are damaged", ["batch": batch.id])
      throw APIError(
        status: 500, type: "server_error", code: "file_damaged",
        message: "The results of the batch '\(batch.id)' are not those that were stored.")
    }
    return found.compactMap { $0 }
  }

  private func readResults(_ id: String) throws(APIError) -> [SharedBytes?] {
    try archive.storing { () throws(PlatformError) in
      [try present(path(id, Self.results[0])), try present(path(id, Self.results[1]))]
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
    try begin(batch.owner)
    defer { state.withLock { $0.beginning[batch.owner ?? "", default: 1] -= 1 } }
    var held = 0
    try takeRoom(for: batch)
    do throws(APIError) {
      try archive.storing { () throws(PlatformError) in
        try archive.makeFolders()
        try files.makeFolder(folder)
      }
      var batch = batch
      batch.total = try writeRequests(batch, &held, write)
      try hold(Self.bytesPerLine * batch.total, memory)
      let results = Self.bytesPerResult * batch.total
      try archive.reserve(Holding(bytes: results), for: batch.owner)
      held += results
      let id = batch.id
      let requests = try archive.storing { () throws(PlatformError) -> Requests in try self.requests(of: id) }
      var entry = Entry(
        batch: batch, requests: requests, memory: memory,
        earliest: archive.settings.uptime() + Double(RequestBatch.window))
      entry.held = held
      try keep(entry)
    } catch {
      try? files.remove(path(batch.id, ".requests"))
      archive.count(Holding() - batch.holding - Holding(bytes: held), of: batch.owner)
      throw error
    }
  }

  /// Writes a batch that is new, or has changed, and shows it.
  private func keep(_ entry: Entry) throws(APIError) {
    try archive.changing { () throws(APIError) in
      try archive.write(entry.batch.record, "batches", entry.batch.id + ".json", twice: true)
      state.update { state in
        state.entries[entry.batch.id] = entry
        state.entries[entry.batch.id]?.batch.faults = []
      }
    }
  }

  /// Counts a batch that begins among those under way.
  private func begin(_ owner: String?) throws(APIError) {
    let open = state.withLock { state -> Int? in
      let beginning = state.beginning[owner ?? ""] ?? 0
      let open = state.entries.values.count { !$0.batch.isOver && $0.batch.owner == owner } + beginning
      guard open < Self.mostOpen else { return open }
      state.beginning[owner ?? ""] = beginning + 1
      return nil
    }
    guard let open else { return }
    throw APIError(
      status: 429, type: "rate_limit_error", code: "batch_limit_exceeded",
      message: "There are \(open) batches under way already.", retryAfter: 60)
  }

  /// Takes room for a batch. The oldest of its client's that are over go for it, as far as they have no results of their own.
  private func takeRoom(for batch: RequestBatch) throws(APIError) {
    var over = state.withLock { state in
      state.entries.values.map(\.batch).filter { $0.isOver && $0.api == .openAI && $0.owner == batch.owner }
    }.sorted { ($0.ended ?? 0, $0.id) > ($1.ended ?? 0, $1.id) }
    while over.count >= Self.mostOver, let oldest = over.popLast() { try? remove(oldest) }
    do throws(APIError) {
      try archive.reserve(batch.holding, for: batch.owner)
    } catch {
      // One for one: where others have the room it is not found here.
      guard let oldest = over.popLast() else { throw error }
      try? remove(oldest)
      try archive.reserve(batch.holding, for: batch.owner)
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
    dropOld()
    try takeRoom(for: batch)
    do throws(APIError) {
      try archive.storing { () throws(PlatformError) in
        try archive.makeFolders()
        try files.makeFolder(folder)
      }
      try keep(Entry(batch: batch, earliest: 0))
    } catch {
      archive.count(Holding() - batch.holding, of: batch.owner)
      throw error
    }
  }

  /// Bytes of requests that are written at a time, and a line more.
  private static let partBytes = 64 << 10

  /// Bytes that a client's request claims beside its longest line: a place and an id for each line while they are checked, and
  /// the part that is written, which grows by doubling.
  static func writingBytes(lines: Int) -> Int { 128 * lines + 3 * partBytes }

  /// - Parameter held: grows by what is counted as the client's.
  private func writeRequests(
    _ batch: RequestBatch, _ held: inout Int,
    _ write: (_ line: (BatchLine) throws(APIError) -> Void) throws(APIError) -> Void
  ) throws(APIError) -> Int {
    let path = path(batch.id, ".requests")
    let descriptor = try archive.storing { () throws(PlatformError) in try files.create(path) }
    defer { files.close(descriptor) }
    var (count, offset) = (0, 0)
    var part: [UInt8] = []
    func flush() throws(APIError) {
      try archive.reserve(Holding(bytes: part.count), for: batch.owner)
      held += part.count
      try archive.storing { () throws(PlatformError) in
        try files.write(part, to: descriptor, at: offset, path: path)
      }
      offset += part.count
      part.removeAll(keepingCapacity: true)
    }
    try write { line throws(APIError) in
      part += SealedRecord.bytes(of: line.json, in: batch.id)
      part.append(0x0A)
      count += 1
      if part.count >= Self.partBytes { try flush() }
    }
    try flush()
    try archive.storing { () throws(PlatformError) in
      try files.flush(descriptor, path: path)
      try files.synchronizeFolder(folder)
    }
    return count
  }

  /// Asks a batch to end; what runs of it ends soon.
  func cancel(_ batch: RequestBatch) throws(APIError) -> RequestBatch {
    let changed = state.update { state -> RequestBatch? in
      guard let now = state.entries[batch.id]?.batch, now.phase == .running, now.ending == nil else {
        return nil
      }
      state.entries[batch.id]?.batch.ending = .cancelled
      state.entries[batch.id]?.batch.stopped = archive.now()
      return state.entries[batch.id]?.batch
    }
    guard let changed else {
      guard let now = state.withLock({ $0.entries[batch.id]?.batch }) else {
        throw .notFound("batch", batch.id)
      }
      return now
    }
    try archive.changing { () throws(APIError) in
      // Whoever makes its files meanwhile writes down why it ended too.
      guard state.withLock({ $0.entries[batch.id]?.batch.phase == .running }) else { return }
      try archive.write(changed.record, "batches", batch.id + ".json", twice: true)
    }
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
  ///
  /// - Throws: 404 where it is forgotten already.
  func remove(_ batch: RequestBatch) throws(APIError) {
    try archive.changing { () throws(APIError) in
      guard let held = state.withLock({ $0.entries[batch.id]?.held }) else {
        throw .notFound("batch", batch.id)
      }
      try archive.bury("batches", batch.id)
      state.withLock { $0.entries[batch.id] = nil }
      archive.forget("batches", batch.id, with: [".requests"] + Self.results)
      archive.count(Holding() - batch.holding - Holding(bytes: held), of: batch.owner)
    }
  }

  // MARK: Work

  /// Ends the work of all threads.
  func stop() { state.update { $0.isStopped = true } }

  var isStopped: Bool { state.withLock { $0.isStopped } }

  /// A short sleep that the end of the server cuts shorter.
  func pause(seconds: Double) {
    _ = state.wait(until: Instant.now.adding(seconds: seconds)) { $0.isStopped ? true : nil }
  }

  /// Whether there is something to do.
  var hasWork: Bool { state.withLock { $0.entries.values.contains { !$0.batch.isOver } } }

  /// Whether the answer to a request of this batch is of no use any more.
  func isUnwanted(_ id: String) -> Bool {
    let (now, uptime) = (archive.now(), archive.settings.uptime())
    return state.withLock { state in
      guard let entry = state.entries[id] else { return true }
      return state.isStopped || entry.batch.ending != nil || entry.isExpired(now, uptime)
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
      let (now, uptime) = (archive.now(), archive.settings.uptime())
      let found: Step?? = state.wait(until: Instant.now.adding(seconds: 1)) { state -> Step?? in
        if state.isStopped { return .some(nil) }
        return Self.take(&state, now: now, uptime).map { .some($0) }
      }
      if let found { return found }
    }
  }

  private static func take(_ state: inout State, now: Int, _ uptime: Double) -> Step? {
    for (id, entry) in state.entries where entry.batch.phase == .running {
      if entry.isExpired(now, uptime), entry.batch.ending == nil {
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
  ///
  /// - Throws: an error of the code `Quotas.code` for an answer that its client has no room for.
  func put(_ outcome: BatchOutcome, usage: JSONValue?, of work: BatchWork, customID: String) throws(APIError)
  {
    let id = work.batch.id
    let line = line(outcome, work.batch, work.index, customID)
    let more = Holding(bytes: max(0, line.count - Self.bytesPerResult))
    if outcome.isSuccess, more.bytes > 0 {
      try archive.reserve(more, for: work.batch.owner)
    } else {
      archive.count(more, of: work.batch.owner)
    }
    do throws(APIError) { try append(line, to: id, isSuccess: outcome.isSuccess) } catch {
      archive.count(Holding() - more, of: work.batch.owner)
      throw error
    }
    state.update { $0.entries[id]?.held += more.bytes }
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

  /// A line of answers, sealed while its batch is not over.
  private func line(_ outcome: BatchOutcome, _ batch: RequestBatch, _ index: Int, _ customID: String)
    -> [UInt8]
  {
    let line =
      switch batch.api {
      case .openAI:
        outcome.line(id: "batch_req_\(batch.id.dropFirst("batch_".count))_\(index)", customID: customID)
      case .messages: outcome.messagesLine(customID: customID)
      }
    return SealedRecord.bytes(ofText: line.dropLast(), in: batch.id) + [0x0A]
  }

  /// Makes answers what clients read. Done again, it changes nothing.
  private func unseal(_ id: String, _ ending: String) throws(APIError) {
    try writing.withLock { lengths throws(APIError) in
      let path = path(id, ending)
      try archive.storing { () throws(PlatformError) in
        guard let content = try present(path) else { return }
        // Without what a write has left that failed.
        let lines = content.lines(takesRest: false).filter { $0.upperBound < lengths[path] ?? .max }
        try rewrite(id + ending, content, lines) { line in
          if let text = try? SealedRecord.text(line, path: path, in: id) { return text }
          Log.error("an answer of a batch is damaged, and is left out", ["batch": id])
          return nil
        }
      }
      lengths[path] = nil
    }
  }

  private func append(_ line: [UInt8], to id: String, isSuccess: Bool) throws(APIError) {
    let path = path(id, isSuccess ? ".output" : ".errors")
    try writing.withLock { lengths throws(APIError) in
      let end = try settle(path, &lengths)
      try archive.storing { () throws(PlatformError) in
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
    let end = try archive.storing { () throws(PlatformError) -> Int in
      let descriptor = try files.openToAppend(path)
      defer { files.close(descriptor.number) }
      let end = known ?? descriptor.count
      if descriptor.count > end { try files.cut(descriptor.number, to: end, path: path) }
      return end
    }
    lengths[path] = end
    return end
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
    entry.batch = batch
    try keep(entry)
    for ending in Self.results { try unseal(batch.id, ending) }
    if batch.api == .openAI { try makeFiles(&batch) }
    batch.ended = archive.now()
    batch.phase = .ended
    var over = Entry(batch: batch, earliest: 0)
    if batch.api == .messages {
      let found = try readResults(batch.id)
      over.held = found.reduce(0) { $0 + ($1?.count ?? 0) }
      over.batch.sums = RequestBatch.sums(found)
    }
    try keep(over)
    archive.count(Holding(bytes: over.held - entry.held), of: batch.owner)
    try? files.remove(path(batch.id, ".requests"))
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
      let told = self.line(outcome, entry.batch, index, customID)
      try append(told, to: entry.batch.id, isSuccess: false)
      let more = max(0, told.count - Self.bytesPerResult)
      entry.held += more
      archive.count(Holding(bytes: more), of: entry.batch.owner)
      entry.batch.counts.add(outcome)
      entry.isDone.insert(index)
      // Once written it is not written again, should a later one fail.
      let (counts, id, held) = (entry.batch.counts, entry.batch.id, entry.held)
      state.withLock { state in
        state.entries[id]?.held = held
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
      let isThere = archive.state.withLock { $0.files[id] != nil }
      let bytes = try archive.storing { () throws(PlatformError) in try present(path)?.count }
      guard bytes != nil || isThere else { continue }
      if let bytes {
        var file = FileRecord(
          id: id, owner: batch.owner, bytes: bytes, created: archive.now(),
          name: "\(batch.id)_\(name).jsonl", purpose: "batch_output")
        file.contentType = "application/jsonl"
        file.expires = batch.outputSeconds.map { file.created + $0 }
        try archive.adopt(file, from: path)
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
