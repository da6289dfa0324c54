// What a sentence-transformers folder says beside config.json: its modules, prompts, and the longest text.
//
// Both generations of the files are read. A type such as `sentence_transformers.models.Pooling` is known by its last
// component: version 6 moved the modules.

package import Compute
import JSON
import Platform

/// One step from the states of a text's tokens to its vector.
package enum SentenceModule: Sendable {
  /// Each of `modes` makes a vector of the tokens; they stand side by side.
  case pooling(modes: [Pooling], includesPrompt: Bool)
  /// `activation(x · Wᵀ + b)` with the tensors `linear.weight` and `linear.bias` of a folder.
  case dense(folder: String, inputs: Int, outputs: Int, activation: SentenceActivation)
  case normalize
}

/// What a dense module does to its outputs.
package enum SentenceActivation: String, Sendable, CaseIterable {
  case identity = "Identity"
  case tanh = "Tanh"
  case relu = "ReLU"
  case gelu = "GELU"
}

/// A named text that is put in front of others.
package struct SentencePrompt: Sendable {
  package let name: String
  package let text: String

  package init(name: String, text: String) {
    (self.name, self.text) = (name, text)
  }
}

/// The files of sentence-transformers in a model folder; absent ones leave their defaults.
package struct SentenceFolder: Sendable {
  /// What follows the encoder, in order; nil where no file says it.
  package private(set) var modules: [SentenceModule]?
  /// Most tokens of a text; nil where no file says it.
  package private(set) var maxLength: Int?
  /// Whether texts are lowercased before they are tokenized.
  package private(set) var lowercases = false
  package private(set) var prompts: [SentencePrompt] = []
  /// The prompt of texts for which none is asked.
  package private(set) var defaultPrompt: String?

  /// A text longer than this is no limit but a placeholder, such as 1e30.
  private static let longest = 1 << 24

  package init(_ folder: ModelFolder) throws(CheckpointError) {
    let path = folder.path
    if let file = try Self.value(path, "modules.json") {
      try readModules(file, path)
    } else if let pooling = try ModelFolder.object(path, "1_Pooling/config.json") {
      modules = [try Self.pooling(pooling, path + "/1_Pooling/config.json"), .normalize]
    }
    let settings = try ModelFolder.object(path, "sentence_bert_config.json")
    lowercases = settings?["do_lower_case"]?.boolValue ?? false
    maxLength =
      Self.length(settings?["max_seq_length"]) ?? Self.length(folder.tokenizerConfig?["model_max_length"])
    try readPrompts(path)
  }

  private static func length(_ value: JSONValue?) -> Int? {
    guard let length = value?.intValue, (1...longest).contains(length) else { return nil }
    return length
  }

  /// A JSON file that must hold an array; nil when absent.
  private static func value(_ folder: String, _ name: String) throws(CheckpointError) -> [JSONValue]? {
    guard let bytes = try ModelFolder.bytes(folder, name, limit: 1 << 20) else { return nil }
    let file = folder + "/" + name
    let value: JSONValue
    do {
      value = try JSONValue(parsing: bytes)
    } catch {
      throw .json(file: file, error: error)
    }
    guard let array = value.arrayValue, array.count <= 64 else {
      throw .badValue(file: file, key: "the document", problem: "is no array of at most 64 modules")
    }
    return array
  }

  // MARK: Modules

  private mutating func readModules(_ entries: [JSONValue], _ path: String) throws(CheckpointError) {
    var found: [SentenceModule] = []
    for (index, entry) in entries.enumerated() {
      let file = path + "/modules.json"
      let type = entry["type"]?.stringValue ?? ""
      let folder = entry["path"]?.stringValue ?? ""
      guard Self.isPlain(folder) else {
        throw .badValue(file: file, key: "[\(index)].path", problem: "leads out of the folder")
      }
      switch type.split(separator: ".").last ?? "" {
      case "Transformer", "CrossEncoder", "Dropout", "MLMTransformer", "SpladePooling": continue
      case "Pooling":
        let config = try Self.config(path, folder)
        found.append(try Self.pooling(config.value, config.file))
      case "Dense":
        let config = try Self.config(path, folder)
        found.append(try Self.dense(config.value, config.file, folder: folder))
      case "Normalize": found.append(.normalize)
      default:
        throw .badValue(
          file: file, key: "[\(index)].type",
          problem: "is '\(type)', which is not supported: Transformer, Pooling, Dense and Normalize are")
      }
    }
    modules = found
  }

  /// One path component, or none.
  private static func isPlain(_ folder: String) -> Bool {
    !folder.utf8.contains { $0 == UInt8(ascii: "/") || $0 == 0 } && !folder.utf8.starts(with: "..".utf8)
  }

  private static func config(_ path: String, _ folder: String) throws(CheckpointError)
    -> (value: JSONValue, file: String)
  {
    let name = folder + "/config.json"
    guard let value = try ModelFolder.object(path, name) else {
      throw .missingFile(folder: path, name: name, advice: "modules.json lists it. Re-download the model.")
    }
    return (value, path + "/" + name)
  }

  private static let flags: [(key: String, pooling: Pooling)] = [
    ("pooling_mode_cls_token", .cls), ("pooling_mode_max_tokens", .max),
    ("pooling_mode_mean_tokens", .mean), ("pooling_mode_mean_sqrt_len_tokens", .meanSqrtLength),
    ("pooling_mode_weightedmean_tokens", .weightedMean), ("pooling_mode_lasttoken", .lastToken),
  ]

  private static func pooling(_ config: JSONValue, _ file: String) throws(CheckpointError) -> SentenceModule {
    var modes: [Pooling] = []
    if let value = config["pooling_mode"], !value.isNull {
      for name in value.arrayValue ?? [value] {
        guard let mode = name.stringValue.flatMap(Pooling.init(rawValue:)) else {
          throw .badValue(
            file: file, key: "pooling_mode",
            problem:
              "is \(name.text), expected one of \(Pooling.allCases.map(\.rawValue).joined(separator: ", "))"
          )
        }
        modes.append(mode)
      }
    } else {
      modes = flags.filter { config[$0.key]?.boolValue ?? false }.map(\.pooling)
    }
    guard !modes.isEmpty else {
      throw .badValue(file: file, key: "pooling_mode", problem: "chooses no pooling")
    }
    return .pooling(modes: modes, includesPrompt: config["include_prompt"]?.boolValue ?? true)
  }

  private static func dense(
    _ config: JSONValue, _ file: String, folder: String
  ) throws(CheckpointError) -> SentenceModule {
    func size(_ key: String) throws(CheckpointError) -> Int {
      guard let size = config[key]?.intValue, (1...1 << 17).contains(size) else {
        throw .badValue(file: file, key: key, problem: "is no size from 1 to \(1 << 17)")
      }
      return size
    }
    let name = config["activation_function"]?.stringValue ?? "torch.nn.modules.activation.Tanh"
    let last = name.split(separator: ".").last.map(String.init) ?? ""
    guard let activation = SentenceActivation(rawValue: last) else {
      throw .badValue(
        file: file, key: "activation_function",
        problem: "is '\(name)', which is not supported: "
          + SentenceActivation.allCases.map(\.rawValue).joined(separator: ", ") + " are")
    }
    return .dense(
      folder: folder, inputs: try size("in_features"), outputs: try size("out_features"),
      activation: activation)
  }

  // MARK: Prompts

  private mutating func readPrompts(_ path: String) throws(CheckpointError) {
    let name = "config_sentence_transformers.json"
    guard let config = try ModelFolder.object(path, name) else { return }
    let file = path + "/" + name
    for (name, text) in config["prompts"]?.objectValue?.entries ?? [] {
      guard let text = text.stringValue else {
        throw .badValue(file: file, key: "prompts.\(name)", problem: "is \(text.kind), expected a string")
      }
      prompts.append(SentencePrompt(name: name, text: text))
    }
    if let name = config["default_prompt_name"]?.stringValue {
      guard prompts.contains(where: { $0.name.utf8.elementsEqual(name.utf8) }) else {
        throw .badValue(file: file, key: "default_prompt_name", problem: "names no prompt")
      }
      defaultPrompt = name
    }
    let similarity = config["similarity_fn_name"]?.stringValue ?? "cosine"
    guard ["cosine", "dot", "dot_score", "cos_sim"].contains(similarity) else {
      throw .badValue(
        file: file, key: "similarity_fn_name",
        problem: "is '\(similarity)': vectors of this model cannot be compared by their direction")
    }
  }
}

extension ModelFolder {
  /// All tensors of `model.safetensors` in a folder inside this one, as a dense module has them; nil when absent.
  package func weights(inside folder: String) throws(CheckpointError) -> WeightMap? {
    let place = path + "/" + folder
    guard File.exists(place + "/model.safetensors") else { return nil }
    let shard = try Safetensors(path: place + "/model.safetensors")
    return WeightMap(
      store: try WeightStore(folder: place, shards: [shard], quantization: quantization))
  }
}
