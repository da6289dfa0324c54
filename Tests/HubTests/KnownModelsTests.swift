// Short names: each stands for one repository that could be pulled.

import Testing

@testable import Hub

@Suite struct KnownModelsTests {
  @Test func `every name is there once and stands for a repository`() throws {
    var seen: Set<String> = []
    for model in KnownModels.all {
      for name in model.names {
        #expect(seen.insert(name).inserted, "\(name)")
        #expect(KnownModels.find(name.uppercased())?.repository == model.repository)
      }
      #expect(try RepositoryName(model.repository).text == model.repository)
      #expect(model.bytes > 50_000_000 && model.memoryBytes > model.bytes)
    }
  }

  @Test func `models are found by words`() {
    #expect(KnownModels.search(["qwen3", "30B"]).map(\.name) == ["qwen3:30b-a3b"])
    #expect(KnownModels.search([]).count == KnownModels.all.count)
    #expect(KnownModels.search(["nothing like this"]).isEmpty)
  }

  @Test(arguments: [
    ("qwen3:4b:latest", "qwen3:4b"), ("Qwen3:4b-instruct-q4_K_M", "qwen3:4b"), ("llama3", "llama3.1:8b"),
    ("gemma4:e2b-it", "gemma4:e2b"), ("qwen3:latest", "qwen3:4b"), ("all-minilm", "minilm"),
    ("phi3:mini", "phi3.5"),
  ])
  func `names are found as people write them`(typed: String, name: String) {
    #expect(KnownModels.find(typed)?.name == name)
  }

  /// A tag of other bits would be another model.
  @Test(arguments: ["qwen3:4b-q8_0", "qwen3:4b-fp16", "qwen3:5b", "latest", ":latest", "-it"])
  func `a tag that means something else is no name`(typed: String) {
    #expect(KnownModels.find(typed) == nil)
  }

  @Test func `a model suits a machine by memory and by speed`() {
    func name(_ gigabytes: Int, _ bandwidth: Double?) -> String? {
      KnownModels.fitting(memory: gigabytes << 30, bandwidth: bandwidth)?.name
    }
    #expect(name(64, nil) == "qwen3:8b")
    #expect(name(64, 100e9) == "qwen3:8b")
    // 2.3 GB a token at 0.9 of 30 GB/s are twelve tokens, 4.6 GB six.
    #expect(name(64, 30e9) == "qwen3:4b")
    #expect(name(64, 1e9) == "qwen3:0.6b")
    #expect(name(4, 100e9) == "qwen3:1.7b")
    #expect(name(1, 100e9) == nil)
    #expect(KnownModels.find("qwen3:30b-a3b").map { $0.tokensPerSecond(19e9) } == 9)
  }

  @Test func `limits of rates are read`() {
    #expect(Patience.resetSeconds("\"api\";r=0;t=55") == 56)
    #expect(Patience.resetSeconds("\"api\";r=3;t=55") == nil)
    #expect(Patience.resetSeconds("nonsense") == nil)
  }

  @Test func `paths of the environment are expanded as Python does`() {
    let variables = ["HOME": "/h", "X": "y"]
    func expand(_ path: String) -> String { HubSettings.expanded(path, { variables[$0] }) }
    #expect(expand("~/a") == "/h/a")
    #expect(expand("$X/${X}z/$NO") == "y/yz/$NO")
    #expect(expand("a~b") == "a~b")
  }
}
