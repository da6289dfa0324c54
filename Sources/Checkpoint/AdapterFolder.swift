// A folder with an adapter, as mlx-lm or PEFT writes it: a small config, and two thin matrices for each map that it changes.
//
//            config                  weights                       matrices of a map
//   mlx-lm   adapter_config.json     adapters.safetensors          lora_a [in, r], lora_b [r, out], m [out]
//   PEFT     adapter_config.json     adapter_model.safetensors     lora_A.weight [r, in], lora_B.weight [out, r],
//            with peft_type                                        lora_magnitude_vector [out]
//
// Experts, mlx-lm's alone: lora_a [E, r, in], lora_b [E, out, r]. Tables: lora_a [V, r], lora_b [r, H]; in PEFT
// lora_embedding_A [r, V], lora_embedding_B [H, r]. Sources: mlx_lm/tuner/lora.py, peft/tuners/lora.

package import Compute
import JSON
import Platform

/// An adapter that has been read and checked as far as that goes without its model. Its tensors stay in the mapping.
package struct AdapterFolder: Sendable {
  /// What changes one module.
  package struct Module: Sendable {
    /// As the file calls it, without its prefix of PEFT.
    package let name: String
    /// Experts of a stack; nil for one map.
    package let experts: Int?
    /// As a linear map, or a table where `isTable` says so.
    package let tensors: LowRankTensors
    /// The same as the change of a table, where the file does not say which it is: mlx-lm names both alike.
    package let asTable: LowRankTensors?
    /// Whether the file says that it is a table.
    package let isTable: Bool

    /// Bytes of its tensors in the file.
    package var byteCount: Int {
      tensors.down.bytes.count + tensors.up.bytes.count + (tensors.magnitude?.bytes.count ?? 0)
    }
  }

  package let path: String
  package let modules: [Module]
  /// SHA-256 over both files, in hexadecimal digits.
  package let digest: String
  /// Whether a table that is the output head too is changed as both: so mlx-lm computes, and PEFT does not.
  package let changesTiedHead: Bool
  /// What is odd about it and harmless.
  package let warnings: [String]

  /// The name of a module without what tools put before it: `layers.0.self_attn.q_proj`.
  package static func bareName(_ name: String) -> String {
    var rest = name[...]
    while let prefix = ["model.", "language_model."].first(where: { rest.hasPrefix($0) }) {
      rest = rest.dropFirst(prefix.count)
    }
    return String(rest)
  }

  package static let configName = "adapter_config.json"
  /// The largest rank.
  private static let mostRanks = 512
  /// Bytes of a config.
  private static let configBytes = 1 << 20

  /// Whether a folder has an adapter.
  package static func isAdapter(_ path: String) -> Bool { File.exists(path + "/" + configName) }

  /// - Throws: `badAdapter` naming the key or the tensor, or what is wrong with the files.
  package init(path: String) throws(CheckpointError) {
    guard File.isDirectory(path) else { throw .badAdapter(path: path, problem: "it is no folder") }
    guard let bytes = try ModelFolder.bytes(path, Self.configName, limit: Self.configBytes),
      let config = try ModelFolder.object(path, Self.configName, limit: Self.configBytes)
    else { throw .badAdapter(path: path, problem: "it has no \(Self.configName)") }
    self.path = path
    let isPEFT = config["peft_type"] != nil
    let form: any AdapterForm = isPEFT ? try PEFTForm(config, path) : try MLXForm(config, path)
    let file = path + "/" + form.fileName
    guard File.exists(file) else {
      throw .badAdapter(
        path: path,
        problem: "it has no \(form.fileName)"
          + (File.exists(path + "/adapter_model.bin") ? ": save it as safetensors" : ""))
    }
    let tensors = try Safetensors(path: file)
    modules = try Self.modules(tensors, form, path)
    (changesTiedHead, warnings) = (!isPEFT, form.warnings)
    do {
      guard let weights = try WeightFiles([tensors]).digest(goOn: { _ in true }) else {
        throw CheckpointError.badAdapter(path: path, problem: "\(form.fileName) is being written")
      }
      digest = SHA256.hexadecimal(SHA256.digest(SHA256.digest(bytes) + weights))
    } catch let error as CheckpointError {
      throw error
    } catch let error as PlatformError {
      throw .file(error)
    } catch {
      throw .badAdapter(path: path, problem: "\(error)")
    }
  }

  /// Bytes of all its tensors.
  package var byteCount: Int { modules.map(\.byteCount).sumOfSizes }

  // MARK: Tensors

  private static func modules(
    _ file: Safetensors, _ form: any AdapterForm, _ path: String
  ) throws(CheckpointError) -> [Module] {
    var found: [String: AdapterParts] = [:]
    var order: [String] = []
    var unknown: [String] = []
    for index in 0..<file.count {
      let name = file.tensorName(index)
      guard let (module, part) = form.part(of: name) else {
        unknown.append(name)
        continue
      }
      guard let tensor = file.tensor(index), [.f32, .f16, .bf16].contains(tensor.dtype) else {
        throw .badAdapter(
          path: path,
          problem:
            "tensor \(CheckpointError.quoted(name)) has elements of type \(file.dtypeName(index)), expected F32, F16 or BF16"
        )
      }
      if found[module] == nil { order.append(module) }
      guard found[module, default: AdapterParts()].tensors.updateValue(tensor, forKey: part) == nil else {
        throw .badAdapter(path: path, problem: "module \(CheckpointError.quoted(module)) is there twice")
      }
    }
    guard unknown.isEmpty else { throw .badAdapter(path: path, problem: form.refusal(of: unknown)) }
    guard !order.isEmpty else { throw .badAdapter(path: path, problem: "it changes nothing") }
    var modules: [Module] = []
    for name in order { modules.append(try module(name, found[name] ?? AdapterParts(), form, path)) }
    return modules
  }

  private static func module(
    _ name: String, _ parts: AdapterParts, _ form: any AdapterForm, _ path: String
  ) throws(CheckpointError) -> Module {
    func fault(_ problem: String) -> CheckpointError {
      .badAdapter(path: path, problem: "module \(CheckpointError.quoted(name)) \(problem)")
    }
    let isTable = parts.tensors[.tableDown] != nil || parts.tensors[.tableUp] != nil
    guard let a = parts.tensors[isTable ? .tableDown : .down], let b = parts.tensors[isTable ? .tableUp : .up]
    else { throw fault("has one matrix of two") }
    guard a.shape.count == b.shape.count, a.shape.count == 2 || (a.shape.count == 3 && form.hasStacks),
      a.shape.count == 2 || a.shape[0] == b.shape[0], a.shape.allSatisfy({ $0 > 0 }),
      b.shape.allSatisfy({ $0 > 0 })
    else { throw fault("has matrices of the shapes \(a.shape) and \(b.shape)") }
    let isStack = a.shape.count == 3
    // Stacks of experts are not turned over.
    let isTurned = form.isTurned && !isStack
    let (rank, other) =
      isTurned
      ? (a.shape[1], b.shape[0])
      : (a.shape[a.shape.count - 2], b.shape[b.shape.count - 1])
    guard rank == other else { throw fault("has ranks of \(rank) and \(other)") }
    guard rank <= mostRanks else { throw fault("has a rank of \(rank); at most \(mostRanks) are supported") }
    let magnitude = parts.tensors[.magnitude]
    if form.isDoRA != (magnitude != nil) {
      throw fault(
        magnitude == nil
          ? "has no magnitudes, and its config says DoRA" : "has magnitudes, and its config does not say DoRA"
      )
    }
    if magnitude != nil, isStack || isTable {
      throw fault("is a table or a stack of experts with DoRA, which is not supported")
    }
    let factor = try form.factor(of: name, rank: rank)
    guard factor.isFinite, abs(factor) <= 1e6 else { throw fault("has the factor \(factor)") }
    func pair(_ down: TensorView, _ downTurned: Bool, _ up: TensorView, _ upTurned: Bool) -> LowRankTensors {
      LowRankTensors(
        down: down, isDownTurned: downTurned, up: up, isUpTurned: upTurned, magnitude: magnitude,
        factor: factor)
    }
    // A row of a table is `A[id] · B`: of a map with as many outputs B reads the input. mlx-lm turns both over for maps.
    let mayBeTable = isTable || form.isTurned && !isStack && magnitude == nil
    let table = mayBeTable ? pair(b, isTable, a, isTable) : nil
    let tensors = isTable ? pair(b, true, a, true) : pair(a, isTurned, b, isTurned)
    if let magnitude, magnitude.shape != [tensors.rows] {
      throw fault("has magnitudes of the shape \(magnitude.shape), expected [\(tensors.rows)]")
    }
    let broken: String?
    do throws(ComputeError) {
      broken = try tensors.tensorWithoutNumbers()
    } catch {
      throw fault("cannot be read: \(error)")
    }
    if let broken {
      throw fault("has elements that are no finite numbers (\(CheckpointError.escaped(broken)))")
    }
    return Module(
      name: name, experts: isStack ? a.shape[0] : nil, tensors: tensors, asTable: table,
      isTable: isTable)
  }
}

/// The tensors of one module.
private struct AdapterParts {
  enum Kind: Hashable {
    case down, up, magnitude
    /// Of a table, where they have names of their own.
    case tableDown, tableUp
  }

  var tensors: [Kind: TensorView] = [:]
}

/// How a tool writes adapters.
private protocol AdapterForm {
  var fileName: String { get }
  /// Whether both matrices are `[in, r]` and `[r, out]`.
  var isTurned: Bool { get }
  /// Whether there may be stacks of experts.
  var hasStacks: Bool { get }
  var isDoRA: Bool { get }
  var warnings: [String] { get }
  /// The module of a tensor, and what it is of it; nil for one of another kind.
  func part(of tensor: String) -> (module: String, part: AdapterParts.Kind)?
  /// Why tensors are not taken.
  func refusal(of tensors: [String]) -> String
  /// What the product of both matrices is multiplied with.
  func factor(of module: String, rank: Int) throws(CheckpointError) -> Float
}

extension AdapterForm {
  func refusal(of tensors: [String]) -> String {
    "it has tensors that are none of LoRA's or DoRA's: "
      + tensors.prefix(3).map(CheckpointError.quoted).joined(separator: ", ")
  }

  fileprivate static func split(
    _ name: String, _ endings: [(String, AdapterParts.Kind)]
  ) -> (String, AdapterParts.Kind)? {
    for (ending, kind) in endings where name.hasSuffix(ending) && name.utf8.count > ending.utf8.count {
      return (String(name.dropLast(ending.count)), kind)
    }
    return nil
  }
}

/// mlx-lm's.
private struct MLXForm: AdapterForm {
  let fileName = "adapters.safetensors"
  let isTurned = true
  let hasStacks = true
  let isDoRA: Bool
  private(set) var warnings: [String] = []
  private let scale: Float

  init(_ config: JSONValue, _ path: String) throws(CheckpointError) {
    let kind = config["fine_tune_type"]?.stringValue ?? "lora"
    guard kind == "lora" || kind == "dora" else {
      throw .badAdapter(
        path: path,
        problem: kind == "full"
          ? "fine_tune_type is full: whole weights, which are a model's folder and no adapter"
          : "fine_tune_type is \(CheckpointError.quoted(kind)), expected lora or dora")
    }
    isDoRA = kind == "dora"
    let parameters = config["lora_parameters"]
    guard let scale = parameters?["scale"]?.doubleValue else {
      throw .badAdapter(path: path, problem: "\(AdapterFolder.configName) has no lora_parameters.scale")
    }
    // The factor, whatever the rank: older versions multiplied it with alpha / rank.
    self.scale = Float(scale)
    if parameters?["alpha"] != nil { warnings.append("lora_parameters.alpha is not used, as in mlx-lm") }
  }

  func part(of tensor: String) -> (module: String, part: AdapterParts.Kind)? {
    Self.split(tensor, [(".lora_a", .down), (".lora_b", .up), (".m", .magnitude)])
  }

  func factor(of module: String, rank: Int) -> Float { scale }
}

/// PEFT's.
private struct PEFTForm: AdapterForm {
  let fileName = "adapter_model.safetensors"
  let isTurned = false
  let hasStacks = false
  let isDoRA: Bool
  private(set) var warnings: [String] = []
  private let path: String
  private let rank: Int
  private let alpha: Double
  private let isStabilized: Bool
  private let ranks: [(key: String, value: Double)]
  private let alphas: [(key: String, value: Double)]

  init(_ config: JSONValue, _ path: String) throws(CheckpointError) {
    func refuse(_ problem: String) -> CheckpointError { .badAdapter(path: path, problem: problem) }
    let type = config["peft_type"]?.stringValue ?? ""
    guard type == "LORA" else { throw refuse("peft_type is \(CheckpointError.quoted(type)), expected LORA") }
    // What changes more than two matrices say, and what would be served wrongly without it.
    for key in [
      "modules_to_save", "layer_replication", "megatron_config", "alora_invocation_tokens",
      "target_parameters",
      "trainable_token_indices",
    ] where Self.isGiven(config[key]) { throw refuse("\(key) is not supported") }
    for key in ["fan_in_fan_out", "use_qalora", "use_bdlora", "lora_bias", "ensure_weight_tying"]
    where config[key]?.boolValue == true || config[key]?.objectValue != nil {
      throw refuse("\(key) is not supported")
    }
    let bias = config["bias"]?.stringValue ?? "none"
    guard bias == "none" else {
      throw refuse("bias is \(CheckpointError.quoted(bias)): only none is supported")
    }
    guard let rank = config["r"]?.intValue, rank > 0, let alpha = config["lora_alpha"]?.doubleValue else {
      throw refuse("\(AdapterFolder.configName) needs r, at least 1, and lora_alpha")
    }
    (self.path, self.rank, self.alpha) = (path, rank, alpha)
    isStabilized = config["use_rslora"]?.boolValue ?? false
    isDoRA = config["use_dora"]?.boolValue ?? false
    ranks = try Self.pattern(config, "rank_pattern", path)
    alphas = try Self.pattern(config, "alpha_pattern", path)
    if let start = config["init_lora_weights"]?.stringValue,
      ["pissa", "olora", "corda", "loftq"].contains(where: { start.lowercased().hasPrefix($0) })
    {
      warnings.append(
        "init_lora_weights \(CheckpointError.quoted(start)) has changed its base: it fits no other unless it was converted"
      )
    }
  }

  private static func isGiven(_ value: JSONValue?) -> Bool {
    guard let value, !value.isNull else { return false }
    return value.arrayValue?.isEmpty != true && value.objectValue?.isEmpty != true
  }

  /// Numbers by ends of names. PEFT takes expressions.
  private static func pattern(
    _ config: JSONValue, _ name: String, _ path: String
  ) throws(CheckpointError) -> [(key: String, value: Double)] {
    var entries: [(key: String, value: Double)] = []
    for (key, value) in config[name]?.objectValue?.entries ?? [] {
      guard let number = value.doubleValue else {
        throw .badAdapter(path: path, problem: "\(name) of \(CheckpointError.quoted(key)) is no number")
      }
      guard !key.utf8.contains(where: { "^$*+?()[]{}|\\".utf8.contains($0) }) else {
        throw .badAdapter(
          path: path,
          problem: "\(name) has the expression \(CheckpointError.quoted(key)): only names are supported")
      }
      entries.append((key, number))
    }
    return entries
  }

  private static let prefix = "base_model.model."

  func part(of tensor: String) -> (module: String, part: AdapterParts.Kind)? {
    let endings: [(String, AdapterParts.Kind)] = [
      (".lora_A.weight", .down), (".lora_B.weight", .up), (".lora_magnitude_vector", .magnitude),
      (".lora_magnitude_vector.weight", .magnitude), (".lora_embedding_A", .tableDown),
      (".lora_embedding_B", .tableUp),
    ]
    guard let (module, part) = Self.split(tensor, endings) else { return nil }
    return (module.hasPrefix(Self.prefix) ? String(module.dropFirst(Self.prefix.count)) : module, part)
  }

  func factor(of module: String, rank found: Int) throws(CheckpointError) -> Float {
    func value(_ pattern: [(key: String, value: Double)]) -> Double? {
      pattern.first { module == $0.key || module.hasSuffix("." + $0.key) }?.value
    }
    let rank = value(ranks) ?? Double(rank)
    guard rank == Double(found) else {
      throw .badAdapter(
        path: path,
        problem:
          "module \(CheckpointError.quoted(module)) has a rank of \(found), and its config says \(Int(exactly: rank) ?? 0)"
      )
    }
    let alpha = value(alphas) ?? alpha
    return Float(isStabilized ? alpha / rank.squareRoot() : alpha / rank)
  }
}
