// GET /metrics: the counters in Prometheus' text format.
//
// Families that vLLM has too carry its names, so that dashboards made for it work; the others begin with `mlxserve_`
// or, where Prometheus' own clients have a name, with `process_`.

import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Search

struct MetricsRoute {
  private let state: Metrics.State
  private let version: String
  private let startSeconds: Double
  /// Every served model with what its engine does now.
  private let engines: [(model: String, state: EngineStatistics)]
  /// Every served encoder with what it has done.
  private let encoders: [(model: String, state: EmbeddingStatistics)]
  private let memory: MemoryLedger.Snapshot
  private let store: StoreHealth
  /// What searches and indexing have done; set before `write`.
  var archive = ArchiveFacts()
  private var out = MetricsText()

  static func table(_ server: ServerContext) -> RouteTable {
    RouteTable(
      .openAI,
      [
        .get(
          "/metrics", "metrics", "Counters in Prometheus' text format", for: .admins, gives: "Text",
          { _, _ in respond(server) }
        ) { $0.contentType = "text/plain" }
      ])
  }

  private static func respond(_ server: ServerContext) -> Response {
    let metrics = server.settings.metrics
    server.models.observe()
    var route = MetricsRoute(
      metrics.snapshot(), version: server.settings.version, startSeconds: metrics.startSeconds,
      engines: server.models.statuses.compactMap { status in
        status.model.map { (status.source.id, $0.statistics()) }
      },
      encoders: server.models.statuses.compactMap { status in
        status.model?.loaded.embedder.map { (status.source.id, $0.service.embeddingStatistics) }
      }, memory: server.models.ledger.snapshot(), store: server.settings.storeHealth)
    route.archive = server.settings.archive?.facts ?? ArchiveFacts()
    return Response(contentType: MetricsText.contentType, bytes: Array(route.write().utf8))
  }

  init(
    _ state: Metrics.State, version: String, startSeconds: Double,
    engines: [(model: String, state: EngineStatistics)],
    encoders: [(model: String, state: EmbeddingStatistics)] = [], memory: MemoryLedger.Snapshot,
    store: StoreHealth = StoreHealth()
  ) {
    (self.state, self.version, self.startSeconds) = (state, version, startSeconds)
    (self.engines, self.encoders, self.memory) = (engines, encoders, memory)
    self.store = store
  }

  mutating func write() -> String {
    writeEngines()
    writeEncoders()
    writeAnswers()
    writeHistograms()
    writeOwn()
    writeStore()
    writeArchive()
    writeMemory()
    writeProcess(.now)
    return out.text
  }

  // MARK: Models

  /// A family with one sample for each engine.
  private mutating func engineFamily(
    _ name: String, _ kind: MetricsText.Kind, _ help: String, _ value: (EngineStatistics) -> Int
  ) {
    out.begin(name, kind, help)
    for engine in engines { out.sample(value(engine.state), [("model_name", engine.model)]) }
  }

  private mutating func writeEngines() {
    engineFamily("vllm:num_requests_running", .gauge, "Requests that are computed now.", \.running)
    engineFamily("vllm:num_requests_waiting", .gauge, "Requests that wait for a place.", \.waiting)
    out.begin("vllm:kv_cache_usage_perc", .gauge, "Part of the KV cache that running requests hold, 0 to 1.")
    for engine in engines {
      let part = Double(engine.state.kvBlocksHeld) / Double(max(1, engine.state.kvBlocksTotal))
      out.sample(min(1, part), [("model_name", engine.model)])
    }
    engineFamily(
      "vllm:num_preemptions_total", .counter, "Requests that gave their KV blocks back for a while.",
      \.preemptions)
    engineFamily(
      "mlxserve_prefix_lost_tokens_total", .counter,
      "Tokens that were given up of the prefix cache, and then computed again.", \.prefixLostTokens)
    engineFamily(
      "mlxserve_read_ahead_tokens_total", .counter,
      "Tokens that were computed ahead for prompts that nobody had sent yet.", \.aheadTokens)
    for (name, help, value) in [
      ("seconds", "Time of the steps that did it.", { $0.aheadSeconds }),
      ("cpu_seconds", "Processor time of all threads meanwhile.", { $0.aheadCPUSeconds }),
      ("joules", "Energy of the machine's processors meanwhile, where the system tells it.", \.aheadJoules),
    ] as [(String, String, (EngineStatistics) -> Double?)] {
      out.begin("mlxserve_read_ahead_\(name)_total", .counter, help)
      for engine in engines {
        if let number = value(engine.state) { out.sample(number, [("model_name", engine.model)]) }
      }
    }
    engineFamily("vllm:spec_decode_num_drafts_total", .counter, "Guesses that were verified.", \.drafts)
    engineFamily(
      "vllm:spec_decode_num_draft_tokens_total", .counter, "Tokens of those guesses.", \.draftedTokens)
    engineFamily(
      "vllm:spec_decode_num_accepted_tokens_total", .counter, "Guessed tokens that held.", \.acceptedTokens)
    engineFamily("mlxserve_engine_steps_total", .counter, "Forward passes.", \.steps)
    out.begin(
      "mlxserve_kv_blocks", .gauge, "KV blocks by use; used ones hold something, cached ones a prefix.")
    for engine in engines {
      let numbers = [
        ("total", engine.state.kvBlocksTotal), ("used", engine.state.kvBlocksUsed),
        ("cached", engine.state.kvBlocksCached),
      ]
      for (use, number) in numbers { out.sample(number, [("model_name", engine.model), ("use", use)]) }
    }
  }

  /// A family with one sample for each encoder; none where there are no encoders.
  private mutating func encoderFamily<Value>(
    _ name: String, _ kind: MetricsText.Kind, _ help: String, _ value: (EmbeddingStatistics) -> Value,
    _ write: (inout MetricsText, Value, [(String, String)]) -> Void
  ) {
    out.begin(name, kind, help)
    for encoder in encoders { write(&out, value(encoder.state), [("model_name", encoder.model)]) }
  }

  private mutating func writeEncoders() {
    func count(_ out: inout MetricsText, _ value: Int, _ labels: [(String, String)]) {
      out.sample(value, labels)
    }
    encoderFamily("mlxserve_embed_texts_total", .counter, "Texts that were encoded.", \.texts, count)
    encoderFamily("mlxserve_embed_tokens_total", .counter, "Tokens of those texts.", \.tokens, count)
    encoderFamily(
      "mlxserve_embed_cache_hits_total", .counter, "Texts whose vectors were still there.", \.cacheHits, count
    )
    encoderFamily(
      "mlxserve_rerank_pairs_total", .counter, "Pairs of texts, and texts, that were scored.", \.pairs, count)
    encoderFamily(
      "mlxserve_embed_reused_tokens_total", .counter,
      "Tokens that were not computed, because texts with the same beginning had been.", \.reusedTokens, count)
    encoderFamily("mlxserve_embed_steps_total", .counter, "Forward passes of encoders.", \.steps, count)
    encoderFamily("mlxserve_embed_step_seconds_total", .counter, "Time of those passes.", \.seconds) {
      $0.sample($1, $2)
    }
    for (name, help, value) in [
      ("mlxserve_embed_seconds", "Time of requests for vectors.", \Metrics.Model.embedding),
      ("mlxserve_rerank_seconds", "Time of requests for scores.", \Metrics.Model.reranking),
    ] {
      out.begin(name, .histogram, help)
      for encoder in encoders {
        let counts = state.models[ByteKey(encoder.model)] ?? Metrics.Model()
        out.sample(counts[keyPath: value], [("model_name", encoder.model)])
      }
    }
    encoderFamily(
      "mlxserve_embed_requests_waiting", .gauge, "Requests with texts that no pass holds yet.", \.waiting,
      count)
  }

  /// Every served model, with zeros where nothing has been counted yet, and those that were served before.
  private var models: [(name: String, counts: Metrics.Model)] {
    var models = state.models.map { (name: $0.key.string, counts: $0.value) }
    for engine in engines where !models.contains(where: { $0.name.utf8.elementsEqual(engine.model.utf8) }) {
      models.append((engine.model, Metrics.Model()))
    }
    return models.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
  }

  private mutating func counter(_ name: String, _ help: String, _ value: (Metrics.Model) -> Int) {
    out.begin(name, .counter, help)
    for model in models { out.sample(value(model.counts), [("model_name", model.name)]) }
  }

  private mutating func writeAnswers() {
    counter("vllm:prompt_tokens_total", "Tokens of prompts.", \.promptTokens)
    counter("vllm:generation_tokens_total", "Generated tokens.", \.generatedTokens)
    counter("vllm:prefix_cache_queries_total", "Prompt tokens looked for in the cache.", \.promptTokens)
    counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the cache.", \.cachedTokens)
    counter(
      "mlxserve_moving_prompts_total", "Prompts that change in front of what was sent.",
      \.movingPrompts)
    counter(
      "mlxserve_moved_tokens_total", "Tokens behind such changes, which are computed again.", \.movedTokens)
    out.begin("vllm:request_success_total", .counter, "Requests that have ended, by reason.")
    for model in models {
      for ending in AnswerEnding.allCases {
        out.sample(
          model.counts.endings[ending] ?? 0,
          [("model_name", model.name), ("finished_reason", ending.rawValue)])
      }
    }
    out.begin("mlxserve_requests_aborted_total", .counter, "Requests that were begun and not finished.")
    for model in models {
      for reason in AbortReason.allCases {
        out.sample(
          model.counts.failures[reason] ?? 0, [("model_name", model.name), ("reason", reason.rawValue)])
      }
    }
  }

  private mutating func histogram(
    _ name: String, _ help: String, _ value: (Metrics.Model) -> Histogram
  ) {
    out.begin(name, .histogram, help)
    for model in models { out.sample(value(model.counts), [("model_name", model.name)]) }
  }

  private mutating func writeHistograms() {
    histogram("vllm:time_to_first_token_seconds", "From the request to the first token.", \.firstToken)
    histogram("vllm:inter_token_latency_seconds", "Between two tokens of a request.", \.betweenTokens)
    histogram(
      "vllm:request_time_per_output_token_seconds", "Mean time between the tokens of a request.", \.perToken)
    histogram("vllm:e2e_request_latency_seconds", "From the request to its end.", \.total)
    histogram("vllm:request_queue_time_seconds", "Time in the queue.", \.queued)
    histogram("vllm:request_prefill_time_seconds", "From the queue to the first token.", \.prefill)
    histogram("vllm:request_decode_time_seconds", "From the first token to the end.", \.decode)
    histogram("vllm:request_inference_time_seconds", "From the queue to the end.", \.inference)
    histogram("vllm:request_prompt_tokens", "Tokens of a prompt.", \.promptSizes)
    histogram("vllm:request_generation_tokens", "Generated tokens of a request.", \.answerSizes)
    histogram(
      "vllm:request_max_num_generation_tokens", "Generated tokens of the longest choice.", \.longestChoices)
    histogram("vllm:request_params_max_tokens", "Most tokens that a request may generate.", \.tokenLimits)
    histogram("vllm:request_params_n", "Choices of a request.", \.choices)
  }

  // MARK: The server

  private mutating func writeOwn() {
    out.begin("mlxserve_build_info", .gauge, "Always 1; the version is a label.")
    out.sample(1, [("version", version)])
    out.begin("mlxserve_http_responses_total", .counter, "Responses by method, route and status.")
    let exchanges = state.exchanges.sorted {
      ($0.key.route, $0.key.method, $0.key.status) < ($1.key.route, $1.key.method, $1.key.status)
    }
    for (exchange, count) in exchanges {
      out.sample(
        count,
        [("method", exchange.method), ("route", exchange.route), ("status", "\(exchange.status)")])
    }
    out.begin("mlxserve_http_errors_total", .counter, "Responses that tell of an error, by its code.")
    for (code, count) in state.errors.sorted(by: { $0.key < $1.key }) { out.sample(count, [("code", code)]) }
    out.begin("mlxserve_http_cut_responses_total", .counter, "Responses that did not reach their end.")
    out.sample(state.cutResponses)
    let keys = state.keys.sorted { $0.key.string.utf8.lexicographicallyPrecedes($1.key.string.utf8) }
    func family(_ name: String, _ help: String, _ value: (Metrics.Usage) -> Int) {
      out.begin(name, .counter, help)
      for (key, usage) in keys { out.sample(value(usage), [("key", key.string)]) }
    }
    family("mlxserve_key_requests_total", "Requests by the name of their key.", \.requests)
    family("mlxserve_key_prompt_tokens_total", "Prompt tokens by key.", \.promptTokens)
    family("mlxserve_key_generation_tokens_total", "Generated tokens by key.", \.generatedTokens)
  }

  private mutating func writeStore() {
    out.begin(
      "mlxserve_store_failures_total", .counter,
      "Changes of responses and conversations that were not stored.")
    out.sample(store.failures)
    out.begin("mlxserve_store_failing", .gauge, "1 when the last change was not stored, else 0.")
    out.sample(store.isFailing ? 1 : 0)
    out.begin(
      "mlxserve_store_lost_records", .gauge,
      "Records that were missing, damaged or older than they should be when the server started.")
    out.sample(store.lost)
  }

  private mutating func writeArchive() {
    let counts = archive.counts
    out.begin("mlxserve_search_seconds", .histogram, "Time of searches in vector stores, by phase.")
    for phase in SearchTimes().phases.map(\.name) + ["all"] {
      out.sample(counts.seconds[phase] ?? Histogram(bounds: Histogram.searchSeconds), [("phase", phase)])
    }
    out.begin("mlxserve_search_candidates", .histogram, "Vectors that a search has scored in float32.")
    out.sample(counts.candidates)
    out.begin("mlxserve_search_results_total", .counter, "Results, by whether vectors could be used.")
    for (number, degraded) in ["none", "lexical"].enumerated() {
      out.sample(counts.results[number], [("degraded", degraded)])
    }
    out.begin("mlxserve_file_search_citations_total", .counter, "Citations that models wrote.")
    for (number, kind) in ["made", "invented"].enumerated() {
      out.sample(state.citations[number], [("kind", kind)])
    }
    out.begin("mlxserve_searches_total", .counter, "Searches in vector stores.")
    out.sample(counts.searches)
    out.begin(
      "mlxserve_searches_degraded_total", .counter, "Searches by words alone while an index was built anew.")
    out.sample(counts.degraded)
    out.begin("mlxserve_searches_refused_total", .counter, "Searches that found too many others waiting.")
    out.sample(counts.refused)
    out.begin("mlxserve_search_rows_total", .counter, "Vectors that searches have read.")
    out.sample(counts.rows)
    out.begin("mlxserve_search_rescored_total", .counter, "Vectors that searches have scored in float32.")
    out.sample(counts.rescored)
    out.begin("mlxserve_explain_sentences_total", .counter, "Sentences that explaining results took.")
    out.sample(counts.sentences.read, [("kind", "read")])
    out.sample(counts.sentences.spared, [("kind", "spared")])
    out.begin(
      "mlxserve_explain_unknown_total", .counter, "Explained results of whose sentences nothing was kept.")
    out.sample(counts.sentences.unknown)
    out.begin("mlxserve_index_files_total", .counter, "Files that were indexed.")
    out.sample(counts.indexedFiles)
    out.begin("mlxserve_index_chunks_total", .counter, "Chunks that were indexed.")
    out.sample(counts.indexedChunks)
    out.begin(
      "mlxserve_index_texts_total", .counter, "Texts that were embedded for indexes; known ones are not.")
    out.sample(counts.encodedTexts)
    out.begin("mlxserve_index_failures_total", .counter, "Files that could not be indexed.")
    for code in ["unsupported_file", "invalid_file", "server_error"] {
      out.sample(counts.failures[code] ?? 0, [("code", code)])
    }
    out.begin("mlxserve_index_queue_files", .gauge, "Files that wait to be indexed.")
    out.sample(archive.waiting)
    out.begin("mlxserve_index_bytes", .gauge, "Bytes of open indexes, in mapped files and in memory.")
    out.sample(archive.fileBytes, [("kind", "file")])
    out.sample(archive.sideBytes, [("kind", "sentences")])
    out.sample(archive.memoryBytes, [("kind", "memory")])
    out.begin("mlxserve_index_read_chunks", .gauge, "Chunks of open indexes whose sentences are kept.")
    out.sample(archive.readChunks)
    out.begin("mlxserve_index_unread_stores", .gauge, "Stores with sentences that are to be read yet.")
    out.sample(archive.unread)
    out.begin("mlxserve_index_wal_bytes", .gauge, "Bytes of the logs of open indexes.")
    out.sample(archive.logBytes)
    out.begin("mlxserve_index_compactions_total", .counter, "Times that files of an index were written.")
    out.sample(counts.compactions)
    // Not `mlxserve_index_chunks`: clients of Prometheus take that for the family of the counter above.
    out.begin("mlxserve_index_store_chunks", .gauge, "Chunks of open indexes, of at most 100 stores.")
    for (store, count) in archive.chunks { out.sample(count, [("store", store)]) }
    out.begin("mlxserve_index_rebuild_progress", .gauge, "How far an index for another model is, 0 to 1.")
    for (store, share) in archive.rebuilding { out.sample(share, [("store", store)]) }
  }

  /// The account that admission goes by, next to what the system says of the process.
  private mutating func writeMemory() {
    out.begin("mlxserve_memory_bytes", .gauge, "Memory that is held or reserved, by what for.")
    for line in memory.lines { out.sample(line.bytes, [("part", line.kind.rawValue)]) }
    out.begin("mlxserve_memory_peak_bytes", .gauge, "Most of it so far.")
    for line in memory.lines { out.sample(line.peak, [("part", line.kind.rawValue)]) }
    out.begin("mlxserve_memory_limit_bytes", .gauge, "Most of all parts together.")
    out.sample(memory.limit)
  }

  private mutating func writeProcess(_ usage: ProcessUsage) {
    out.begin("process_cpu_seconds_total", .counter, "CPU time of user and system, seconds.")
    out.sample(usage.cpuSeconds)
    out.begin("process_resident_memory_bytes", .gauge, "Resident memory, mapped weights included.")
    out.sample(usage.residentBytes)
    out.begin("process_virtual_memory_bytes", .gauge, "Address space.")
    out.sample(usage.virtualBytes)
    out.begin("mlxserve_private_memory_bytes", .gauge, "Memory that no file stands behind, swapped or not.")
    out.sample(usage.privateBytes)
    out.begin("process_open_fds", .gauge, "Open descriptors.")
    out.sample(usage.descriptors)
    out.begin("process_max_fds", .gauge, "Most descriptors that may be open.")
    out.sample(usage.descriptorLimit)
    out.begin("process_threads", .gauge, "Threads.")
    out.sample(usage.threads)
    out.begin("process_start_time_seconds", .gauge, "Start of the process, seconds since 1970.")
    out.sample(startSeconds)
  }
}
