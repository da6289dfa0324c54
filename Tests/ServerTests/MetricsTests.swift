// What is counted, and the text that it is told in.

import Inference
import Pipeline
import Platform
import Testing

@testable import HTTP
@testable import Server

@Suite struct MetricsTests {
  private let metrics = Metrics()

  private func app(_ service: FakeService) -> App { makeApp(service, id: "a\"b\\c") { $0.metrics = metrics } }

  private func chat(_ app: App, _ extra: String = "", context: ConnectionContext = ConnectionContext()) throws
  {
    let body = #"{"model":"a\"b\\c","messages":[{"role":"user","content":"hi"}]\#(extra)}"#
    _ = try app.send("POST", "/v1/chat/completions", body: body, context: context)
  }

  private func lines(_ app: App) throws -> Set<String> {
    Set(try app.send("GET", "/metrics").text.split(separator: "\n").map(String.init))
  }

  @Test func `values fall into the bucket whose bound is not below them`() {
    var histogram = Histogram(bounds: [1, 2, 5])
    for value in [0.5, 1, 1.5, 5, 7] { histogram.observe(value) }
    #expect(histogram.counts == [2, 1, 1, 1])
    #expect(histogram.count == 5)
    #expect(histogram.sum == 15)
    var other = Histogram(bounds: [1, 2, 5])
    other.observe(2)
    histogram.add(other)
    #expect(histogram.counts == [2, 2, 1, 1])
  }

  @Test func `the text is that of Prometheus`() {
    var out = MetricsText()
    out.begin("a_total", .counter, "Help.")
    out.sample(3, [("l", "x\"y\\z\n")])
    out.begin("b", .histogram, "More.")
    var histogram = Histogram(bounds: [0.5, 1])
    histogram.observe(0.75)
    out.sample(histogram, [("m", "n")])
    #expect(
      out.text == """
        # HELP a_total Help.
        # TYPE a_total counter
        a_total{l="x\\"y\\\\z\\n"} 3
        # HELP b More.
        # TYPE b histogram
        b_bucket{m="n",le="0.5"} 0
        b_bucket{m="n",le="1.0"} 1
        b_bucket{m="n",le="+Inf"} 1
        b_sum{m="n"} 0.75
        b_count{m="n"} 1

        """)
  }

  @Test func `a finished answer is counted under vLLM's names`() throws {
    let app = app(FakeService { _, _ in Script(text: "abc", cachedTokens: 2) })
    try chat(app, #","max_tokens":50"#)
    let found = try lines(app)
    let label = #"model_name="a\"b\\c""#
    let prompt = found.first { $0.hasPrefix("vllm:prompt_tokens_total{") }?.split(separator: " ").last ?? ""
    #expect((Int(prompt) ?? 0) > 5)
    for line in [
      "vllm:generation_tokens_total{\(label)} 3", "vllm:prefix_cache_hits_total{\(label)} 2",
      #"vllm:request_success_total{\#(label),finished_reason="stop"} 1"#,
      #"vllm:request_success_total{\#(label),finished_reason="abort"} 0"#,
      "vllm:inter_token_latency_seconds_count{\(label)} 2",
      "vllm:time_to_first_token_seconds_count{\(label)} 1",
      "vllm:request_generation_tokens_sum{\(label)} 3.0",
      #"vllm:request_generation_tokens_bucket{\#(label),le="2.0"} 0"#,
      #"vllm:request_generation_tokens_bucket{\#(label),le="5.0"} 1"#,
      "vllm:request_params_max_tokens_sum{\(label)} 50.0", "vllm:num_requests_running{\(label)} 0",
      "# TYPE vllm:e2e_request_latency_seconds histogram",
    ] {
      #expect(found.contains(line), "\(line)")
    }
  }

  @Test func `choices are requests of one prompt`() throws {
    let app = app(FakeService("ab"))
    try chat(app, #","n":3"#)
    let found = try lines(app)
    let label = #"model_name="a\"b\\c""#
    #expect(found.contains(#"vllm:request_success_total{\#(label),finished_reason="stop"} 3"#))
    #expect(found.contains("vllm:request_prompt_tokens_count{\(label)} 1"))
    #expect(found.contains("vllm:request_params_n_sum{\(label)} 3.0"))
    #expect(found.contains("vllm:generation_tokens_total{\(label)} 6"))
  }

  @Test func `of several choices the longest counts for the answer`() throws {
    let app = app(FakeService { _, index in Script(text: ["ab", "abcde", "abc"][index % 3]) })
    try chat(app, #","n":3"#)
    let found = try lines(app)
    let label = #"model_name="a\"b\\c""#
    for line in [
      "vllm:request_generation_tokens_sum{\(label)} 10.0", "vllm:request_generation_tokens_count{\(label)} 3",
      "vllm:request_max_num_generation_tokens_sum{\(label)} 5.0",
      "vllm:request_max_num_generation_tokens_count{\(label)} 1",
    ] {
      #expect(found.contains(line), "\(line)")
    }
  }

  @Test func `an answer that nobody waits for is aborted, one that fails is an error`() throws {
    let app = app(FakeService { _, _ in Script(text: "abc", end: nil) })
    try chat(app, context: ConnectionContext(isClientGone: { true }))
    let broken = self.app(FakeService { _, _ in Script(text: "a", error: .draining) })
    try chat(broken)
    let label = #"model_name="a\"b\\c""#
    let found = try lines(app)
    for line in [
      #"vllm:request_success_total{\#(label),finished_reason="abort"} 1"#,
      #"mlxserve_requests_aborted_total{\#(label),reason="client_gone"} 1"#,
      #"vllm:request_success_total{\#(label),finished_reason="error"} 1"#,
      #"mlxserve_requests_aborted_total{\#(label),reason="engine_error"} 1"#,
    ] {
      #expect(found.contains(line), "\(line)")
    }
  }

  @Test func `the log and the counter tell of the same aborted answers`() throws {
    func aborted(_ app: App) throws -> [String] {
      try lines(app).filter { $0.hasPrefix("mlxserve_requests_aborted_total{") && !$0.hasSuffix(" 0") }
        .map { String($0.split(separator: ",").last ?? "") }
    }
    func fact(_ context: ConnectionContext, _ name: String = "aborted") -> String? {
      context.facts.first { $0.name == name }?.value
    }
    // However many choices it has.
    let choices = ConnectionContext(isClientGone: { true })
    let app = app(FakeService { _, _ in Script(text: "abc", end: nil) })
    try chat(app, #","n":3"#, context: choices)
    #expect(fact(choices) == "client_gone")
    #expect(fact(choices, "model") == "a\"b\\c")
    #expect(try aborted(app) == [#"reason="client_gone"} 1"#])
    // Before anything was computed.
    let early = ConnectionContext(isClientGone: { true })
    let long = String(repeating: "x", count: 900)
    let refused = try app.send(
      "POST", "/v1/responses", body: #"{"model":"a\"b\\c","truncation":"auto","input":"\#(long)"}"#,
      context: early)
    #expect(refused.status == 499)
    #expect(fact(early) == "client_gone")
    #expect(try aborted(app) == [#"reason="client_gone"} 2"#])
    // A refusal is none, and neither is an answer that has ended.
    let fine = ConnectionContext()
    try chat(self.app(FakeService("x")), context: fine)
    #expect(fact(fine) == nil && fact(fine, "finish") == "stop")
    let refusal = ConnectionContext()
    try chat(self.app(FakeService { _, _ in Script(submitError: .queueFull(limit: 4)) }), context: refusal)
    #expect(fact(refusal) == nil)
    #expect(try aborted(app) == [#"reason="client_gone"} 2"#])
  }

  @Test func `tokens are counted for the key that asked`() throws {
    let context = ConnectionContext()
    context.client = ClientIdentity(number: 1, name: "alice")
    let app = app(FakeService("abcd"))
    try chat(app, context: context)
    let found = try lines(app)
    #expect(found.contains(#"mlxserve_key_requests_total{key="alice"} 1"#))
    #expect(found.contains(#"mlxserve_key_generation_tokens_total{key="alice"} 4"#))
    // The access log tells the same.
    let facts = context.facts.filter { ["completion_tokens", "finish"].contains($0.name) }
    #expect(facts.map { "\($0.name)=\($0.value)" } == ["completion_tokens=4", "finish=stop"])
  }

  @Test func `responses are counted by the pattern of their route`() throws {
    let app = app(FakeService("x"))
    func record(_ path: String, route: String?, status: Int, error: String?) -> AccessRecord {
      AccessRecord(
        method: "GET", path: path, status: status, bytes: 0, seconds: 0, requestID: "r",
        peer: Endpoint(address: "::1", port: 1), isComplete: true, route: route, errorCode: error,
        client: ClientIdentity(), facts: [])
    }
    for id in 0..<5000 {
      metrics.count(
        record("/v1/models/\(id)", route: "/v1/models/:id", status: 404, error: "model_not_found"))
      metrics.count(record("/\(id)", route: nil, status: 404, error: "unknown_url"))
    }
    let found = try lines(app).filter { $0.hasPrefix("mlxserve_http_") && !$0.contains("cut") }
    #expect(
      found == [
        #"mlxserve_http_responses_total{method="GET",route="/v1/models/:id",status="404"} 5000"#,
        #"mlxserve_http_responses_total{method="GET",route="none",status="404"} 5000"#,
        #"mlxserve_http_errors_total{code="model_not_found"} 5000"#,
        #"mlxserve_http_errors_total{code="unknown_url"} 5000"#,
      ])
  }

  @Test func `memory is told by what it is held for, as the ledger has it`() throws {
    let fleet = ModelFleet(
      ResidentModel(
        LoadedModel(
          id: "m", created: 5, service: FakeService("x"), tokenizer: tinyTokenizer, template: tinyTemplate,
          endTokens: [Marker.end])))
    let app = App(fleet)
    fleet.ledger.add(4096, to: .weights)
    fleet.ledger.add(700, to: .requestBodies)
    fleet.ledger.release(500, from: .requestBodies)
    let found = try lines(app)
    for line in [
      #"mlxserve_memory_bytes{part="weights"} 4096"#, #"mlxserve_memory_bytes{part="request_bodies"} 200"#,
      #"mlxserve_memory_peak_bytes{part="request_bodies"} 700"#,
      #"mlxserve_memory_bytes{part="prefix_cache"} 0"#, "mlxserve_memory_limit_bytes \(Int.max)",
    ] {
      #expect(found.contains(line), "\(line)")
    }
    let parts = found.filter { $0.hasPrefix("mlxserve_memory_bytes{") }
    #expect(parts.count == MemoryKind.allCases.count)
    #if os(Linux)
      // What nobody accounts for has been measured.
      #expect(!parts.contains(#"mlxserve_memory_bytes{part="other"} 0"#))
    #endif
  }

  @Test func `every documented name is told, and every told name is documented`() throws {
    let app = app(FakeService("x"))
    let told = Set(
      try lines(app).filter { $0.hasPrefix("# TYPE ") }.compactMap {
        $0.split(separator: " ").dropFirst(2).first
      }
      .map(String.init))
    #expect(told.count > 40)
    #expect(told == DocumentedField.names(in: "/docs/metrics.md", under: "Names"))
  }
}
