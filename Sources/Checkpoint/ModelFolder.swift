// A model folder: config.json, the weight shards, tokenizer and template files, opened and checked. A GGUF file is one too.

package import Compute
package import JSON
package import Platform

/// A checkpoint as downloaded from the Hub. Opening it reads the small files and the shards' headers, not the
/// weights. Symbolic links are followed: the Hub's own cache is made of them.
package final class ModelFolder: Sendable {
  /// As given, with links resolved: a folder, or a GGUF file.
  package let path: String
  /// What to call the model: the folder's name. In the Hub's cache, where folders are called by a commit
  /// hash, the repository's name without its owner.
  package let name: String
  /// config.json, an object.
  package let config: JSONValue
  /// All tensors of all shards.
  package let weights: WeightMap
  /// Bytes that all tensors take in memory: those of the files, or for blocks of GGUF those of their panels.
  package let weightBytes: Int
  /// The names of the files that hold the weights, sorted.
  package let weightFiles: [String]
  /// These files as they were when they were mapped.
  package var mappedFiles: WeightFiles { weights.files }
  /// What is wrong with model.safetensors.index.json, where the files themselves say something else; nil for nothing.
  package let indexFault: String?
  /// What config.json says about quantization.
  package let quantization: QuantizationConfig
  /// generation_config.json; nil when absent.
  package let generationConfig: JSONValue?
  /// tokenizer_config.json; nil when absent.
  package let tokenizerConfig: JSONValue?
  /// processor_config.json, or preprocessor_config.json where there is none; nil when both are absent.
  package let processorConfig: JSONValue?
  /// What is done with images: a part of processor_config.json, or preprocessor_config.json; nil when there is neither.
  package let imageProcessorConfig: JSONValue?
  /// The chat template for conversations without tools, as Jinja source.
  package let chatTemplate: String?
  /// The chat template for conversations with tools, where the model has a separate one.
  package let toolChatTemplate: String?
  /// What stands in one file instead of a folder.
  private let gguf: GGUFModel?

  /// Opens the folder.
  ///
  /// - Parameter progress: told of how many of the weights' bytes a model has taken its tensors.
  /// - Throws: what is missing or malformed, with the file's name.
  package init(path given: String, progress: Progress? = nil) throws(CheckpointError) {
    let path = try Self.check(given)
    self.path = path
    name = Self.modelName(path)
    gguf = GGUFParts.isName(path) && !File.isDirectory(path) ? try GGUFModel(path: path) : nil
    guard let config = gguf == nil ? try Self.object(path, "config.json") : gguf?.config else {
      throw Self.missingConfig(path)
    }
    self.config = config
    let generation = try Self.object(path, "generation_config.json")
    generationConfig = gguf?.generationConfig ?? generation
    let tokenizer = try Self.object(path, "tokenizer_config.json")
    tokenizerConfig = gguf?.tokenizerConfig ?? tokenizer
    let processor = try Self.object(path, "processor_config.json")
    let preprocessor = try Self.object(path, "preprocessor_config.json")
    processorConfig = processor == nil ? preprocessor : processor
    imageProcessorConfig = processor?["image_processor"] ?? preprocessor
    let templates = try ChatTemplateFiles(folder: path, tokenizerConfig: tokenizerConfig)
    chatTemplate = templates.plain
    toolChatTemplate = templates.withTools
    quantization = try QuantizationConfig(
      config: config, file: path + "/config.json", beside: try Self.quantizationFile(path))
    let files = gguf == nil ? try ShardFiles(folder: path) : nil
    let shards: [any WeightShard] = try files?.open() ?? []
    let store = try WeightStore(
      folder: path, shards: gguf?.shards ?? shards, quantization: quantization, progress: progress)
    weightBytes = store.shards.reduce(0) { $0 + $1.dataBytes }
    progress?.begin(weightBytes)
    weightFiles = store.shards.map(\.name)
    indexFault = files?.fault(store)
    weights = WeightMap(store: store)
  }

  /// Whether some of the matrices that a model has asked for are multiplied as floats on some instruction set whatever the
  /// mode is: those that are not quantized, of short rows (docs/decisions/005), and of E4M3 elements.
  package var multipliesFloats: Bool {
    isGGUF || quantization.names(.mxfp8)
      || weights.matrices.contains { matrix in
        matrix.columns <= 64 || matrix.columns % 32 != 0 || !weights.has(matrix.name + ".scales")
      }
  }

  /// Whether it is a GGUF file.
  package var isGGUF: Bool { gguf != nil }

  /// The folder that the files of the weights are in.
  package var place: String { gguf == nil ? path : File.parent(of: path) }

  /// What a GGUF file says of its licence.
  package var license: String? { gguf?.license }

  /// What a GGUF file says of an encoder, as `modules.json` does in a folder.
  package var ggufPooling: Pooling? { gguf?.pooling }
  var isGGUFReranker: Bool { gguf?.isReranker ?? false }

  /// Whether a path leads to a GGUF file, or to a folder whose only model is one.
  package static func isGGUF(_ path: String) -> Bool {
    (try? check(path)).map { GGUFParts.isName($0) && !File.isDirectory($0) } ?? false
  }

  /// The bytes of a file of the folder; nil when it is absent.
  ///
  /// - Throws: `.file` when it cannot be read, is not a regular file or has more than `limit` bytes.
  package func bytes(of fileName: String, limit: Int) throws(CheckpointError) -> [UInt8]? {
    try Self.bytes(path, fileName, limit: limit)
  }

  /// tokenizer.json; nil when absent. Read anew at every access: it can have tens of megabytes.
  package var tokenizerFile: [UInt8]? {
    get throws(CheckpointError) {
      if let gguf { return try gguf.tokenizerFile() }
      return try bytes(of: "tokenizer.json", limit: 256 << 20)
    }
  }

  /// What the model is but for the values of its weights: SHA-256 of config.json, and of each tensor's name, type and
  /// shape. 32 bytes.
  package var outline: [UInt8] {
    var hash = SHA256()
    hash.update(Array(config.text.utf8))
    weights.describe(into: &hash)
    return hash.finish()
  }

  /// The ids that end a text: of generation_config.json, else of config.json, else of its text_config.
  ///
  /// The tokenizer's own `eos_token` is not among them unless they list it.
  package var eosTokenIDs: [Int] {
    for place in [
      generationConfig?["eos_token_id"], config["eos_token_id"], config["text_config"]?["eos_token_id"],
    ] {
      guard let place else { continue }
      let values = place.arrayValue ?? [place]
      var ids: [Int] = []
      for id in values.compactMap(\.intValue) where (0...Int(Int32.max)).contains(id) && !ids.contains(id) {
        ids.append(id)
      }
      if !ids.isEmpty { return ids }
    }
    return []
  }
}

// MARK: - Opening

extension ModelFolder {
  private static let advice =
    "Give the folder of an MLX model (config.json, *.safetensors, tokenizer.json), or a GGUF file."

  /// The resolved path of a folder that exists, whatever is in it, or of a GGUF file: the one that was given, or the only
  /// one of a folder that has no other weights.
  package static func check(_ given: String) throws(CheckpointError) -> String {
    guard !given.isEmpty, !given.utf8.contains(0) else {
      throw .badFolder(path: given, problem: "this is not a path. \(advice)")
    }
    guard let path = File.resolved(fromHome(given)) else {
      let reason = String(cString: strerror(errno))
      throw .badFolder(path: given, problem: "\(reason). \(advice)")
    }
    guard File.isDirectory(path) else {
      // The hub's cache has links to files that are called by their hash.
      if GGUFParts.isName(given) {
        let path = fromHome(given)
        let folder = File.parent(of: path)
        return (File.resolved(folder) ?? folder) + "/" + File.name(of: path)
      }
      if let format = ForeignFormat.recognise(fileName: path) {
        throw .badFolder(path: given, problem: "this is \(format.name). \(format.advice)")
      }
      throw .badFolder(path: given, problem: "this is a file, not a folder. \(advice)")
    }
    let place = File.exists(path + "/config.json") ? path : snapshot(of: path) ?? path
    let names = (try? File.names(in: place)) ?? []
    guard !names.contains(where: { $0.hasSuffix(".safetensors") }),
      let model = try GGUFParts.only(of: names, in: place)
    else { return place }
    return place + "/" + model
  }

  /// `~/` as shells know it; they leave it alone after the `=` of `NAME=~/DIR`.
  package static func fromHome(_ path: String) -> String {
    guard path.utf8.starts(with: "~/".utf8), let home = getenv("HOME") else { return path }
    return String(cString: home) + path.dropFirst()
  }

  private static func snapshot(of path: String) -> String? {
    guard let commit = mainCommit(ofRepository: path) else { return nil }
    let place = path + "/snapshots/" + commit
    return File.isDirectory(place) ? place : nil
  }

  /// The current commit of a repository's folder in the Hub's cache, which holds snapshots by their commit: `refs/main`
  /// names it. A cache that was copied without `refs` has it too, if it is the only one.
  package static func mainCommit(ofRepository path: String) -> String? {
    func isCommit(_ text: some Collection<UInt8>) -> Bool {
      !text.isEmpty
        && text.allSatisfy {
          UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 || UInt8(ascii: "a")...UInt8(ascii: "f") ~= $0
        }
    }
    if let bytes = try? File.read(path + "/refs/main", limit: 200) {
      let commit = bytes.filter { $0 > 0x20 }
      return isCommit(commit) ? String(decoding: commit, as: UTF8.self) : nil
    }
    let found = ((try? File.names(in: path + "/snapshots")) ?? []).filter { isCommit($0.utf8) }
    return found.count == 1 ? found[0] : nil
  }

  /// What checkpoints of before 2024, and ModelOpt's, say of quantization in a file of its own.
  private static func quantizationFile(_ folder: String) throws(CheckpointError) -> JSONValue? {
    let files = [
      ("quantize_config.json", "gptq"), ("quant_config.json", "awq"), ("hf_quant_config.json", "modelopt"),
    ]
    for (name, method) in files {
      guard let found = try object(folder, name, limit: 1 << 20) else { continue }
      var object = found["quantization"]?.objectValue ?? found.objectValue ?? JSONObject()
      if object["quant_method"] == nil { object["quant_method"] = .string(method) }
      return .object(object)
    }
    return nil
  }

  private static func missingConfig(_ path: String) -> CheckpointError {
    let names = (try? File.names(in: path)) ?? []
    if let name = names.first(where: { ForeignFormat.recognise(fileName: $0) != nil }),
      !names.contains(where: { $0.utf8.reversed().starts(with: ".safetensors".utf8.reversed()) }),
      let format = ForeignFormat.recognise(fileName: name)
    {
      return .foreignFormat(
        file: path + "/" + name, format: format.name,
        advice: format.advice)
    }
    return .missingFile(folder: path, name: "config.json", advice: advice)
  }

  /// The last component, or the repository's name in `…/models--owner--name/snapshots/<commit>`.
  package static func modelName(_ path: String) -> String {
    if GGUFParts.isName(path) { return GGUFParts.modelName(path) }
    let parts = path.split(separator: "/")
    if parts.count >= 3, parts[parts.count - 2].utf8.elementsEqual("snapshots".utf8) {
      let repository = Array(parts[parts.count - 3].utf8)
      if repository.starts(with: "models--".utf8),
        let end = repository.indices.dropFirst(8).dropLast(2).first(where: {
          repository[$0] == UInt8(ascii: "-") && repository[$0 + 1] == UInt8(ascii: "-")
        })
      {
        return String(decoding: repository[(end + 2)...], as: UTF8.self)
      }
    }
    return parts.last.map(String.init) ?? "model"
  }

  static func bytes(_ folder: String, _ name: String, limit: Int) throws(CheckpointError) -> [UInt8]? {
    let path = folder + "/" + name
    do {
      return try File.read(path, limit: limit)
    } catch {
      // A GGUF file has no files in it.
      if case .file("open", _, let code) = error, code == ENOENT || code == ENOTDIR { return nil }
      throw .file(error)
    }
  }

  /// A JSON file that must hold an object, as Python's json writes it; nil when absent.
  static func object(
    _ folder: String, _ name: String, limit: Int = 64 << 20
  ) throws(CheckpointError) -> JSONValue? {
    guard let bytes = try bytes(folder, name, limit: limit) else { return nil }
    let path = folder + "/" + name
    let value: JSONValue
    do {
      value = try JSONValue(parsing: bytes, allowsNonFinite: true)
    } catch {
      throw .json(file: path, error: error)
    }
    guard value.objectValue != nil else {
      throw .badValue(file: path, key: "the document", problem: "is \(value.kind), expected an object")
    }
    return value
  }
}
