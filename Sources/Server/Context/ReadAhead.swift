// Prompts that will likely come again, computed while nobody waits: those of the last conversations, and with them the
// instructions and tools that they begin with.
//
// After a restart, an update of the server or a time when memory was short, what was computed of them may be gone. Their
// tokens lie in a file beside the saved prefixes. When the engine has had nothing to do for a while, each is asked for again
// by a request that gives way to all others: what is there is found, the rest is computed, and saved.

import HTTP
import Inference
import JSON
import Pipeline
import Platform

final class ReadAhead: Sendable {
  /// What a prompt will likely begin with.
  private struct Beginning: Equatable {
    let tenant: UInt64
    let tokens: [Int32]

    var json: JSONValue {
      ["tenant": .string(String(tenant, radix: 16)), "tokens": .array(tokens.map { .int(Int($0)) })]
    }

    init(tenant: UInt64, tokens: [Int32]) { (self.tenant, self.tokens) = (tenant, tokens) }

    init?(_ json: JSONValue) {
      guard let tenant = json["tenant"]?.stringValue.flatMap({ UInt64($0, radix: 16) }),
        let tokens = json["tokens"]?.arrayValue?.compactMap({ $0.intValue.flatMap(Int32.init(exactly:)) }),
        tokens.count >= ReadAhead.leastTokens
      else { return nil }
      self.init(tenant: tenant, tokens: tokens)
    }
  }

  /// What is known of one model.
  private struct Known {
    /// The latest last.
    var beginnings: [Beginning] = []
    var isChanged = false
    /// Whether the beginnings have been looked for since the model was loaded.
    var isFresh = true
    /// Blocks that its engine had given up when they were.
    var givenUp = 0
    /// Since when it has nothing to do.
    var quietSince: Instant?
  }

  private struct State {
    var models: [String: Known] = [:]
    var isStopped = false
  }

  private let folder: String
  private let models: ModelFleet
  private let files: any FileSystem
  private let quiet: Double
  private let state = Monitor(State())
  private let thread = Monitor<Thread?>(nil)

  /// Shorter prompts are soon computed.
  static let leastTokens = 256
  /// Beginnings of one model, and tokens of all of them.
  private static let (most, mostTokens) = (8, 1 << 17)
  private static let stackBytes = 1 << 20
  private static let fileLimit = 8 << 20
  /// How often the engines are looked at, seconds.
  private static let tick = 0.5

  /// - Parameters:
  ///   - folder: where prefixes outlive the server.
  ///   - quiet: seconds without work after which something is read ahead.
  init(_ folder: String, models: ModelFleet, files: any FileSystem = SystemFiles(), quiet: Double = 2) {
    (self.folder, self.models, self.files, self.quiet) = (folder, models, files, quiet)
  }

  /// Takes note of a conversation as far as it has been computed, in place of its earlier turns.
  func note(_ tokens: [Int32], tenant: UInt64, model: String) {
    guard tokens.count >= Self.leastTokens, tokens.count <= Self.mostTokens else { return }
    load(model)
    state.withLock { state in
      guard var known = state.models[model] else { return }
      known.beginnings.removeAll {
        $0.tenant == tenant && zip($0.tokens, tokens).prefix { $0 == $1 }.count >= $0.tokens.count / 4 * 3
      }
      known.beginnings.append(Beginning(tenant: tenant, tokens: tokens))
      var sum = known.beginnings.reduce(0) { $0 + $1.tokens.count }
      while known.beginnings.count > Self.most || sum > Self.mostTokens {
        sum -= known.beginnings.removeFirst().tokens.count
      }
      known.isChanged = true
      state.models[model] = known
    }
  }

  // MARK: The thread

  func start() {
    let thread = try? Thread(name: "read ahead", stackBytes: Self.stackBytes) { [self] in
      while !isStopped(after: Self.tick) { for name in models.allNames { look(at: name) } }
      for model in state.withLock({ Array($0.models.keys) }) { save(model) }
    }
    self.thread.withLock { $0 = thread }
  }

  func stop() {
    state.update { $0.isStopped = true }
    let thread = thread.withLock { thread in
      defer { thread = nil }
      return thread
    }
    thread?.join()
  }

  private func isStopped(after seconds: Double) -> Bool {
    state.wait(until: Instant.now.adding(seconds: seconds)) { $0.isStopped ? true : nil } ?? false
  }

  private func look(at model: String) {
    guard let lease = try? models.lease(model, loads: false), let service = try? lease.model.generator()
    else {
      // What its engine had in memory goes with it.
      return state.withLock { $0.models[model]?.isFresh = true }
    }
    let statistics = service.statistics
    let isIdle = statistics.running == 0 && statistics.waiting == 0
    load(model)
    if isIdle { save(model) }
    let isDue = state.withLock { state -> Bool in
      guard var known = state.models[model] else { return false }
      defer { state.models[model] = known }
      known.quietSince = isIdle ? known.quietSince ?? .now : nil
      guard let since = known.quietSince, Instant.now.seconds(since: since) >= quiet else { return false }
      return known.isFresh || known.givenUp != statistics.prefixBlocksGivenUp
    }
    guard isDue else { return }
    // As long as its prompts are read, the model stays.
    defer { withExtendedLifetime(lease) {} }
    // Half of what memory keeps: the rest is for others.
    var room = statistics.prefixBlocksMost * statistics.blockTokens / 2
    for beginning in state.withLock({ $0.models[model]?.beginnings.reversed() ?? [] }) {
      room -= beginning.tokens.count
      guard room >= 0, compute(beginning, service) else { break }
    }
    let givenUp = service.statistics.prefixBlocksGivenUp
    state.withLock {
      $0.models[model]?.isFresh = false
      $0.models[model]?.givenUp = givenUp
      $0.models[model]?.quietSince = nil
    }
  }

  /// False when the server ends.
  private func compute(_ beginning: Beginning, _ service: any GenerationService) -> Bool {
    var request = GenerationRequest(promptTokens: beginning.tokens, maxTokens: 1)
    request.tenant = beginning.tenant
    (request.givesWay, request.keepsPrefix) = (true, true)
    // What the model cannot take any more is passed over.
    guard let work = try? service.submit(request) else { return true }
    defer { work.cancel() }
    while !isStopped(after: 0) {
      switch work.next(until: Instant.now.adding(seconds: Self.tick)) {
      case .element(.finished), .element(.failed), .closed: return true
      case .element, .timedOut: continue
      }
    }
    return false
  }

  // MARK: The file

  private func name(_ model: String) -> String {
    "likely-\(SHA256.hexadecimal(SHA256.digest(Array(model.utf8))).prefix(16)).json"
  }

  /// Has what an earlier process has noted.
  private func load(_ model: String) {
    guard state.withLock({ $0.models[model] == nil }) else { return }
    let known = read(model)
    state.withLock { $0.models[model] = $0.models[model] ?? known }
  }

  private func read(_ model: String) -> Known {
    var known = Known()
    guard let bytes = try? files.read(folder + "/" + name(model), limit: Self.fileLimit),
      let json = try? JSONValue(parsing: bytes)
    else { return known }
    known.beginnings = (json["prompts"]?.arrayValue ?? []).suffix(Self.most).compactMap(Beginning.init)
    return known
  }

  /// Where the disk does not take it, the next restart reads less ahead.
  private func save(_ model: String) {
    let beginnings = state.withLock { state -> [Beginning]? in
      guard state.models[model]?.isChanged == true else { return nil }
      state.models[model]?.isChanged = false
      return state.models[model]?.beginnings
    }
    guard let beginnings else { return }
    let json: JSONValue = ["model": .string(model), "prompts": .array(beginnings.map(\.json))]
    do throws(PlatformError) {
      try files.makeFolder(folder)
      try files.writeDurably(json.bytes, folder: folder, name: name(model))
    } catch {
      Log.warning("what is to be read ahead is not saved", ["error": "\(error)"])
    }
  }
}
