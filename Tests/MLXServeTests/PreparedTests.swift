// Weights that `mlxserve prepare` has put into the order of the kernels, in programs.

import Checkpoint
import Compute
import Inference
import Platform
import Support
import Testing

@testable import MLXServe

@Suite struct PreparedTests {
  private static let demo = TestData.fixtures + "/models/demo"

  /// Whether the kernels of this machine read weights in an order of their own.
  private static var keepsPanels: Bool {
    (try? ComputeContext(threads: 1, mode: .fast))?.panelLayout != nil
  }

  @Test(.enabled(if: keepsPanels)) func `prepared weights are mapped, and answer as others do`() async throws
  {
    let folder = "/tmp/mlxserve-prepared-\(getpid())-\(Instant.now.nanoseconds)"
    try SystemFiles().makeFolder(folder)
    defer { try? File.removeAll(folder) }
    let file = try WeightPreparation.run(
      ModelFolder(path: Self.demo), EngineConfiguration(modelPath: Self.demo, threads: 1),
      folder: PreparedFolder(path: folder), limit: 1 << 30, progress: { _, _ in })
    var answers: [String] = []
    // The second is loaded while the first is there: a folder's models share what they have in memory only where they were
    // loaded in the same way.
    var models: [Model] = []
    for place in [nil, folder] {
      let model = try await Model.load(folder: Self.demo, options: ModelOptions(preparedFolder: place))
      models.append(model)
      let options = AnswerOptions(maxTokens: 12, temperature: 0)
      answers.append(try await model.generate("The capital of France", options: options).text)
      #if os(Linux)
        let isMapped = PseudoFile.lines("/proc/self/maps").contains { $0.hasSuffix(file.path) }
        #expect(isMapped == (place != nil))
      #endif
    }
    #expect(answers[0] == answers[1] && !answers[0].isEmpty)
    for model in models { model.unload() }
  }
}
