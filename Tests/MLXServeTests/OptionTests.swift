// Options that cannot be meant are refused before anything is loaded or bound.

import Support
import Testing

@testable import MLXServe

@Suite struct OptionTests {
  @Test func `a server that others could use needs a key`() throws {
    try ServerOptions().check()
    try ServerOptions(host: "::1").check()
    try ServerOptions(host: "0.0.0.0", apiKeys: ["a long enough key"]).check()
    let error = #expect(throws: MLXServeError.self) { try ServerOptions(host: "0.0.0.0").check() }
    #expect(error?.code == .invalidArgument)
    #expect(error?.setting == "host")
  }

  @Test func `what is out of range is named`() {
    let cases: [(ServerOptions, String)] = [
      (ServerOptions(port: 70_000), "port"), (ServerOptions(port: -1), "port"),
      (ServerOptions(host: "nonsense"), "host"), (ServerOptions(host: ""), "host"),
      (ServerOptions(queueLimit: -1), "queue_limit"), (ServerOptions(modelID: ""), "model_id"),
      (ServerOptions(modelID: "a\nb"), "model_id"),
    ]
    for (options, setting) in cases {
      let error = #expect(throws: MLXServeError.self) { try options.check() }
      #expect(error?.setting == setting)
    }
    for (options, setting) in [
      (ModelOptions(maxSequences: 0), "max_sequences"), (ModelOptions(maxContext: 0), "max_context"),
      (ModelOptions(id: String(repeating: "x", count: 300)), "model_id"),
    ] {
      let error = #expect(throws: MLXServeError.self) { try options.check() }
      #expect(error?.setting == setting)
    }
  }

  @Test func `a folder without a model has its own code`() {
    for path in ["", "/nonexistent", "/dev/null", TestData.fixtures] {
      let error = #expect(throws: MLXServeError.self) { try HostedModel(path) }
      #expect(error?.code == .modelNotFound, "\(path)")
    }
  }
}
