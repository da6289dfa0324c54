// Which files hold the weights, from names alone: with an index and without, and where one of them is wrong.

import Checkpoint
import Testing

@Suite struct WeightFileNamesTests {
  private func names(_ files: [String], listed: [String] = []) throws -> [String] {
    try WeightFileNames(of: files.map { $0 + ".safetensors" }, listed: listed.map { $0 + ".safetensors" })
      .names
      .map { String($0.dropLast(".safetensors".count)) }
  }

  @Test func `an index is followed where all of it is there`() throws {
    #expect(try names(["a", "b", "model", "x"], listed: ["b", "a", "b"]) == ["a", "b"])
    #expect(
      try names(["model", "model-00001-of-00002", "model-00002-of-00002"], listed: ["model"]) == ["model"])
    // Its files are there, and whether a third is needed the model will say.
    #expect(
      try names(["m-00001-of-00003", "m-00002-of-00003"], listed: ["m-00002-of-00003", "m-00001-of-00003"])
        == ["m-00001-of-00003", "m-00002-of-00003"])
  }

  @Test(arguments: [
    (["model"], ["model"]), (["model", "model-00001-of-00002"], ["model"]),
    (["model-00001-of-00002", "model-00002-of-00002"], ["model-00001-of-00002", "model-00002-of-00002"]),
    (["model-1-of-2", "model-2-of-2", "model-00001-of-00009"], ["model-1-of-2", "model-2-of-2"]),
    (["model-00001-of-00001"], ["model-00001-of-00001"]),
  ])
  func `an index that names an absent file gives way to what is complete`(files: [String], taken: [String])
    throws
  {
    let chosen = try WeightFileNames(
      of: files.map { $0 + ".safetensors" }, listed: ["model-00001-of-00004.safetensors"])
    #expect(chosen.names == taken.map { $0 + ".safetensors" })
    #expect(chosen.note?.contains("names model-00001-of-00004.safetensors, which is not there") == true)
  }

  @Test(arguments: [
    [], ["other"], ["model-00001-of-00002"], ["model-00001-of-00002", "model-00003-of-00002"],
    ["model-00000-of-00001"], ["model-00001-of-00000"], ["model-00001-of-99999999999999999999"],
  ])
  func `and is an error where nothing is`(files: [String]) {
    #expect(throws: WeightFileNames.Fault.absent("x.safetensors", isListed: true)) {
      try WeightFileNames(of: files.map { $0 + ".safetensors" }, listed: ["x.safetensors"])
    }
  }

  @Test func `an index that leaves out a number is completed`() throws {
    let files = (1...4).map { "model-0000\($0)-of-00004" }
    for left in files {
      #expect(try names(files + ["model-mtp"], listed: files.filter { $0 != left }) == files)
    }
    #expect(try names(files + ["model-mtp"], listed: [files[0], "model-mtp"]) == files + ["model-mtp"])
    let whole = files.map { $0 + ".safetensors" }
    #expect(try WeightFileNames(of: whole, listed: whole).note == nil)
  }

  @Test func `without an index the names say it`() throws {
    #expect(try names(["model", "model-extra", "weights.0"]) == ["model"])
    #expect(try names(["model-b", "model-a", "weights.0", "x"]) == ["model-a", "model-b"])
    #expect(try names(["weights.1", "weights.0", "x"]) == ["weights.0", "weights.1"])
    #expect(try names(["y", "consolidated", "adapter_model", "x"]) == ["x", "y"])
    #expect(throws: WeightFileNames.Fault.none) { try names(["consolidated", "adapter_model"]) }
    #expect(throws: WeightFileNames.Fault.none) {
      try WeightFileNames(of: ["model.bin", ".safetensors", "sub/model.safetensors"], listed: [])
    }
    #expect(throws: WeightFileNames.Fault.absent("model-003-of-004.safetensors", isListed: false)) {
      try names(["model-001-of-004", "model-002-of-004", "model-004-of-004"])
    }
  }
}
