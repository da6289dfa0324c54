// Vectors of texts and folders that are searched with them, by what is public alone.

import JSON
import Platform
import Support
import Testing

@testable import MLXServe

@Suite struct EmbeddingTests {
  private static let encoder = TestData.fixtures + "/models/encoder-tiny"
  private static let demo = TestData.fixtures + "/models/demo"

  private func similarity(_ a: [Float], _ b: [Float]) -> Float { zip(a, b).reduce(0) { $0 + $1.0 * $1.1 } }

  @Test func `texts have the vectors of the reference`() async throws {
    let expected = try JSONValue(parsing: File.read(Self.encoder + "/expected.json", limit: 1 << 24))
    let cases = try #require(expected["cases"]?.arrayValue)
    let model = try await Model.load(folder: Self.encoder)
    for one in cases {
      guard let text = one["text"]?.stringValue, let tokens = one["tokens_untruncated"]?.intValue else {
        continue
      }
      if tokens > model.contextLength {
        let error = await #expect(throws: MLXServeError.self) { try await model.embed([text]) }
        #expect(error?.code == .invalidArgument)
        continue
      }
      let vector = try await model.embed([text])[0]
      let reference = (one["embedding"]?.arrayValue ?? []).map { Float($0.doubleValue ?? 0) }
      #expect(vector.count == reference.count)
      // The fast mode rounds activations.
      #expect(similarity(vector, reference) > 0.995, "\(text.prefix(40))")
    }
    model.unload()
  }

  @Test func `a question has the words of the model in front of it`() async throws {
    let model = try await Model.load(folder: Self.encoder)
    let literal = try await model.embed(["query: the cat", "passage: the cat", "the cat"])
    #expect(try await model.embed(["the cat"], as: .question)[0] == literal[0])
    #expect(try await model.embed(["the cat"], as: .passage)[0] == literal[1])
    #expect(try await model.embed(["the cat"])[0] == literal[2])
    #expect(try await model.embed([]).isEmpty)
  }

  @Test func `a model is refused for what it does not make`() async throws {
    let chat = try await Model.load(folder: Self.demo)
    var error = await #expect(throws: MLXServeError.self) { try await chat.embed(["a"]) }
    #expect(error?.code == .modelUnsupported)
    #expect(throws: MLXServeError.self) { try chat.notes(in: "/tmp", index: "/tmp/none") }
    let encoder = try await Model.load(folder: Self.encoder)
    error = await #expect(throws: MLXServeError.self) { try await encoder.generate("a").text }
    #expect(error?.code == .modelUnsupported)
    #expect(throws: MLXServeError.self) { try encoder.chat() }
    let folder = #expect(throws: MLXServeError.self) { try encoder.notes(in: "/nowhere", index: "/tmp/none") }
    #expect(folder?.setting == "folder")
  }

  @Test func `an unloaded model says so, and a task that is cancelled ends`() async throws {
    let model = try await Model.load(folder: Self.encoder)
    let task = Task {
      while true { _ = try await model.embed(["the cat sat on the mat"]) }
    }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    model.unload()
    let error = await #expect(throws: MLXServeError.self) { try await model.embed(["a"]) }
    #expect(error?.code == .modelNotFound)
  }

  @Test func `notes are found, followed when they change, and known again`() async throws {
    try await withFolder { root in
      let files = SystemFiles()
      let folder = root + "/notes"
      try files.makeFolder(folder)
      try files.writeDurably(Array("The cat sat on the mat.\n".utf8), folder: folder, name: "cat.md")
      try files.writeDurably(Array("A dog ran in the park.\n".utf8), folder: folder, name: "dog.txt")
      try files.writeDurably([0, 1, 2], folder: folder, name: "picture.png")
      let model = try await Model.load(folder: Self.encoder)
      do {
        let notes = try model.notes(in: folder, index: root + "/index/deep")
        var update = try await notes.update()
        #expect(update.read == 2 && update.removed == 0 && update.skipped.map(\.path) == ["picture.png"])
        let found = try await notes.search("cat mat", limit: 1)
        #expect(found.map(\.path) == ["cat.md"] && found[0].text.contains("The cat sat on the mat."))
        #expect(found[0].why.contains("cat") && (0...1).contains(found[0].score))
        #expect(try await notes.search("cat", limit: 0).isEmpty)
        try files.writeDurably(Array("The cat is gone.\n".utf8), folder: folder, name: "cat.md")
        #expect(files.unlink(folder + "/dog.txt") == 0)
        update = try await notes.update()
        #expect(update.read == 1 && update.removed == 1)
        let second = #expect(throws: MLXServeError.self) {
          try model.notes(in: folder, index: root + "/index/deep")
        }
        #expect(second?.setting == "index")
      }
      let again = try model.notes(in: folder, index: root + "/index/deep")
      #expect(try await again.update().read == 0)
      #expect(try await again.search("gone").first?.text.contains("gone") == true)
    }
  }

  private func withFolder(_ body: (String) async throws -> Void) async throws {
    let folder = "/tmp/mlxserve-notes-\(getpid())-\(Instant.now.nanoseconds)"
    try SystemFiles().makeFolder(folder)
    defer { try? File.removeAll(folder) }
    try await body(folder)
  }
}
