// All tensors of the converted model before any is written: names, shapes, types, where each comes from, and config.json.

package import Checkpoint
import Compute
import JSON

/// A conversion as it is going to be.
package struct ConversionPlan: Sendable {
  /// Tensors that are written together: the parts of a matrix, or one by itself.
  struct Output: Sendable {
    /// Elements, then scales and biases where there are any.
    var names: [String]
    let dtypes: [DType]
    let shapes: [[Int]]
    let sources: [Source]
    /// Nil copies bytes.
    let form: WeightForm?
    /// Of a matrix that ends up quantized.
    let quantization: Quantization?
    /// What is added to it; of a stack to each of its matrices.
    var change: AdapterFolder.Module?

    /// What is added to its matrix `index`.
    func change(of index: Int) -> LowRankTensors? {
      guard let change else { return nil }
      if change.experts != nil { return change.tensors.element(index) }
      // mlx-lm calls tables and maps alike.
      return names[0].hasSuffix("embed_tokens.weight") ? change.asTable ?? change.tensors : change.tensors
    }

    var byteCounts: [Int] { zip(shapes, dtypes).map { $0.reduce($1.size, *) } }
    var bytes: Int { byteCounts.reduce(0, +) }
    /// As MLX's tools count: packed elements one by one, without scales.
    var parameters: Int { shapes[0].reduce(1, *) * 32 / (quantization?.bits ?? 32) }
  }

  /// Where the rows of an output come from, in order.
  enum Source: Sendable, Equatable {
    /// A tensor by itself.
    case tensor(String)
    /// A matrix or a stack of them; of each some rows.
    case matrix(StoredMatrix, rows: Range<Int>)
  }

  let folder: ModelFolder
  let options: ConversionOptions
  private(set) var outputs: [Output] = []
  /// config.json of the result.
  private(set) var config: JSONValue
  /// Tensors that are left out: nobody reads them.
  package private(set) var dropped: [String] = []
  /// Matrices that had to be rounded although their numbers were to be kept, by how they are stored.
  package private(set) var rounded: [String: Int] = [:]

  package var bytes: Int { outputs.reduce(0) { $0 + $1.bytes } }
  package var parameters: Int { outputs.reduce(0) { $0 + $1.parameters } }
  /// Of all weights together.
  package var bitsPerWeight: Double { 8 * Double(bytes) / Double(max(1, parameters)) }
  /// How most modules are stored, in words.
  package var quantizationWords: String {
    let kinds = counts(of: outputs)
    let names = kinds.map { q, _ in "\(q.mode.rawValue) \(q.bits) bits in groups of \(q.groupSize)" }
    return names.isEmpty ? "floats" : names.joined(separator: ", ")
  }

  /// - Parameter folder: whose model has been bound, so that it is known which of its tensors are matrices.
  package init(_ folder: ModelFolder, _ options: ConversionOptions) throws(ConversionError) {
    (self.folder, self.options, config) = (folder, options, folder.config)
    guard folder.config["linear_value_heads_tiled"]?.boolValue != true else {
      throw .unsupported(
        tensor: "blk.0.ssm_out",
        reason:
          "this GGUF file has heads in an order that no model folder has, across blocks: convert the model's own weights"
      )
    }
    let matrices = Self.outputs(of: folder)
    let text = folder.config["text_config"]
    let rules = try QuantizationRules(
      options, types: [folder.config, text].compactMap { $0?["model_type"]?.stringValue },
      layers: (folder.config["num_hidden_layers"] ?? text?["num_hidden_layers"])?.intValue ?? 0,
      modules: matrices.map(\.name))
    try Self.check(options.adapter, of: folder, matrices.map(\.name))
    var chooser = try FormChooser(folder, options, rules, matrices.map(\.sources))
    var taken: Set<String> = []
    var places: [(order: Int, output: Output)] = []
    let names = folder.weights.names
    let order = Dictionary(names.enumerated().map { ($1, $0) }, uniquingKeysWith: { a, _ in a })
    var byModule: [String: [String]] = [:]
    for name in names {
      let parts = name.split(separator: ".")
      for end in 1...max(1, parts.count) {
        byModule[parts.prefix(end).joined(separator: "."), default: []].append(name)
      }
    }
    for matrix in matrices {
      var first = Int.max
      for case .matrix(let stored, _) in matrix.sources {
        for name in byModule[stored.name] ?? []
        where folder.weights.isPart(name, ofMatrix: stored.name) {
          taken.insert(name)
          first = min(first, order[name] ?? .max)
        }
      }
      places.append((first, try chooser.output(matrix.name, matrix.sources)))
    }
    let unused = Set(folder.weights.unusedNames)
    for name in names where !taken.contains(name) {
      let isIdle =
        unused.contains(name)
        && (folder.isGGUF || name.hasSuffix("rotary_emb.inv_freq") || name.hasSuffix("lm_head.weight"))
      if isIdle {
        dropped.append(name)
      } else {
        places.append((order[name] ?? .max, try chooser.output(tensor: name)))
      }
    }
    outputs = places.sorted { $0.order < $1.order }.map(\.output)
    rounded = chooser.rounded
    config = newConfig(base: chooser.keeps ? nil : rules.base, namesAll: rules.namesAll)
  }

  // MARK: Adapter

  /// - Throws: `badAdapter` for modules that are not among the model's matrices.
  private static func check(
    _ adapter: AdapterFolder?, of folder: ModelFolder, _ names: [String]
  ) throws(ConversionError) {
    guard let adapter else { return }
    func refuse(_ problem: String) -> ConversionError {
      .checkpoint(.badAdapter(path: adapter.path, problem: problem))
    }
    let known = Set(names.map(AdapterFolder.bareName))
    let unknown = adapter.modules.map(\.name).filter { !known.contains(AdapterFolder.bareName($0)) }
    guard unknown.isEmpty else {
      throw refuse(
        "it changes modules that the model does not have: "
          + unknown.prefix(3).map(CheckpointError.quoted).joined(separator: ", "))
    }
    let text = folder.config["text_config"] ?? folder.config
    let isTied = (text["tie_word_embeddings"] ?? folder.config["tie_word_embeddings"])?.boolValue == true
    if isTied, let table = adapter.modules.first(where: \.isTable) {
      throw refuse(
        "module \(CheckpointError.quoted(table.name)) changes the look-up alone, and the model's head is the same table"
      )
    }
  }

  // MARK: Names

  /// The matrices under the names that MLX's layout has: experts of a layer, each a module of its own, become one stack; a stack
  /// of gates and ups becomes two.
  private static func outputs(of folder: ModelFolder) -> [(name: String, sources: [Source])] {
    let type = (folder.config["text_config"] ?? folder.config)["model_type"]?.stringValue ?? ""
    let stackName = ["gpt_oss", "llama4", "llama4_text"].contains(type) ? "experts" : "switch_mlp"
    var found: [(name: String, sources: [Source])] = []
    var stacks: [String: Int] = [:]
    for matrix in folder.weights.matrices {
      let parts = matrix.name.split(separator: ".").map(String.init)
      let last = parts.last ?? ""
      let whole = Source.matrix(matrix, rows: 0..<matrix.rows)
      if parts.count >= 3, parts[parts.count - 3] == "experts", Int(parts[parts.count - 2]) != nil,
        !folder.weights.has(matrix.name + ".bias")
      {
        let usual = ["w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"][last] ?? last
        let name = (parts.dropLast(3) + [stackName, usual]).joined(separator: ".")
        if let index = stacks[name] {
          found[index].sources.append(whole)
        } else {
          stacks[name] = found.count
          found.append((name, [whole]))
        }
      } else if matrix.count != nil, parts.count >= 2, parts[parts.count - 2] == "experts",
        ["gate_up_proj", "down_proj"].contains(last), !folder.weights.has(matrix.name + ".weight")
      {
        let start = (parts.dropLast(2) + [stackName]).joined(separator: ".")
        guard last == "gate_up_proj" else {
          found.append((start + ".down_proj", [whole]))
          continue
        }
        found.append((start + ".gate_proj", [.matrix(matrix, rows: 0..<matrix.rows / 2)]))
        found.append((start + ".up_proj", [.matrix(matrix, rows: matrix.rows / 2..<matrix.rows)]))
      } else {
        found.append((matrix.name, [whole]))
      }
    }
    return found
  }

  // MARK: config.json

  /// The quantizations and how many parameters each has, the most frequent first.
  private func counts(of outputs: [Output]) -> [(Quantization, Int)] {
    var counts: [(Quantization, Int)] = []
    for output in outputs {
      guard let quantization = output.quantization else { continue }
      if let index = counts.firstIndex(where: { $0.0 == quantization }) {
        counts[index].1 += output.parameters
      } else {
        counts.append((quantization, output.parameters))
      }
    }
    return counts.sorted { $0.1 > $1.1 }
  }

  /// - Parameters:
  ///   - base: of the whole model; nil for the most frequent.
  ///   - namesAll: whether every module is named with its own.
  private func newConfig(base: Quantization?, namesAll: Bool) -> JSONValue {
    var object = folder.config.objectValue ?? JSONObject()
    for key in ["quantization", "quantization_config", "compression_config", "_name_or_path"] {
      object[key] = nil
    }
    if var text = object["text_config"]?.objectValue {
      for key in ["quantization", "quantization_config"] { text[key] = nil }
      object["text_config"] = .object(text)
    }
    var modules = outputs.compactMap { output in
      output.quantization.map { (String(output.names[0].dropLast(".weight".count)), $0) }
    }
    // OpenAI's own layout of experts stays; mlx-lm reads it under these names.
    for output in outputs {
      guard let name = output.names.first, name.hasSuffix("_proj_blocks") else { continue }
      let module = String(name.dropLast("_blocks".count))
      let parts = module.hasSuffix("gate_up_proj") ? ["gate_proj", "up_proj"] : ["down_proj"]
      let start = module.split(separator: ".").dropLast().joined(separator: ".")
      modules += parts.map { (start + "." + $0, ConversionOptions.usual(.mxfp4)) }
    }
    if let base = base ?? counts(of: outputs).first?.0 ?? modules.first?.1, !modules.isEmpty {
      func words(_ q: Quantization) -> JSONObject {
        JSONObject([
          ("group_size", .int(q.groupSize)), ("bits", .int(q.bits)), ("mode", .string(q.mode.rawValue)),
        ])
      }
      var all = words(base)
      for (module, own) in modules where namesAll || own != base { all[module] = .object(words(own)) }
      (object["quantization"], object["quantization_config"]) = (.object(all), .object(all))
    }
    return .object(
      JSONObject(
        object.entries.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }.map {
          ($0.key, $0.value)
        }))
  }
}

/// Decides what becomes of each matrix.
private struct FormChooser {
  let folder: ModelFolder
  let options: ConversionOptions
  let rules: QuantizationRules
  /// Whether numbers that are quantized are kept as they are.
  let keeps: Bool
  /// The type that floats are cast to; nil leaves each as it is.
  let cast: DType?
  private(set) var rounded: [String: Int] = [:]

  init(
    _ folder: ModelFolder, _ options: ConversionOptions, _ rules: QuantizationRules,
    _ sources: [[ConversionPlan.Source]]
  ) throws(ConversionError) {
    (self.folder, self.options, self.rules) = (folder, options, rules)
    let isQuantized =
      folder.blockWords != nil || folder.quantization.method != nil || folder.storedQuantization != nil
    keeps = isQuantized && !options.requantizes && !options.asksForRounding && !options.dequantizes
    let named = [folder.config, folder.config["text_config"]].compactMap(\.self).lazy.compactMap {
      ($0["torch_dtype"] ?? $0["dtype"])?.stringValue
    }.first
    let types: [String: DType] = ["float16": .f16, "bfloat16": .bf16, "float32": .f32]
    cast = options.dtype ?? (isQuantized ? nil : named.flatMap { types[$0] })
  }

  /// A tensor that is no matrix.
  func output(tensor name: String) throws(ConversionError) -> ConversionPlan.Output {
    guard let shape = folder.weights.shape(of: name), let type = folder.weights.elementType(of: name) else {
      throw .unsupported(tensor: name, reason: "its type of numbers has no place in MLX's layout")
    }
    let isFloat = [.f16, .bf16, .f32].contains(type)
    // What mlx-lm leaves in float32 too.
    let isKept = ["e_score_correction_bias", "expert_bias", "router_bias", "A_log"].contains(
      where: name.contains)
    let target = isFloat && !isKept ? cast ?? type : type
    return .init(
      names: [name], dtypes: [target], shapes: [shape], sources: [.tensor(name)],
      form: target == type || shape.contains(0) ? nil : .floats(target), quantization: nil)
  }

  mutating func output(
    _ module: String, _ sources: [ConversionPlan.Source]
  ) throws(ConversionError) -> ConversionPlan.Output {
    guard let first = try folder.weights.tensors(of: sources[0]).first else {
      throw .unsupported(tensor: module, reason: "it is empty")
    }
    let bare = AdapterFolder.bareName(module)
    let change = options.adapter?.modules.first { AdapterFolder.bareName($0.name) == bare }
    var form = try form(of: module, first)
    if change != nil {
      guard first.blocks == nil else {
        throw .unsupported(tensor: module, reason: "its blocks stay as they are: convert the GGUF file first")
      }
      if form == nil { form = try Self.anew(module, first) }
    }
    var (count, rows) = (0, 0)
    for source in sources {
      guard case .matrix(let matrix, let range) = source, matrix.columns == first.columns else {
        throw .unsupported(tensor: module, reason: "its experts have different shapes")
      }
      (count, rows) = (count + (matrix.count ?? 1), range.count)
    }
    guard case .matrix(let matrix, _) = sources[0] else {
      throw .unsupported(tensor: module, reason: "it is empty")
    }
    let leading = matrix.count != nil || sources.count > 1 ? [count, rows] : [rows]
    let own = form == nil ? first.quantization : form?.quantization
    let type = form?.dtype ?? (first.scales ?? first.weight).dtype
    if let change, let adapter = options.adapter {
      let found = module.hasSuffix("embed_tokens") ? change.asTable ?? change.tensors : change.tensors
      guard (found.rows, found.columns) == (rows, first.columns),
        change.experts ?? 1 == (leading.count > 1 ? count : 1)
      else {
        throw .checkpoint(
          .badAdapter(
            path: adapter.path,
            problem: "module \(CheckpointError.quoted(change.name)) is of another shape than the model's"))
      }
    }
    guard let own else {
      return .init(
        names: [module + ".weight"], dtypes: [type], shapes: [leading + [first.columns]], sources: sources,
        form: form, quantization: nil, change: change)
    }
    let scales = leading + [first.columns / own.groupSize]
    var output = ConversionPlan.Output(
      names: [module + ".weight", module + ".scales"], dtypes: [.u32, type],
      shapes: [leading + [first.columns * own.bits / 32], scales], sources: sources, form: form,
      quantization: own, change: change)
    if own.mode == .affine {
      output = .init(
        names: output.names + [module + ".biases"], dtypes: output.dtypes + [type],
        shapes: output.shapes + [scales],
        sources: sources, form: form, quantization: own, change: change)
    }
    return output
  }

  /// The form in which a matrix is stored, for numbers that are other than its own.
  private static func anew(_ module: String, _ first: WeightTensors) throws(ConversionError) -> WeightForm {
    guard let own = first.quantization else { return .floats(first.weight.dtype) }
    guard Quantization.Mode.named.contains(own.mode) else {
      throw .unsupported(tensor: module, reason: "its numbers cannot be rounded anew: give --dequantize")
    }
    return .rounded(
      Quantizer(own, dtype: first.scales.map(\.dtype).flatMap { $0 == .u8 ? nil : $0 } ?? .f16), first: nil)
  }

  /// Nil where bytes are copied.
  private mutating func form(of module: String, _ first: WeightTensors) throws(ConversionError) -> WeightForm?
  {
    let asked = rules.quantization(of: module, columns: first.columns)
    if first.blocks == nil, first.quantization == nil {
      let stored = first.weight.dtype
      let target = cast ?? stored
      guard let asked, !keeps, !options.dequantizes else { return target == stored ? nil : .floats(target) }
      return .rounded(
        Quantizer(asked, dtype: target, importance: importance(module, first)),
        first: target == stored ? nil : target)
    }
    let scales = options.dtype ?? first.scales.map(\.dtype).flatMap { $0 == .u8 ? nil : $0 } ?? .f16
    if options.dequantizes {
      return .floats(options.dtype ?? (first.blocks == nil && scales != .f16 ? scales : .f16))
    }
    let isMLX =
      first.blocks == nil && first.order == nil && first.factor == 1
      && first.quantization.map { Quantization.Mode.named.contains($0.mode) } == true
    if !keeps {
      if isMLX, first.quantization == asked { return nil }
      guard options.requantizes else {
        throw .quantized(module: module, how: words(first))
      }
      guard let asked else { return .floats(scales) }
      return .rounded(Quantizer(asked, dtype: scales, importance: importance(module, first)), first: nil)
    }
    if isMLX { return nil }
    if let format = first.blocks, let form = Self.form(of: format, scales) { return form }
    rounded[words(first), default: 0] += 1
    let bits = first.blocks.flatMap { Self.bits[$0] } ?? 8
    guard first.columns % 32 == 0 else { return .floats(scales) }
    return .rounded(Quantizer(Quantization(bits: bits, groupSize: 32), dtype: scales), first: nil)
  }

  private func importance(_ module: String, _ tensors: WeightTensors) -> [Float] {
    guard options.recipe == .best else { return [] }
    let found = options.importance[module] ?? []
    return found.count == tensors.columns ? found : [Float](repeating: 1, count: tensors.columns)
  }

  private func words(_ tensors: WeightTensors) -> String {
    if let blocks = tensors.blocks { return "blocks of \(blocks.name)" }
    guard let q = tensors.quantization else { return "floats" }
    let method = folder.quantization.method.map { "\($0), " } ?? ""
    return method + "\(q.mode.rawValue), \(q.bits) bits"
      + (tensors.order == nil ? "" : ", inputs in another order")
  }

  /// Blocks whose numbers an affine form has to the bit, with scales of 16 bits or, where these are rounded, of 32.
  private static func form(of format: BlockFormat, _ scales: DType) -> WeightForm? {
    switch format {
    case .q40, .q41, .q50, .q51, .q80, .q4K, .q5K, .tq10, .tq20, .q10, .q20, .mxfp4:
      .blocks(format, scales: scales == .f32 ? .f32 : .f16)
    // In float32 nothing is lost, but a number takes 8 bits and more.
    case .q3K, .iq4NL, .iq4XS: scales == .f32 ? .blocks(format, scales: .f32) : nil
    case .q2K, .q6K: nil
    }
  }

  /// Bits, in groups of 32, of those that are rounded: the fewest that add little to what the blocks have lost.
  private static let bits: [BlockFormat: Int] = [.q6K: 8, .q3K: 5, .q2K: 4, .iq4NL: 6, .iq4XS: 6]
}

extension WeightMap {
  /// The matrices of a source, or a tensor by itself as one.
  func tensors(of source: ConversionPlan.Source) throws(ConversionError) -> [WeightTensors] {
    do throws(CheckpointError) {
      switch source {
      case .tensor(let name):
        let shape = shape(of: name) ?? []
        let columns = shape.last ?? 1
        let rows = columns == 0 ? 0 : shape.reduce(1, *) / columns
        let tensor = try tensor(name, shape: shape)
        guard let matrix = tensor.reshaped([rows, columns]) else { return [] }
        return [WeightTensors(dense: matrix)]
      case .matrix(let matrix, let rows):
        if let count = matrix.count {
          let all = try linearStack(matrix.name, count: count, rows: matrix.rows, columns: matrix.columns)
          return rows.count == matrix.rows ? all : all.map { $0.rows(rows) }
        }
        return [try linear(matrix.name, rows: matrix.rows, columns: matrix.columns)]
      }
    } catch {
      throw .checkpoint(error)
    }
  }
}
