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
