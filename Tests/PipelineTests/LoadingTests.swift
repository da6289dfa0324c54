// What a load tells of itself: how much of the weights is there.

import Inference
import Platform
import Support
import Testing

@testable import Pipeline

@Suite struct LoadingTests {
  @Test(arguments: ["demo", "encoder-tiny"])
  func `when a model is loaded all of its weights are told to be there`(name: String) throws {
    var configuration = EngineConfiguration(modelPath: TestData.fixtures + "/models/" + name, threads: 1)
    let progress = Progress()
    configuration.progress = progress
    let (_, engine) = try LoadedModel.open(configuration)
    defer { engine.stop() }
    #expect(progress.part == 1)
  }
}
