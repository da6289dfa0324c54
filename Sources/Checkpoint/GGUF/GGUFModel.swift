// A GGUF model as a model folder is read: its parts, config.json and the other files made from its metadata, its tensors
// under their names in safetensors.

import Compute
import JSON
import Platform

/// The files of one model, opened and checked.
struct GGUFModel {
  let path: String
  let files: [GGUFFile]
  let architecture: GGUFArchitecture
  let config: JSONValue
  let shards: [GGUFShard]
  private var first: GGUFFile { files[0] }
  /// How an encoder makes a vector of a text; nil for a model that goes on with text, and for a reranker.
  var pooling: Pooling? { poolingType.flatMap { [1: .mean, 2: .cls, 3: .lastToken][$0] } }
  /// Whether it scores pairs of texts.
  var isReranker: Bool { poolingType == Self.ranks }
  private var poolingType: Int? { first.int(architecture.name + ".pooling_type") }
  static let ranks = 4
  var license: String? { first.string("general.license") }

  /// - Parameter path: of the file, or of its first part.
  /// - Throws: what is wrong with a part, or what of the model no family here has, by its name.
  init(path: String) throws(CheckpointError) {
    self.path = path
    var files: [GGUFFile] = []
    for part in try GGUFParts(of: path).paths { files.append(try GGUFFile(path: part)) }
    self.files = files
    let head = files[0]
    if let parts = head.int("split.count"), parts != files.count, parts > 1 || files.count > 1 {
      throw Self.fault(
        head, "split.count",
        "says that it is part \((head.int("split.no") ?? 0) &+ 1) of \(parts): keep all parts in one folder, with their names"
      )
    }
    let name = head.architecture
    guard var architecture = GGUFArchitecture.all.first(where: { $0.name == name }) else {
      throw Self.fault(
        head, "general.architecture",
        "is \(CheckpointError.quoted(name)), which is not served from GGUF: \(GGUFArchitecture.all.map(\.name).joined(separator: ", ")) are"
      )
    }
    let hasExperts = head.int(name + ".expert_count") ?? 0 > 0
    if name == "llama", hasExperts { architecture.mlp = "block_sparse_moe" }
    if name == "granitehybrid", !hasExperts { architecture.mlp = "mlp" }
    self.architecture = architecture
    let config = try GGUFConfig(files, architecture)
    self.config = .object(config.object)
    var shards: [GGUFShard] = []
    for file in files {
      let entries = file.tensors.flatMap { tensor in
        guard let place = architecture.place(of: tensor.name) else {
          return [GGUFShard.Entry(name: tensor.name, tensor: tensor, change: .none)]
        }
        // A file can claim any number.
        if tensor.shape.count > 2, !tensor.name.hasPrefix("blk."), (1...16).contains(tensor.shape[0]) {
          return Self.parts(of: tensor, place.name)
        }
        return [
          GGUFShard.Entry(
            name: place.name, tensor: tensor,
            change: Self.change(tensor, place.module, architecture, config))
        ]
      }
      for entry in entries {
        guard case .unread(let type) = entry.tensor.storage else { continue }
        throw Self.fault(
          file, entry.tensor.name,
          "has blocks of type \(type), which are not read: take another quantization of the model, such as Q4_K_M or Q8_0"
        )
      }
      // Tensors that config.json took something from, and that no model asks for.
      shards.append(GGUFShard(file, entries.filter { !$0.name.hasPrefix("rope_f") }))
    }
    self.shards = shards
  }

  static func fault(_ file: GGUFFile, _ key: String, _ problem: String) -> CheckpointError {
    .badValue(file: file.path, key: key, problem: problem)
  }

  /// Outside of layers a stack of matrices is several modules with numbers.
  private static func parts(of tensor: GGUFFile.Tensor, _ name: String) -> [GGUFShard.Entry] {
    let (module, ending) = (name.split(separator: ".").dropLast().joined(separator: "."), "weight")
    let count = tensor.shape[0]
    let size = tensor.range.count / count
    return (0..<count).map { index in
      var part = tensor
      part.shape = Array(tensor.shape.dropFirst())
      part.range = tensor.range.lowerBound + index * size..<tensor.range.lowerBound + (index + 1) * size
      return GGUFShard.Entry(name: "\(module).\(index).\(ending)", tensor: part, change: .none)
    }
  }

  private static func change(
    _ tensor: GGUFFile.Tensor, _ module: String, _ architecture: GGUFArchitecture, _ config: GGUFConfig
  ) -> GGUFChange {
    let count = tensor.shape.reduce(1, *)
    let isFlat = tensor.shape.count == 1
    switch module {
    case "ssm_a": return .rates(architecture.name == "kimi-linear" ? tensor.shape : [count])
    case "ssm_d", "ssm_norm": return isFlat ? .none : .reshaped([count])
    case "shortconv.conv", "ssm_conv1d", "ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v":
      guard let taps = tensor.shape.last, taps > 0, !isFlat else { return .none }
      // MLX's order says of Falcon H1 that its multipliers are in the weights, where the converter puts them too.
      return .reshaped(architecture.name == "falcon-h1" ? [count / taps, taps, 1] : [count / taps, 1, taps])
    case "attn_q" where architecture.pairsRows, "attn_k" where architecture.pairsRows:
      let rows = isFlat ? tensor.shape[0] : tensor.shape[tensor.shape.count - 2]
      let heads = module == "attn_q" ? config.heads : config.kvHeads
      // Heads of another size are a fault that the shapes tell.
      return rows % heads == 0 && rows / heads % 2 == 0 ? .pairs(headRows: rows / heads) : .none
    default: return architecture.shiftsNorms && module.hasSuffix("norm") ? .plusOne : .none
    }
  }

  // MARK: The other files

  /// As tokenizer_config.json has it: the template and the tokens that it names.
  var tokenizerConfig: JSONValue {
    var object = JSONObject()
    let ids = [("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")].compactMap {
      name, key in
      first.int("tokenizer.ggml.\(key)_token_id").map { (name, $0) }
    }
    let tokens = first.strings("tokenizer.ggml.tokens", at: Set(ids.map(\.1)))
    for (name, id) in ids {
      object[name + "_token"] = tokens[id].map { .string(String(decoding: $0, as: UTF8.self)) }
    }
    let key = "tokenizer.chat_template"
    guard let plain = first.string(key) else { return .object(object) }
    var templates: [JSONValue] = [["name": "default", "template": .string(plain)]]
    if let tools = first.string(key + ".tool_use") {
      templates.append(["name": "tool_use", "template": .string(tools)])
    }
    object["chat_template"] = .array(templates)
    return .object(object)
  }

  /// As generation_config.json has it; nil where the file recommends nothing.
  var generationConfig: JSONValue? {
    let names = [
      ("temp", "temperature"), ("top_k", "top_k"), ("top_p", "top_p"), ("min_p", "min_p"),
      ("penalty_repeat", "repetition_penalty"),
    ]
    var object = JSONObject()
    for (key, name) in names {
      guard let value = first.double("general.sampling." + key) else { continue }
      object[name] = key == "top_k" ? Int(exactly: value).map(JSONValue.int) : .double(value)
    }
    if !object.isEmpty { object["do_sample"] = true }
    return object.isEmpty ? nil : .object(object)
  }

  /// As tokenizer.json has it; nil where the file has no vocabulary.
  ///
  /// - Throws: for a kind of tokenizer, or of splitting, that has no reader here.
  func tokenizerFile() throws(CheckpointError) -> [UInt8]? {
    guard first.has("tokenizer.ggml.model") else { return nil }
    return try GGUFTokenizer(first).file
  }
}

/// Where the parts of a model lie: one file, or `NAME-00001-of-00003.gguf` and those that follow.
package struct GGUFParts {
  package let paths: [String]

  /// - Throws: `.missingFile` for a part that is not there.
  package init(of path: String) throws(CheckpointError) {
    guard let (start, count) = Self.split(path) else {
      paths = [path]
      return
    }
    var paths: [String] = []
    for part in 1...count {
      let path = start + Self.digits(part) + "-of-" + Self.digits(count) + ".gguf"
      guard File.exists(path) else {
        throw .missingFile(
          folder: File.parent(of: path), name: File.name(of: path),
          advice: "It is part \(part) of \(count) of the model: download it.")
      }
      paths.append(path)
    }
    self.paths = paths
  }

  private static func digits(_ number: Int) -> String {
    let text = String(number)
    return String(repeating: "0", count: max(0, 5 - text.count)) + text
  }

  /// What stands before the number of a part, and how many there are.
  private static func split(_ path: String) -> (start: String, count: Int)? {
    let end = Array(path.utf8.suffix(20))
    func number(_ range: Range<Int>) -> Int? {
      let digits = end[range]
      guard digits.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }) else { return nil }
      return Int(String(decoding: digits, as: UTF8.self))
    }
    guard end.count == 20, end[0] == UInt8(ascii: "-"), end[6..<10].elementsEqual("-of-".utf8),
      end[15...].elementsEqual(".gguf".utf8), let part = number(1..<6), let count = number(10..<15),
      (1...count).contains(part)
    else { return nil }
    return (String(path.dropLast(19)), count)
  }

  /// What a model is called by the name of its file, or of its first part.
  static func modelName(_ path: String) -> String { File.name(of: stem(path)) }

  /// A path without its ending, and without the number of a part: the same for all parts of a model.
  package static func stem(_ path: String) -> String {
    split(path).map { String($0.start.dropLast()) } ?? String(path.dropLast(5))
  }

  static func isName(_ name: String) -> Bool { name.lowercased().hasSuffix(".gguf") }

  /// The file of the one model among the names of a folder's files, or its first part; nil where there is none.
  ///
  /// - Throws: the names of several.
  static func only(of names: [String], in folder: String) throws(CheckpointError) -> String? {
    // What projects images into a model is a file beside it.
    let models = names.filter { name in
      guard isName(name), !name.lowercased().contains("mmproj") else { return false }
      return split(name).map { name.hasPrefix($0.start + digits(1)) } ?? true
    }.sorted()
    guard models.count > 1 else { return models.first }
    throw .badFolder(
      path: folder,
      problem: "it has several GGUF models: name one of them, "
        + models.prefix(8).map { folder + "/" + $0 }.joined(separator: ", ") + (models.count > 8 ? ", …" : "")
    )
  }
}
