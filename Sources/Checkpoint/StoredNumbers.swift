// What the shapes of a checkpoint's tensors say of it as a whole: how many parameters it has, and how they are stored.

package import Compute
import JSON

extension ModelFolder {
  /// Numbers that the model has learned, as its makers count them: elements of all tensors, packed ones one by one, without
  /// scales, zero points and other helpers of a quantization. A table that input and output share is there once.
  package var parameterCount: Int {
    weights.names.reduce(0) { sum, name in sum + (weights.stored(name, widths)?.count ?? 0) }
  }

  /// How most quantized weights are stored, for a model whose config.json says nothing; nil where none are, and for the
  /// layouts of other tools.
  package var storedQuantization: Quantization? {
    var counts: [(quantization: Quantization, count: Int)] = []
    for name in weights.names {
      guard let found = weights.stored(name, widths), let quantization = found.quantization else { continue }
      if let index = counts.firstIndex(where: { $0.quantization == quantization }) {
        counts[index].count += found.count
      } else {
        counts.append((quantization, found.count))
      }
    }
    return counts.max { $0.count < $1.count }?.quantization
  }

  /// How many numbers are stored in each of a GGUF file's block types, most of them first; empty for other files.
  package var storedBlocks: [(format: BlockFormat, count: Int)] {
    var counts: [BlockFormat: Int] = [:]
    for name in weights.names {
      guard let format = weights.blockFormat(of: name), let shape = weights.shape(of: name) else { continue }
      counts[format, default: 0] += shape.reduce(1, *)
    }
    return counts.map { ($0.key, $0.value) }.sorted {
      ($1.count, $0.format.rawValue) < ($0.count, $1.format.rawValue)
    }
  }

  /// The block types in the order of their shares, as people are told: `Q4_K 83 %, Q6_K 17 %`; nil for other files.
  package var blockWords: String? {
    let stored = storedBlocks
    let all = stored.reduce(0) { $0 + $1.count }
    guard all > 0 else { return nil }
    return stored.map { "\($0.format.name) \((100 * $0.count + all / 2) / all) %" }.joined(separator: ", ")
  }

  /// Numbers of config.json that a row may have as its length.
  private var widths: Set<Int> {
    let texts = [config, config["text_config"]].compactMap { $0?.objectValue }
    return Set(texts.flatMap { $0.entries.compactMap(\.value.intValue) })
  }
}

extension WeightMap {
  /// Tensors beside the elements of a matrix, by what follows the name of its module.
  private static let helpers: Set<String> = [
    "scales", "biases", "qzeros", "g_idx", "weight_scale", "weight_scale_inv", "weight_scale_2",
    "weight_global_scale", "weight_zero_point", "weight_shape", "weight_g_idx", "input_scale",
    "input_global_scale", "weight_format", "SCB", "k_scale", "v_scale",
  ]

  /// Whether a tensor of the whole checkpoint is of the matrix of a module, or helps to read it: a router's bias of its choice
  /// has a name under its module's too, and is not.
  package func isPart(_ tensor: String, ofMatrix module: String) -> Bool {
    guard tensor.utf8.count > module.utf8.count + 1 else { return tensor == module }
    let rest = String(tensor.dropFirst(module.count + 1))
    return ["weight", "qweight", "weight_packed"].contains(rest) || Self.helpers.contains(rest)
      || rest.hasPrefix("weight.") || has(module + ".W_q") && rest != "bias"
  }

  /// How many parameters a tensor of the checkpoint holds, and in which of MLX's layouts; nil for one that only helps
  /// another.
  ///
  /// - Parameter widths: lengths that a row probably has, where a packed one may have several.
  fileprivate func stored(_ name: String, _ widths: Set<Int>) -> (count: Int, quantization: Quantization?)? {
    guard let shape = shape(of: name), let bytes = storedBytes(of: name) else { return nil }
    if blockFormat(of: name) != nil { return (shape.reduce(1, *), nil) }
    let type = elementType(of: name)
    let count = bytes / (type?.size ?? 1)
    let parts = name.split(separator: ".", omittingEmptySubsequences: false)
    let (last, module) = (String(parts.last ?? ""), parts.dropLast().joined(separator: "."))
    func isThere(_ tensor: String) -> Bool { has(module + "." + tensor) }

    // gpt-oss has `down_proj_blocks` and `down_proj_scales`.
    if last.hasSuffix("_blocks"), type == .u8 {
      return (2 * count, Quantization(mode: .mxfp4, bits: 4, groupSize: 32))
    }
    if last.hasSuffix("_scales"), has(String(name.dropLast(7)) + "_blocks") { return nil }
    // bitsandbytes has `weight.absmax` and more, HQQ has all beside `W_q`.
    if parts.dropLast().contains("weight") || isThere("W_q") && !["W_q", "bias"].contains(last) {
      return nil
    }
    if Self.helpers.contains(last), ["weight", "qweight", "weight_packed"].contains(where: isThere) {
      return nil
    }
    let bits: Int
    switch last {
    case "weight" where type == .u32 && isThere("scales"):
      guard let found = quantization(of: module, shape, widths) else { return (count, nil) }
      return (8 * bytes / found.bits, found)
    case "weight" where type == .u8 && foreignLayout?.method == .bitnet: bits = 2
    case "weight" where type == .u8 && (has(name + ".absmax") || foreignLayout != nil): bits = 4
    case "weight_packed" where type == .u8: bits = 4
    case "qweight", "W_q", "weight_packed": bits = foreignLayout?.bits ?? 4
    default: return (count, nil)
    }
    return (8 * bytes / bits, nil)
  }

  /// MLX's parameters of a packed matrix, from config.json where it says them, else those with which its rows have a
  /// length that the model knows.
  private func quantization(of module: String, _ packed: [Int], _ widths: Set<Int>) -> Quantization? {
    guard let words = packed.last, let groups = shape(of: module + ".scales")?.last, groups > 0 else {
      return nil
    }
    var configured: Quantization?
    if case .quantized(let parameters)? = quantizationRule(of: module) { configured = parameters }
    let columns = [64, 32, 128, 16].map { groups.multipliedReportingOverflow(by: $0).partialValue }
    let likely = columns.filter(widths.contains) + columns
    return likely.lazy.compactMap {
      QuantizationConfig.resolve(
        configured: configured, scalesAreBytes: elementType(of: module + ".scales") == .u8, packed: words,
        groups: groups, columns: $0)
    }.first
  }
}
