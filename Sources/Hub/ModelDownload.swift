// A model from the hub: what it is, what is missing, the missing files side by side, and a whole model at the end.

package import JSON
import Platform

/// What is wanted.
package struct DownloadRequest: Sendable {
  package var reference: ModelReference
  package var selection = FileSelection()
  /// A plain folder instead of the cache.
  package var folder: String?
  /// Files at the same time.
  package var jobs = 4
  /// Bytes per second of all together.
  package var rateLimit: Int?
  /// Ends after the plan.
  package var isDryRun = false
  /// Fetches also what cannot be served.
  package var isForced = false
  /// Judges config.json and the bytes of the weights before gigabytes are fetched: a problem in words, or nil.
  package var judge: @Sendable (_ config: JSONValue, _ weightBytes: Int) -> String? = { _, _ in nil }
  /// Bytes that the weights may take in memory.
  package var memoryLimit: Int?

  package init(_ reference: ModelReference) {
    self.reference = reference
    selection.quantization = reference.quantization
  }
}

/// One download. Run it once.
package final class ModelDownload: Sendable {
  private let request: DownloadRequest
  private let settings: HubSettings
  private let board = DownloadBoard()

  /// How often progress is told, seconds.
  private static let tellSeconds = 0.1
  /// How often somebody else's work on the same file is told, seconds.
  private static let waitSeconds = 10.0
  /// What must stay free on the disk.
  private static let reserveBytes = 1 << 30

  package init(_ request: DownloadRequest, settings: HubSettings) {
    (self.request, self.settings) = (request, settings)
  }

  /// Fetches what is missing. Blocks; any number may run at once, also of the same model.
  ///
  /// - Parameters:
  ///   - isUnwanted: asked ten times a second; what has come stays for the next time.
  ///   - report: called on this thread, ten times a second while bytes come.
  /// - Returns: the folder with the model.
  package func run(
    isUnwanted: () -> Bool = { false }, report: (DownloadEvent) -> Void
  ) throws(HubError) -> String {
    let result = Monitor<Result<String, HubError>?>(nil)
    let worker: Thread
    do {
      worker = try Thread(name: "download") { [self] in
        let ending = conduct()
        result.update { $0 = ending }
        // Wakes whoever waits for an event.
        board.tell(.note(""))
      }
    } catch {
      throw .disk(error)
    }
    let begin = Instant.now
    var meter = SpeedMeter()
    var next = begin
    var isOver = false
    while !isOver {
      isOver = result.withLock { $0 != nil }
      if isUnwanted() { board.cancel() }
      for event in board.events(until: isOver ? begin : Instant.now.adding(seconds: Self.tellSeconds)) {
        if case .note("") = event { continue }
        report(event)
      }
      guard Instant.now >= next || isOver else { continue }
      next = Instant.now.adding(seconds: Self.tellSeconds)
      if let progress = board.progress(&meter, at: Instant.now.seconds(since: begin)) {
        report(.progress(progress))
      }
    }
    worker.join()
    switch result.withLock({ $0 }) {
    case .success(let folder):
      if !request.isDryRun { report(.done(folder: folder)) }
      return folder
    case .failure(let error): throw error
    case nil: throw .cancelled
    }
  }

  // MARK: Steps

  private func conduct() -> Result<String, HubError> {
    do throws(HubError) {
      return .success(try fetch())
    } catch {
      return .failure(error)
    }
  }

  private var repository: RepositoryName { request.reference.repository }
  private var cache: HubCache { HubCache(root: settings.cache) }
  private func note(_ words: String) { board.tell(.note(words)) }

  private func fetch() throws(HubError) -> String {
    let isPlain = request.folder == nil && request.selection.isUsual
    if settings.isOffline { return try present() }
    let client = try HubClient(
      settings,
      session: HubSession(
        isUnwanted: { [board] in board.isUnwanted }, note: { [board] in board.tell(.note($0)) }))
    for warning in settings.warnings { note(warning) }
    let before = cache.commit(of: request.reference)
    let info = try resolve(client)
    if info.isGated { gated() }
    // Nothing to do, and nothing to ask for.
    if isPlain, !request.isDryRun, cache.isReceived(repository, commit: info.commit) {
      try remember(info.commit)
      note("\(repository.text)  \(request.reference.revisionName)@\(info.commit.prefix(7)) is here")
      return cache.snapshot(repository, commit: info.commit)
    }
    var all = cache.tree(repository, commit: info.commit) ?? []
    if all.isEmpty { all = try client.files(repository, commit: info.commit) }
    let target: any DownloadTarget =
      request.folder.map { FolderTarget(folder: $0) }
      ?? CacheTarget(
        cache: cache, reference: request.reference, commit: info.commit, usesLinks: settings.usesLinks)
    if request.selection.isUsual, !request.isForced, let problem = FileSelection.problem(with: all) {
      throw .unsuitable(repository, problem: problem)
    }
    let (files, ahead) = try select(all, client, target, commit: info.commit)
    // What was fetched to make the plan is part of it.
    let isHere = files.map { file in !ahead.contains(file) && target.has(file) }
    let plan = DownloadPlan(
      reference: request.reference, commit: info.commit, previous: before == info.commit ? nil : before,
      files: zip(files, isHere).map { ($0.path, $0.bytes, $1) },
      digests: Dictionary(files.map { ($0.path, $0.digest.digits) }) { $1 }, folder: target.folder,
      licence: info.licence)
    board.tell(.plan(plan))
    if request.isDryRun { return target.folder }
    if plan.missingBytes == 0, isPlain, cache.state(repository, commit: info.commit) == .whole {
      // Also where the cache can only be read.
      try? target.finish(files)
      try? cache.writeReceipt(files, of: repository, commit: info.commit)
      return target.folder
    }
    try target.prepare()
    try checkRoom(plan, target)
    try fetch(zip(files, isHere).filter { !$1 }.map(\.0), client, target, commit: info.commit)
    try target.finish(files)
    if isPlain { try cache.writeReceipt(files, of: repository, commit: info.commit) }
    // Of a quantization the file is the model, or the first of its parts.
    let model = files.map(\.path).filter { request.selection.quantization != nil && $0.hasSuffix(".gguf") }
      .min()
    return model.map { target.folder + "/" + $0 } ?? target.folder
  }

  /// What the cache has, without a connection.
  private func present() throws(HubError) -> String {
    guard let place = cache.wholeSnapshot(of: request.reference), request.folder == nil else {
      throw .offline(what: repository.text, cache: settings.cache)
    }
    return place
  }

  /// A whole commit is what it is; what a name stands for, the hub says.
  private func resolve(_ client: HubClient) throws(HubError) -> RepositoryInfo {
    let revision = request.reference.revisionName
    guard FileDigest.isHexadecimal(revision, count: 40) else {
      return try client.info(repository, revision: revision)
    }
    return RepositoryInfo(commit: revision, isGated: false, licence: nil)
  }

  private func gated() {
    let page = settings.endpoint + "/" + repository.text
    note(
      settings.token == nil
        ? "\(repository.text) is gated: accept its terms at \(page) and set HF_TOKEN"
        : "\(repository.text) is gated: your account needs access (\(page))")
  }

  private func remember(_ commit: String) throws(HubError) {
    let revision = request.reference.revisionName
    let refs = cache.folder(repository) + "/refs"
    guard !commit.hasPrefix(revision), File.isWritable(File.exists(refs) ? refs : cache.folder(repository))
    else { return }
    try cache.write(request.reference, commit: commit)
  }

  /// The files to fetch, and those that have been fetched for it: config.json and the index of the weights decide.
  private func select(
    _ all: [RepositoryFile], _ client: HubClient, _ target: any DownloadTarget, commit: String
  ) throws(HubError) -> (files: [RepositoryFile], ahead: Set<RepositoryFile>) {
    guard request.selection.included.isEmpty, !request.selection.takesAll,
      request.selection.quantization == nil
    else {
      return (try request.selection.files(of: all, index: nil, repository), [])
    }
    var ahead: Set<RepositoryFile> = []
    if !request.isDryRun { try target.prepareUnlessWhole(all) }
    func document(_ name: String) throws(HubError) -> JSONValue? {
      guard let file = all.first(where: { $0.path == name }) else { return nil }
      var paths = [target.place(file), target.folder + "/" + name]
      var passing: PassingFolder?
      defer { withExtendedLifetime(passing) {} }
      if !target.has(file), request.isDryRun {
        let folder: PassingFolder
        do throws(PlatformError) {
          folder = try PassingFolder()
        } catch {
          throw .disk(error)
        }
        passing = folder
        paths = [folder.path + "/file"]
        try fill(
          PartialFile(file, path: paths[0], isUnwanted: { [board] in board.isUnwanted }, report: { _ in }),
          client,
          commit: commit)
      } else if !target.has(file) {
        try fetch(file, client, target, commit: commit, isQuiet: true)
        ahead.insert(file)
      }
      do {
        let path = paths.first { File.exists($0) } ?? paths[0]
        return try JSONValue(parsing: try File.read(path, limit: 64 << 20))
      } catch {
        throw .badAnswer(what: name, problem: String(describing: error))
      }
    }
    let config = try document(FileSelection.configName)
    let index = try document(FileSelection.indexName)
    let files = try request.selection.files(
      of: all, index: index, repository, isForced: request.isForced, note: note)
    guard !request.isForced, let config else { return (files, ahead) }
    let weights = files.reduce(0) { $0 + ($1.path.hasSuffix(".safetensors") ? $1.bytes : 0) }
    if let problem = request.judge(config, weights) { throw .unsuitable(repository, problem: problem) }
    if let limit = request.memoryLimit, weights > limit { throw .noMemory(needed: weights, limit: limit) }
    return (files, ahead)
  }

  private func checkRoom(_ plan: DownloadPlan, _ target: any DownloadTarget) throws(HubError) {
    // What an earlier try has left takes its room already.
    guard plan.missingBytes > 0, let free = File.freeBytes(target.disk) else { return }
    let needed = plan.missingBytes + max(Self.reserveBytes, plan.missingBytes / 50)
    guard free >= needed else { throw .noRoom(needed: needed, free: free, folder: target.disk) }
  }

  // MARK: Files

  /// Fetches files, several at once. The first failure ends the others.
  private func fetch(
    _ files: [RepositoryFile], _ client: HubClient, _ target: any DownloadTarget, commit: String
  ) throws(HubError) {
    // In the cache, files of the same bytes are one blob.
    var seen: Set<FileDigest> = []
    let files = files.filter { request.folder != nil || seen.insert($0.digest).inserted }
    board.setTotal(files.reduce(0) { $0 + $1.bytes })
    let queue = Monitor(files.reversed() as [RepositoryFile])
    let work: @Sendable () -> Void = { [self] in
      while let file = queue.withLock({ $0.popLast() }), !board.isUnwanted {
        do throws(HubError) {
          try fetch(file, client, target, commit: commit, isQuiet: false)
        } catch {
          board.fail(error)
        }
      }
    }
    var threads: [Thread] = []
    for _ in 1..<max(1, min(request.jobs, files.count)) {
      // Without another thread there are fewer at once.
      if let thread = try? Thread(name: "download-file", work) { threads.append(thread) }
    }
    work()
    for thread in threads { thread.join() }
    if let failure = board.failure { throw failure }
    if board.isUnwanted { throw .cancelled }
  }

  /// One file, from what an earlier try has left to the place where it belongs.
  private func fetch(
    _ file: RepositoryFile, _ client: HubClient, _ target: any DownloadTarget, commit: String, isQuiet: Bool
  ) throws(HubError) {
    let lock = try wait(for: file, target)
    defer { withExtendedLifetime(lock) {} }
    if !target.has(file) {
      board.begin(file, .verifying)
      // What is linked is not shared with others before it is right.
      let partial = try PartialFile(
        file, path: target.partial(file), isUnwanted: { [board] in board.isUnwanted },
        report: { [board] in board.set(file, done: $0) })
      try fill(partial, client, commit: commit)
      do {
        try partial.synchronize()
        try makeFolder(of: file, target)
        try File.move(target.partial(file), to: target.place(file))
      } catch let error as PlatformError {
        throw .disk(error)
      } catch let error as HubError {
        throw error
      } catch {
        throw .cancelled
      }
    }
    if !isQuiet { board.end(file) } else { board.forget(file) }
  }

  private func makeFolder(of file: RepositoryFile, _ target: any DownloadTarget) throws {
    guard request.folder != nil else { return }
    try File.makeFolders(file.parts.dropLast(), below: target.folder)
  }

  /// Fetches until the bytes are right; what an earlier try has left may be wrong, so there is a second one.
  private func fill(_ partial: PartialFile, _ client: HubClient, commit: String) throws(HubError) {
    let rate = request.rateLimit.map { max(1, $0 / max(1, request.jobs)) }
    var problem = ""
    for attempt in 0..<2 {
      board.begin(partial.file, .downloading)
      try client.load(partial, of: repository, commit: commit, rateLimit: rate)
      guard let found = partial.problem else { return }
      problem = found
      if attempt == 0 {
        note("\(HubError.plain(partial.file.path)): \(problem); once more from the beginning")
      }
      try partial.restart()
    }
    throw .damaged(file: partial.file.path, problem: problem)
  }

  /// The right to fetch a file; while somebody else has it, what they have done is told.
  ///
  /// - Returns: nil where the file system knows no locks: what counts is the last step, which is one.
  private func wait(for file: RepositoryFile, _ target: any DownloadTarget) throws(HubError) -> FileLock? {
    var next = Instant.now
    while true {
      do {
        if let lock = try FileLock.take(target.lock(file)) { return lock }
      } catch {
        return nil
      }
      if board.isUnwanted { throw .cancelled }
      board.begin(file, .elsewhere)
      if let facts = File.status(target.partial(file)) { board.set(file, done: min(facts.bytes, file.bytes)) }
      if Instant.now >= next {
        note("another download of \(HubError.plain(file.path)) is under way; waiting for it")
        next = Instant.now.adding(seconds: Self.waitSeconds)
      }
      usleep(100_000)
    }
  }
}

extension DownloadTarget {
  /// A cache that can only be read may have everything.
  fileprivate func prepareUnlessWhole(_ files: [RepositoryFile]) throws(HubError) {
    let names = [FileSelection.configName, FileSelection.indexName]
    guard !files.filter({ names.contains($0.path) }).allSatisfy({ has($0) }) else { return }
    try prepare()
  }
}
