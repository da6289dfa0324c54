// A part of a checkpoint with what will compute with it: tensors are bound by their names and with their shapes.

import Checkpoint
import Compute

/// Binds the tensors under a prefix: `layer.at("self_attn").linear(["o_proj": hidden], from: queries)`. Cheap to copy.
struct LayerLoader {
  private let tensors: WeightMap
  let compute: ComputeContext
  /// Where linear maps are copied into panels as they are used; nil leaves them in the file.
  private let arena: PanelArena?
  /// Where maps are noted that adapters may change; nil notes none.
  let shelf: AdapterShelf?
  /// What the gain of a norm adds to its stored weight: 1 in Gemma's older checkpoints.
  var normOffset: Float = 0
  /// What maps of these names are multiplied with.
  private var factors: [String: Float] = [:]

  init(
    _ tensors: WeightMap, compute: ComputeContext, arena: PanelArena? = nil, shelf: AdapterShelf? = nil
  ) {
    (self.tensors, self.compute, self.arena, self.shelf) = (tensors, compute, arena, shelf)
  }

  private func with(_ tensors: WeightMap) -> LayerLoader {
    var copy = LayerLoader(tensors, compute: compute, arena: arena, shelf: shelf)
    (copy.normOffset, copy.factors) = (normOffset, factors)
    return copy
  }

  /// The same part, where maps of these names are multiplied with a factor each.
  func multiplying(_ factors: [String: Float]) -> LayerLoader {
    var copy = self
    copy.factors = factors
    return copy
  }

  /// The part one or more levels further down: `at("model.layers")`.
  func at(_ path: String) -> LayerLoader { with(tensors.at(path)) }

  /// A numbered module: `at("model.layers")[3]` is `model.layers.3`.
  subscript(index: Int) -> LayerLoader { with(tensors[index]) }

  /// The same part, whose shapes follow from these sizes too: errors about shapes say that config.json gives them.
  func given(_ sizes: KeyValuePairs<String, Int>) -> LayerLoader { with(tensors.given(sizes)) }

  var prefix: String { tensors.prefix }

  /// Of all tensors of the part.
  var names: [String] { tensors.names }

  func has(_ name: String) -> Bool { tensors.has(name) }

  /// Whether there is a linear map or a table of this name, in any layout.
  func hasModule(_ name: String) -> Bool { tensors.hasModule(name) }

  /// The shape as stored; nil when there is no such tensor.
  func shape(of name: String) -> [Int]? { tensors.shape(of: name) }

  // MARK: Vectors

  /// The gain of a norm over `count` elements, `<name>.weight`.
  func norm(_ name: String, _ count: Int) throws(ModelError) -> [Float] {
    let stored = try vector(name + ".weight", count)
    return normOffset == 0 ? stored : stored.map { normOffset + $0 }
  }

  /// A 1-D tensor as float32.
  func vector(_ name: String, _ count: Int) throws(ModelError) -> [Float] {
    let tensor = try loading(try tensors.vector(name, count: count))
    return try computing(try tensor.floats())
  }

  /// A tensor of any shape as float32, row-major.
  func floats(_ name: String, shape: [Int]) throws(ModelError) -> [Float] {
    let tensor = try tensor(name, shape: shape)
    return try computing(try tensor.floats())
  }

  func tensor(_ name: String, shape: [Int]) throws(ModelError) -> TensorView {
    try loading(try tensors.tensor(name, shape: shape))
  }

  /// The weights of a convolution of each channel by itself, `[channels, taps, 1]` as MLX stores them or
  /// `[channels, 1, taps]`, and its bias where there is one.
  func convolution(
    _ name: String, channels: Int, taps: Int, bias: Bool = false, isActivated: Bool
  ) throws(ModelError) -> ShortConvolution {
    let weights = try self.taps(of: name, channels: channels, taps: taps)
    if bias, !has(name + ".bias") {
      throw .missingTensor(
        name: "...\(name).bias", because: "config.json says that this convolution has a bias")
    }
    let offsets = has(name + ".bias") ? try vector(name + ".bias", channels) : []
    return ShortConvolution(weights: weights, bias: offsets, taps: taps, isActivated: isActivated)
  }

  /// The weights of such a convolution alone, `[channels, taps]`.
  func taps(of name: String, channels: Int, taps: Int) throws(ModelError) -> [Float] {
    let isRaw = shape(of: name + ".weight") == [channels, 1, taps]
    return try floats(name + ".weight", shape: isRaw ? [channels, 1, taps] : [channels, taps, 1])
  }

  // MARK: Matrices

  /// Linear maps of the same input, computed together.
  ///
  /// - Parameters:
  ///   - names: modules in output order, with their outputs.
  ///   - columns: inputs of all of them.
  ///   - bias: whether config.json promises an additive bias; one that exists is used in any case.
  func linear(
    _ names: KeyValuePairs<String, Int>, from columns: Int, bias: Bool = false
  ) throws(ModelError) -> Linear {
    var maps: [WeightTensors] = []
    for (name, rows) in names {
      let map = try map(name, rows: rows, columns: columns)
      if bias && map.bias == nil {
        throw .missingTensor(
          name: "...\(name).bias", because: "config.json says that this projection has a bias")
      }
      maps.append(map)
    }
    return try linear(maps)
  }

  /// Maps whose tensors were taken before, with `map`.
  func linear(_ maps: [WeightTensors]) throws(ModelError) -> Linear {
    var parts: [Linear.Part] = []
    var run: [WeightTensors] = []
    for (index, map) in maps.enumerated() {
      run.append(map)
      run[run.count - 1].order = nil
      guard index + 1 == maps.count || maps[index + 1].order != map.order else { continue }
      let weights = try computing(try WeightStack(run, arena: arena))
      parts.append(Linear.Part(weights: weights, order: map.order))
      run = []
    }
    let adapted = shelf?.makeMaps(parts.map { ($0.weights, $0.order) }, of: maps)
    return Linear(parts, compute: compute, adapted: adapted)
  }

  /// The tensors of one linear map, to be cut before they are bound.
  func map(_ name: String, rows: Int, columns: Int) throws(ModelError) -> WeightTensors {
    var map = try loading(try tensors.linear(name, rows: rows, columns: columns))
    if let factor = factors[name] { map.factor *= factor }
    return map
  }

  /// The tensors of `count` maps that are stored as one tensor `[count, rows, columns]`.
  func maps(_ name: String, count: Int, rows: Int, columns: Int) throws(ModelError) -> [WeightTensors] {
    try loading(try tensors.linearStack(name, count: count, rows: rows, columns: columns))
  }

  /// As `maps`, in OpenAI's layout of MXFP4.
  func blockMaps(_ name: String, count: Int, rows: Int, columns: Int) throws(ModelError) -> [WeightTensors] {
    try loading(try tensors.blockStack(name, count: count, rows: rows, columns: columns))
  }

  /// The MLPs of one layer, from the maps of each.
  func experts(
    gates: [WeightTensors], ups: [WeightTensors], downs: [WeightTensors], _ activation: Activation
  ) throws(ModelError) -> ExpertStack {
    try computing(
      try ExpertStack(gates: gates, ups: ups, downs: downs, activation: activation, arena: arena))
  }

  /// The MLPs of one layer, from maps whose outputs are gate and up in turns.
  func experts(
    pairs: [WeightTensors], downs: [WeightTensors], _ activation: Activation
  ) throws(ModelError) -> ExpertStack {
    try computing(try ExpertStack(pairs: pairs, downs: downs, activation: activation, arena: arena))
  }

  /// One stack per map, for heads that have weights of their own.
  func heads(_ maps: [WeightTensors]) throws(ModelError) -> [WeightStack] {
    var stacks: [WeightStack] = []
    for map in maps { stacks.append(try computing(try WeightStack([map]))) }
    return stacks
  }

  /// A table of `rows` vectors of `columns` elements, which may also be the output head.
  func embedding(_ name: String, rows: Int, columns: Int) throws(ModelError) -> WeightStack {
    let table = try loading(try tensors.embedding(name, rows: rows, columns: columns))
    return try computing(try WeightStack([table], arena: arena, isMultiplied: false))
  }

  /// A matrix that is no module's weight, or had to be rearranged.
  func table(_ tensor: TensorView) throws(ModelError) -> WeightStack {
    try computing(try WeightStack([WeightTensors(dense: tensor)], arena: arena))
  }

  /// The linear map by a table: a tied output head.
  func linear(_ table: WeightStack, adapted: AdaptedMaps? = nil) -> Linear {
    table.isMultiplied = true
    return Linear([Linear.Part(weights: table, order: nil)], compute: compute, adapted: adapted)
  }
}
