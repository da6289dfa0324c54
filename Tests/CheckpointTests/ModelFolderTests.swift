// Model folders: what is found in them, and one clear line for each way in which they can be wrong.

import Compute
import JSON
import Platform
import Support
import Testing

@testable import Checkpoint

private let weights = safetensors([TestTensor("model.norm.weight", "F32", [4])])

private func folder(_ texts: [String: String], weights: [UInt8]? = weights) throws -> TestFolder {
  let folder = try TestFolder()
  if texts["config.json"] == nil { try folder.write("config.json", #"{"model_type":"llama"}"#) }
  for (name, text) in texts { try folder.write(name, text) }
  if let weights { try folder.write("model.safetensors", weights) }
  return folder
}

/// The message of the error that opening a folder throws.
private func fault(_ folder: TestFolder) -> String {
  do {
    _ = try ModelFolder(path: folder.path)
    return "no error"
  } catch {
    let words = error.description
    // The temporary folder's name differs from run to run.
    return words.split(separator: folder.path, omittingEmptySubsequences: false).joined(separator: "DIR")
  }
}

@Suite struct ModelFolderTests {
  @Test func `a folder with one file opens`() throws {
    let files = try folder([:])
    let model = try ModelFolder(path: files.path + "/")
    #expect(model.path == File.resolved(files.path))
    #expect(model.name == model.path.split(separator: "/").last.map(String.init))
    #expect(model.config == ["model_type": "llama"])
    #expect(model.weights.names == ["model.norm.weight"])
    #expect(model.weightBytes == 16)
    #expect(try model.tokenizerFile == nil)
    #expect(model.generationConfig == nil)
    #expect(model.tokenizerConfig == nil)
    #expect(model.chatTemplate == nil)
    #expect(model.eosTokenIDs.isEmpty)
  }

  @Test func `the outline names everything but the values of the weights, wherever they lie`() throws {
    func outline(_ config: String, _ tensors: [TestTensor]) throws -> [UInt8] {
      let files = try folder(["config.json": config], weights: safetensors(tensors))
      return try ModelFolder(path: files.path).outline
    }
    let config = #"{"model_type":"llama"}"#
    let zeros = [UInt8](repeating: 0, count: 16)
    let plain = try outline(config, [TestTensor("model.norm.weight", "F32", [4], data: zeros)])
    #expect(plain.count == 32)
    #expect(try outline(config, [TestTensor("model.norm.weight", "F32", [4], data: zeros)]) == plain)
    let ones = [UInt8](repeating: 1, count: 16)
    #expect(try outline(config, [TestTensor("model.norm.weight", "F32", [4], data: ones)]) == plain)
    let others = [
      try outline(#"{"model_type":"qwen3"}"#, [TestTensor("model.norm.weight", "F32", [4], data: zeros)]),
      try outline(config, [TestTensor("model.norm.weight", "I32", [4], data: zeros)]),
      try outline(config, [TestTensor("model.norm.weight", "F32", [2, 2], data: zeros)]),
      try outline(config, [TestTensor("model.other.weight", "F32", [4], data: zeros)]),
    ]
    #expect(Set(others + [plain]).count == 5)
  }

  @Test func `the weights outlive the folder object and the files' names`() throws {
    var files: TestFolder? = try folder([:])
    let tensor = try ModelFolder(path: files?.path ?? "").weights.tensor("model.norm.weight", shape: [4])
    files = nil
    #expect(Array(tensor.bytes) == Array(0..<16))
  }

  @Test func `files of the folder are read up to a limit`() throws {
    let files = try folder(["tokenizer.json": "{ }", "notes.txt": "12345"])
    let model = try ModelFolder(path: files.path)
    #expect(try model.tokenizerFile == Array("{ }".utf8))
    #expect(try model.bytes(of: "notes.txt", limit: 5) == Array("12345".utf8))
    #expect(try model.bytes(of: "absent.txt", limit: 5) == nil)
    #expect(throws: CheckpointError.file(.tooLarge(path: model.path + "/notes.txt", bytes: 5, limit: 4))) {
      try model.bytes(of: "notes.txt", limit: 4)
    }
  }

  @Test func `a model in the Hub's cache is called by its repository`() throws {
    let files = try TestFolder()
    var path = files.path
    for part in ["/models--mlx-community--Tiny-4bit", "/snapshots", "/0123abcd"] {
      path += part
      #expect(mkdir(path, 0o700) == 0)
    }
    try files.write("blob-config", #"{}"#)
    try files.write("blob-weights", weights)
    #expect(symlink("../../../blob-config", path + "/config.json") == 0)
    #expect(symlink("../../../blob-weights", path + "/model.safetensors") == 0)
    let model = try ModelFolder(path: path)
    #expect(model.name == "Tiny-4bit")
    #expect(model.weightBytes == 16)
    // The repository's folder stands for its current snapshot; one that is alone needs no reference.
    let repository = files.path + "/models--mlx-community--Tiny-4bit"
    #expect(try ModelFolder(path: repository).path == model.path)
    #expect(ModelFolder.mainCommit(ofRepository: repository) == "0123abcd")
    #expect(mkdir(repository + "/snapshots/4567", 0o700) == 0)
    #expect(ModelFolder.mainCommit(ofRepository: repository) == nil)
    #expect(throws: CheckpointError.self) { try ModelFolder(path: repository) }
    #expect(mkdir(repository + "/refs", 0o700) == 0)
    try files.write("models--mlx-community--Tiny-4bit/refs/main", "0123abcd\n")
    #expect(try ModelFolder(path: repository).path == model.path)
    try files.write("models--mlx-community--Tiny-4bit/refs/main", "../../..\n")
    #expect(throws: CheckpointError.self) { try ModelFolder(path: repository) }
  }

  @Test(
    arguments: [
      (#"{"eos_token_id": 2}"#, nil, [2]),
      (#"{"eos_token_id": [1, 106, 1]}"#, nil, [1, 106]),
      (#"{"eos_token_id": 2}"#, #"{"eos_token_id": [7, 8]}"#, [7, 8]),
      (#"{"eos_token_id": 2}"#, #"{"eos_token_id": null}"#, [2]),
      (#"{"text_config": {"eos_token_id": 3}}"#, #"{}"#, [3]),
      (#"{"eos_token_id": [null, -1, 1.5, 2147483648, "x", 9]}"#, nil, [9]),
      (#"{"eos_token_id": "</s>"}"#, nil, []),
    ] as [(String, String?, [Int])])
  func `the end ids come from generation_config, config or text_config`(
    config: String, generation: String?, expected: [Int]
  ) throws {
    var texts = ["config.json": config]
    texts["generation_config.json"] = generation
    let files = try folder(texts)
    #expect(try ModelFolder(path: files.path).eosTokenIDs == expected)
  }
}

@Suite struct ChatTemplateFilesTests {
  private func templates(_ texts: [String: String]) throws -> [String?] {
    let files = try folder(texts)
    let model = try ModelFolder(path: files.path)
    return [model.chatTemplate, model.toolChatTemplate]
  }

  @Test func `a template file wins over tokenizer_config`() throws {
    let texts = ["chat_template.jinja": "A", "tokenizer_config.json": #"{"chat_template":"B"}"#]
    #expect(try templates(texts) == ["A", nil])
  }

  @Test func `tokenizer_config wins over chat_template json`() throws {
    let texts = [
      "tokenizer_config.json": #"{"chat_template":"B"}"#, "chat_template.json": #"{"chat_template":"C"}"#,
    ]
    #expect(try templates(texts) == ["B", nil])
    #expect(try templates(["chat_template.json": #"{"chat_template":"C"}"#]) == ["C", nil])
    #expect(
      try templates([
        "tokenizer_config.json": #"{"chat_template":null}"#, "chat_template.json": #"{"chat_template":"C"}"#,
      ]) == ["C", nil])
  }

  @Test func `a list has a default template and one for tools`() throws {
    let list = #"{"chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"D"}]}"#
    #expect(try templates(["tokenizer_config.json": list]) == ["D", "T"])
    let nameless = #"{"chat_template":[{"name":"rag","template":"R"}]}"#
    #expect(try templates(["tokenizer_config.json": nameless]) == ["R", nil])
    #expect(try templates(["tokenizer_config.json": #"{"chat_template":[]}"#]) == [nil, nil])
  }

  @Test func `an additional template for tools stands in a folder of its own`() throws {
    let files = try folder(["chat_template.jinja": "A"])
    #expect(mkdir(files.path + "/additional_chat_templates", 0o700) == 0)
    try files.write("additional_chat_templates/tool_use.jinja", "T")
    #expect(try ModelFolder(path: files.path).toolChatTemplate == "T")
  }

  @Test func `a template that is not UTF-8 is an error`() throws {
    let files = try folder([:])
    try files.write("chat_template.jinja", [0x61, 0xFF])
    #expect(fault(files) == "DIR/chat_template.jinja: the text is not valid UTF-8")
  }
}

@Suite struct FolderErrorTests {
  @Test func `a path that leads to no folder`() throws {
    let files = try folder(["model.gguf": "GGUF"])
    func fault(_ path: String) -> String {
      do {
        _ = try ModelFolder(path: path)
        return "no error"
      } catch {
        return error.description
      }
    }
    let advice =
      "Give the folder of an MLX model (config.json, *.safetensors, tokenizer.json), or a GGUF file."
    #expect(
      fault("/nowhere/at/all") == "model folder '/nowhere/at/all': No such file or directory. \(advice)")
    #expect(fault("") == "model folder '': this is not a path. \(advice)")
    #expect(fault("/tmp\0x") == "model folder '/tmp\\u{0}x': this is not a path. \(advice)")
    #expect(fault(String(repeating: "x", count: 5000)).contains("File name too long"))
    #expect(fault(files.path + "/config.json").contains("this is a file, not a folder"))
    #expect(fault(files.path + "/model.gguf").contains("not a GGUF file that can be read: the file ends"))
  }

  @Test func `a link that leads to itself`() throws {
    let files = try folder([:], weights: nil)
    #expect(symlink("model.safetensors", files.path + "/model.safetensors") == 0)
    #expect(fault(files) == "cannot open DIR/model.safetensors: Too many levels of symbolic links")
  }

  @Test func `an empty folder`() throws {
    #expect(
      fault(try TestFolder())
        == "DIR has no config.json. Give the folder of an MLX model (config.json, *.safetensors, tokenizer.json), or a GGUF file."
    )
  }

  @Test(arguments: [
    ("[]", "DIR/config.json: the document is an array, expected an object"),
    (
      "",
      "DIR/config.json: invalid JSON at byte 0: the document ends where a value should stand. Download the file again."
    ),
    (
      "{\"a\":1,}",
      "DIR/config.json: invalid JSON at byte 7: expected a key in double quotes. Download the file again."
    ),
  ])
  func `a config that is not a JSON object`(text: String, words: String) throws {
    #expect(fault(try folder(["config.json": text])) == words)
  }

  @Test func `a config that is a FIFO`() throws {
    let files = try TestFolder(["model.safetensors": weights])
    #expect(mkfifo(files.path + "/config.json", 0o600) == 0)
    #expect(fault(files) == "DIR/config.json is not a regular file")
  }

  @Test func `no weights, or the weights of another program`() throws {
    #expect(
      fault(try folder([:], weights: nil))
        == "DIR has no model*.safetensors. Download the weights of the model too.")
    #expect(
      fault(try folder(["pytorch_model.bin": "x"], weights: nil))
        == "DIR/pytorch_model.bin is a PyTorch file. Use an MLX conversion of the model (safetensors files).")
    #expect(
      fault(try TestFolder(["model-Q4_K_M.gguf": Array("GGUF".utf8)]))
        == "DIR/model-Q4_K_M.gguf: not a GGUF file that can be read: the file ends too early (byte 4). Download the file again."
    )
  }

  @Test func `a truncated shard`() throws {
    #expect(
      fault(try folder([:], weights: weights.dropLast(3) + []))
        == "DIR/model.safetensors: not a valid safetensors file: the file is cut short: "
        + "its tensors need 16 bytes of data, it has 13. Download the file again.")
  }

  @Test func `two files that hold the same tensor`() throws {
    let files = try folder([:], weights: nil)
    try files.write("model-extra.safetensors", weights)
    try files.write("model-own.safetensors", weights)
    #expect(
      fault(files)
        == "tensor 'model.norm.weight' is stored twice, in model-extra.safetensors and in model-own.safetensors. "
        + "Remove the stray file.")
    // What is called as the whole is the whole.
    try files.write("model.safetensors", weights)
    #expect(try ModelFolder(path: files.path).weightFiles == ["model.safetensors"])
  }
}

@Suite struct ShardFilesTests {
  private func shards(_ weightMap: String) throws -> TestFolder {
    let files = try TestFolder([
      "config.json": Array("{}".utf8),
      "model-1.safetensors": safetensors([TestTensor("a", "U8", [1])]),
      "model-2.safetensors": safetensors([TestTensor("b", "U8", [2]), TestTensor("c", "U8", [0])]),
      "model-3.safetensors": safetensors([TestTensor("a", "U8", [3])]),
      "weights.1.safetensors": safetensors([TestTensor("w", "U8", [1])]),
    ])
    try files.write("model.safetensors.index.json", #"{"weight_map":"# + weightMap + "}")
    return files
  }

  private let index = "DIR/model.safetensors.index.json: "

  @Test func `the shards of the index are loaded, others are ignored`() throws {
    let files = try shards(#"{"b":"model-2.safetensors","a":"model-1.safetensors"}"#)
    let model = try ModelFolder(path: files.path)
    #expect(model.weights.names == ["a", "b", "c"])
    #expect(model.indexFault == nil)
    #expect(model.weightBytes == 3)
  }

  @Test func `without an index all files called model or weights are loaded`() throws {
    let files = try shards("{}")
    unlink(files.path + "/model.safetensors.index.json")
    unlink(files.path + "/model-3.safetensors")
    #expect(try ModelFolder(path: files.path).weights.names == ["a", "b", "c"])
    unlink(files.path + "/model-1.safetensors")
    unlink(files.path + "/model-2.safetensors")
    #expect(try ModelFolder(path: files.path).weights.names == ["w"])
  }

  @Test func `an index that lists no tensors`() throws {
    #expect(fault(try shards("{}")) == index + "weight_map is not an object that lists tensors")
    #expect(fault(try shards("[]")) == index + "weight_map is not an object that lists tensors")
  }

  @Test func `an index that lists an absent file`() throws {
    #expect(
      fault(try shards(#"{"a":"model-1.safetensors","b":"model-9.safetensors"}"#))
        == "DIR has no model-9.safetensors. model.safetensors.index.json lists it: download it, "
        + "or delete the index if it is stale.")
  }

  @Test func `an index of another checkpoint does not count where the files are complete`() throws {
    let foreign = #"{"weight_map":{"a":"model-00001-of-00005.safetensors"}}"#
    let files = try TestFolder([
      "config.json": Array("{}".utf8), "model.safetensors.index.json": Array(foreign.utf8),
      "model-00001-of-00002.safetensors": safetensors([TestTensor("a", "U8", [1])]),
      "model-00002-of-00002.safetensors": safetensors([TestTensor("b", "U8", [2])]),
    ])
    let model = try ModelFolder(path: files.path)
    #expect(model.weights.names == ["a", "b"])
    #expect(
      model.indexFault
        == "model.safetensors.index.json names model-00001-of-00005.safetensors, which is not there; "
        + "model-00001-of-00002.safetensors to -of-2 is complete by its own numbers and taken instead")
    unlink(files.path + "/model-00001-of-00002.safetensors")
    #expect(fault(files).hasPrefix("DIR has no model-00001-of-00005.safetensors."))
    unlink(files.path + "/model-00002-of-00002.safetensors")
    try files.write("model.safetensors", safetensors([TestTensor("c", "U8", [2])]))
    #expect(try ModelFolder(path: files.path).weights.names == ["c"])
  }

  @Test func `an index that looks for a tensor in the wrong file is told, and the files are read`() throws {
    for (map, names, words) in [
      (
        #"{"a":"model-1.safetensors","b":"model-1.safetensors"}"#, ["a"],
        "'b' is in model-1.safetensors, and it is nowhere"
      ),
      (
        #"{"a":"model-2.safetensors","b":"model-1.safetensors"}"#, ["a", "b", "c"],
        "'a' is in model-2.safetensors, and it is in model-1.safetensors"
      ),
    ] {
      let files = try shards(map)
      let model = try ModelFolder(path: files.path)
      #expect(model.weights.names == names)
      #expect(
        model.indexFault
          == "model.safetensors.index.json says that \(words): the files themselves say what they hold")
    }
  }

  @Test func `an index that leaves out a file of a numbered set`() throws {
    let files = try TestFolder([
      "config.json": Array("{}".utf8),
      "model.safetensors.index.json": Array(
        #"{"weight_map":{"a":"model-00001-of-00003.safetensors","c":"model-00003-of-00003.safetensors"}}"#
          .utf8),
      "model-00001-of-00003.safetensors": safetensors([TestTensor("a", "U8", [1])]),
      "model-00002-of-00003.safetensors": safetensors([TestTensor("b", "U8", [2])]),
      "model-00003-of-00003.safetensors": safetensors([TestTensor("c", "U8", [2])]),
    ])
    let model = try ModelFolder(path: files.path)
    #expect(model.weights.names == ["a", "b", "c"])
    #expect(
      model.indexFault
        == "model.safetensors.index.json leaves out model-00002-of-00003.safetensors, which its number makes part "
        + "of the weights: it is taken too")
    unlink(files.path + "/model.safetensors.index.json")
    #expect(try ModelFolder(path: files.path).indexFault == nil)
    unlink(files.path + "/model-00002-of-00003.safetensors")
    #expect(
      fault(files)
        == "DIR has no model-00002-of-00003.safetensors. The numbers of the other files ask for it: download it."
    )
  }

  @Test func `two files of the index that hold the same tensor`() throws {
    #expect(
      fault(try shards(#"{"a":"model-1.safetensors","x":"model-3.safetensors"}"#)).contains("is stored twice")
    )
  }

  @Test(arguments: [
    "../../etc/passwd", "../model-1.safetensors", "/etc/passwd", "/tmp/x.safetensors",
    "sub/model.safetensors",
    "a\\u0000.safetensors", ".safetensors", "..", ".", "", "config.json", "..\\\\x.safetensors",
  ])
  func `an index cannot lead out of the folder`(name: String) throws {
    let words = fault(try shards(#"{"a":""# + name + #""}"#))
    #expect(words.hasPrefix(index + "weight_map of 'a' is "))
    #expect(words.hasSuffix(", expected the name of a .safetensors file in this folder"))
  }

  @Test func `an index with a file name that is no string`() throws {
    #expect(fault(try shards(#"{"a":7}"#)).hasPrefix(index + "weight_map of 'a' is 7, expected"))
  }
}
