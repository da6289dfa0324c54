// Tensors by name under a prefix: `weights.at("model.layers")[3].linear("self_attn.q_proj", rows: …)`.

package import Compute
import JSON
import Platform

/// All tensors of a checkpoint, of all its shards.
final class WeightStore: Sendable {
  let folder: String
  let shards: [any WeightShard]
  let quantization: QuantizationConfig
  private let places: [ByteKey: Place]
  /// Tensors that a model has taken.
  private let taken = Monitor<Set<ByteKey>>([])
  /// The matrices that a model has asked for, in order.
  private let asked = Monitor<(list: [StoredMatrix], names: Set<ByteKey>)>(([], []))
  /// Told the bytes of each tensor that is taken for the first time.
  private let progress: Progress?

  /// Where a tensor is: the shard, and its position in the shard's header.
  struct Place: Sendable {
    let shard: Int
    let index: Int
  }

  init(
    folder: String, shards: [any WeightShard], quantization: QuantizationConfig, progress: Progress? = nil
  ) throws(CheckpointError) {
    (self.folder, self.progress, self.shards) = (folder, progress, shards)
    self.quantization = quantization
    var places: [ByteKey: Place] = [:]
    places.reserveCapacity(shards.reduce(0) { $0 + $1.count })
    for (shard, file) in shards.enumerated() {
      for index in 0..<file.count {
        let name = file.tensorName(index)
        if let other = places.updateValue(Place(shard: shard, index: index), forKey: ByteKey(name)) {
          throw .duplicateTensor(name: name, first: shards[other.shard].name, second: file.name)
        }
      }
    }
    self.places = places
  }

  func place(of name: String) -> Place? { places[ByteKey(name)] }

  func take(_ name: String, at place: Place) {
    let isNew = taken.withLock { $0.insert(ByteKey(name)).inserted }
    if isNew, let progress { progress.add(shards[place.shard].byteCount(place.index)) }
  }

  func note(_ matrix: StoredMatrix) {
    asked.update { if $0.names.insert(ByteKey(matrix.name)).inserted { $0.list.append(matrix) } }
  }

  var matrices: [StoredMatrix] { asked.withLock { $0.list } }

  /// Names of tensors that were not taken.
  var untaken: [String] {
    let taken = taken.withLock { $0 }
    return places.keys.filter { !taken.contains($0) }.map(\.string)
  }

  /// Bytes of tensors that were taken.
  var takenBytes: Int {
    taken.withLock { $0 }.reduce(0) { sum, name in
      sum + (places[name].map { shards[$0.shard].byteCount($0.index) } ?? 0)
    }
  }
}

/// A linear map, a table or a stack of maps that a model has asked a checkpoint for.
package struct StoredMatrix: Sendable, Equatable {
  /// The module's full name; of a stack, which may be a parameter by itself, that of its tensor.
  package let name: String
  /// Of a stack, how many maps it has.
  package let count: Int?
  package let rows, columns: Int
}

/// A view of a checkpoint's tensors whose names start with a prefix. Cheap to copy.
package struct WeightMap: Sendable {
  private let store: WeightStore
  /// Without the final dot; empty for the whole checkpoint.
  package let prefix: String
  /// Sizes that config.json gives, for errors about shapes: `hidden_size = 2048`.
  private let sizes: [String]

  init(store: WeightStore, prefix: String = "", sizes: [String] = []) {
    (self.store, self.prefix, self.sizes) = (store, prefix, sizes)
  }

  /// The view one or more levels further down: `at("model.layers")`.
  package func at(_ path: String) -> WeightMap {
    WeightMap(store: store, prefix: fullName(path), sizes: sizes)
  }

  /// The same view of tensors whose shapes follow from these sizes too: errors about shapes say that config.json
  /// gives them, since either it or the checkpoint is wrong.
  ///
  /// - Parameter sizes: values by their keys in config.json.
  package func given(_ sizes: KeyValuePairs<String, Int>) -> WeightMap {
    WeightMap(store: store, prefix: prefix, sizes: self.sizes + sizes.map { "\($0.key) = \($0.value)" })
  }

  /// The view of a numbered module: `at("model.layers")[3]` is `model.layers.3`.
  package subscript(index: Int) -> WeightMap { at(String(index)) }

  func fullName(_ name: String) -> String {
    prefix.isEmpty ? name : name.isEmpty ? prefix : prefix + "." + name
  }

  /// Whether the checkpoint has a tensor `prefix.name`, whatever its shape and type.
  package func has(_ name: String) -> Bool { store.place(of: fullName(name)) != nil }

  /// Whether the checkpoint has a linear map or a table of this name, in any layout.
  package func hasModule(_ name: String) -> Bool {
    Self.endings.contains { has(name + $0) }
  }

  /// What the tensor of a module's elements can be called.
  private static let endings = [".weight", ".qweight", ".weight_packed", ".W_q"]

  /// What config.json says of another tool's layout.
  var foreignLayout: ForeignLayout? { store.quantization.foreign }

  /// What config.json says of the quantization of a module, by its full name.
  func quantizationRule(of module: String) -> QuantizationConfig.Rule? {
    store.quantization.rule(for: module)
  }

  /// The file that holds a tensor of a module, for errors.
  func place(of name: String) -> String {
    for suffix in [""] + Self.endings {
      if let place = store.place(of: fullName(name + suffix)) { return store.shards[place.shard].name }
    }
    return store.folder
  }

  /// The shape as stored, for models that learn a size from the weights; nil when absent.
  package func shape(of name: String) -> [Int]? {
    store.place(of: fullName(name)).map { store.shards[$0.shard].shape($0.index) }
  }

  /// Bytes of a tensor in its file; nil when it is absent.
  func storedBytes(of name: String) -> Int? {
    store.place(of: fullName(name)).map { store.shards[$0.shard].byteCount($0.index) }
  }

  /// The matrices of the whole checkpoint that were asked for, in order.
  package var matrices: [StoredMatrix] { store.matrices }

  /// The type of a tensor's elements; nil when it is absent or of a type without a name here.
  package func elementType(of name: String) -> DType? {
    store.place(of: fullName(name)).flatMap { store.shards[$0.shard].dtype($0.index) }
  }

  /// Names of all tensors under the prefix, in full, in file order. O(all tensors).
  package var names: [String] {
    let start = prefix.isEmpty ? "" : prefix + "."
    return store.shards.flatMap { shard in (0..<shard.count).map(shard.tensorName) }
      .filter { $0.utf8.starts(with: start.utf8) }
  }

  /// The files of the whole checkpoint.
  var files: WeightFiles { WeightFiles(store.shards) }

  /// Feeds name, type and shape of each tensor of the checkpoint to a hash.
  func describe(into hash: inout SHA256) {
    for shard in store.shards {
      for index in 0..<shard.count {
        hash.update(
          Array("|\(shard.tensorName(index))|\(shard.dtypeName(index))|\(shard.shape(index))|".utf8))
      }
    }
  }

  /// Names of the tensors of the whole checkpoint that were not taken, in order: what its model does not use.
  package var unusedNames: [String] {
    store.untaken.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
  }

  /// Bytes of the tensors of the whole checkpoint that were taken: what its model uses.
  package var usedBytes: Int { store.takenBytes }

  /// The tensor `prefix.name`, whose shape must be `shape`.
  ///
  /// - Throws: `.missingTensor`, `.wrongShape`, or `.wrongType` for an element type that is not supported.
  package func tensor(_ name: String, shape: [Int]) throws(CheckpointError) -> TensorView {
    guard let found = try optionalTensor(name, shape: shape) else { throw missing(name) }
    return found
  }

  /// As `tensor`, but nil when there is none.
  package func optionalTensor(_ name: String, shape: [Int]) throws(CheckpointError) -> TensorView? {
    guard let found = try view(name) else { return nil }
    guard found.shape == shape else { throw wrongShape(found, expected: shape) }
    return found
  }

  /// A float vector of `count` elements (norm gains and the like).
  package func vector(_ name: String, count: Int) throws(CheckpointError) -> TensorView {
    guard let found = try optionalVector(name, count: count) else { throw missing(name) }
    return found
  }

  /// As `vector`, but nil when there is none.
  package func optionalVector(_ name: String, count: Int) throws(CheckpointError) -> TensorView? {
    guard let found = try optionalTensor(name, shape: [count]) else { return nil }
    try requireFloat(found)
    return found
  }

  /// The linear map `<prefix>.<name>` from `columns` inputs to `rows` outputs, dense or quantized, with its
  /// additive bias if there is one. Quantized exactly when `<name>.scales` exists.
  package func linear(_ name: String, rows: Int, columns: Int) throws(CheckpointError) -> WeightTensors {
    try matrix(name, leading: [], rows: rows, columns: columns, withBias: true)
  }

  /// A table of `rows` vectors of `columns` elements, stored like a linear map without bias.
  package func embedding(_ name: String, rows: Int, columns: Int) throws(CheckpointError) -> WeightTensors {
    try matrix(name, leading: [], rows: rows, columns: columns, withBias: false)
  }

  /// `count` linear maps stored as one 3-D tensor `[count, rows, columns]`: the experts of a layer. Its name may lack
  /// `.weight`: in transformers it is no module's weight, but a parameter by itself.
  package func linearStack(
    _ name: String, count: Int, rows: Int, columns: Int
  ) throws(CheckpointError) -> [WeightTensors] {
    let all = try matrix(name, leading: [count], rows: rows, columns: columns, withBias: true)
    return (0..<count).map(all.element)
  }
}

// MARK: - OpenAI's experts

extension WeightMap {
  /// `count` linear maps in OpenAI's layout of MXFP4: `<name>_blocks` U8 `[count, rows, columns / 32, 16]`, `<name>_scales`
  /// U8 `[count, rows, columns / 32]`, and `<name>_bias` `[count, rows]`. The bytes are those of MLX's packing.
  package func blockStack(
    _ name: String, count: Int, rows: Int, columns: Int
  ) throws(CheckpointError) -> [WeightTensors] {
    let blocks = try tensor(name + "_blocks", shape: [count, rows, columns / 32, 16])
    let scales = try tensor(name + "_scales", shape: [count, rows, columns / 32])
    for part in [blocks, scales] where part.dtype != .u8 {
      throw .wrongType(
        file: fileName(name + "_blocks"), tensor: part.name, found: part.dtype.rawValue, expected: "U8")
    }
    guard columns % 32 == 0 else {
      throw .badQuantization(
        file: fileName(name + "_blocks"), tensor: blocks.name,
        problem: "\(columns) inputs are not a multiple of 32")
    }
    if scales.bytes.contains(255) {
      throw fault(name + "_scales", "scales must be finite; 255 is not")
    }
    let bias = try optionalTensor(name + "_bias", shape: [count, rows])
    if let bias { try requireFloat(bias) }
    let packed = TensorView(
      name: blocks.name, dtype: .u32, shape: [count, rows, columns / 8], bytes: blocks.bytes,
      owner: blocks.owner)
    let all = WeightTensors(
      weight: packed, scales: scales, bias: bias,
      quantization: Quantization(mode: .mxfp4, bits: 4, groupSize: 32), rows: rows, columns: columns)
    return (0..<count).map(all.element)
  }
}

// MARK: - Matrices

extension WeightMap {
  private func matrix(
    _ name: String, leading: [Int], rows: Int, columns: Int, withBias: Bool
  ) throws(CheckpointError) -> WeightTensors {
    store.note(StoredMatrix(name: fullName(name), count: leading.first, rows: rows, columns: columns))
    if leading.isEmpty, let layout = foreignLayout {
      let bias = withBias ? try optionalVector(name + ".bias", count: rows) : nil
      if let found = try foreign(name, layout, rows: rows, columns: columns, bias: bias) { return found }
    }
    let weightName = !leading.isEmpty && has(name) ? name : name + ".weight"
    if let found = try blocks(name, weightName, leading: leading, rows: rows, columns: columns, withBias) {
      return found
    }
    guard let weight = try view(weightName) else { throw missing(weightName) }
    let bias = withBias ? try optionalTensor(name + ".bias", shape: leading + [rows]) : nil
    if let bias { try requireFloat(bias) }
    if weight.dtype == .f8e4m3 {
      return try eightBits(weight, weightName, leading: leading, rows: rows, columns: columns, bias: bias)
    }
    let isStoredPlain = weight.dtype != .u32 && store.quantization.rule(for: fullName(name)) == .plain
    guard !isStoredPlain, let scales = try view(name + ".scales") else {
      if weight.dtype == .u32 {
        throw .badQuantization(
          file: fileName(weightName), tensor: weight.name, problem: "its scales tensor is missing")
      }
      try requireFloat(weight)
      guard weight.shape == leading + [rows, columns] else {
        throw wrongShape(weight, expected: leading + [rows, columns])
      }
      return WeightTensors(weight: weight, bias: bias, rows: rows, columns: columns)
    }
    let quantization = try checkQuantized(
      name, file: fileName(weightName), weight: weight, scales: scales, rows: leading + [rows],
      columns: columns)
    let biases = quantization.mode == .affine ? try view(name + ".biases") : nil
    return WeightTensors(
      weight: weight, scales: scales, biases: biases, bias: bias, quantization: quantization,
      rows: rows, columns: columns)
  }

  /// A matrix of a GGUF file's blocks; nil for any other.
  private func blocks(
    _ name: String, _ weightName: String, leading: [Int], rows: Int, columns: Int, _ withBias: Bool
  ) throws(CheckpointError) -> WeightTensors? {
    guard let place = store.place(of: fullName(weightName)),
      let stored = store.shards[place.shard].blocks(place.index)
    else { return nil }
    store.take(fullName(weightName), at: place)
    let (shape, expected) = (store.shards[place.shard].shape(place.index), leading + [rows, columns])
    guard shape == expected else {
      throw .wrongShape(
        file: store.shards[place.shard].name, tensor: fullName(weightName), found: shape, expected: expected,
        because: reason)
    }
    let bias = withBias ? try optionalTensor(name + ".bias", shape: leading + [rows]) : nil
    if let bias { try requireFloat(bias) }
    var tensors = WeightTensors(weight: stored.bytes, bias: bias, rows: rows, columns: columns)
    (tensors.blocks, tensors.headRows) = (stored.format, stored.headRows)
    return tensors
  }

  /// The block type of a tensor that is stored in blocks.
  func blockFormat(of name: String) -> BlockFormat? {
    store.place(of: fullName(name)).flatMap { store.shards[$0.shard].blocks($0.index)?.format }
  }

  /// Checks the tensors of a quantized matrix against each other, config.json and the expected size.
  private func checkQuantized(
    _ name: String, file: String, weight: TensorView, scales: TensorView, rows: [Int], columns: Int
  ) throws(CheckpointError) -> Quantization {
    func fault(_ problem: String) -> CheckpointError {
      .badQuantization(file: file, tensor: weight.name, problem: problem)
    }
    guard weight.dtype == .u32 else {
      throw .wrongType(
        file: file, tensor: weight.name, found: weight.dtype.rawValue,
        expected: "U32, because \(CheckpointError.escaped(scales.name)) exists")
    }
    let isBytes = scales.dtype == .u8
    if !isBytes { try requireFloat(scales) }
    guard Array(weight.shape.dropLast()) == rows, let packed = weight.shape.last else {
      throw wrongShape(weight, expected: rows + [weight.shape.last ?? 0])
    }
    guard Array(scales.shape.dropLast()) == rows, let groups = scales.shape.last else {
      throw wrongShape(scales, expected: rows + [scales.shape.last ?? 0])
    }
    for suffix in [".global_scale", ".weight_global_scale", ".weight_scale_2", ".tensor_scale"]
    where has(name + suffix) {
      throw fault("a second, per-tensor scale (\(suffix.dropFirst())) is not supported")
    }
    var configured: Quantization?
    if case .quantized(let parameters)? = store.quantization.rule(for: fullName(name)) {
      configured = parameters
    }
    let found = QuantizationConfig.resolve(
      configured: configured, scalesAreBytes: isBytes, packed: packed, groups: groups, columns: columns)
    guard let found else {
      throw fault(
        "\(packed) words and \(groups) scales per row fit no bit width and group size for \(columns) inputs"
          + (sizes.isEmpty ? "" : " (\(reason))"))
    }
    let stored = groups * found.groupSize  // `resolve` proved that the product fits
    guard stored == columns else {
      throw wrongShape(
        weight, expected: rows + [expectedWords(columns, found)],
        note: "it holds \(stored) inputs, \(columns) are needed")
    }
    if found.mode == .affine {
      guard let biases = try view(name + ".biases") else { throw fault("its biases tensor is missing") }
      guard biases.shape == scales.shape else { throw wrongShape(biases, expected: scales.shape) }
      try requireFloat(biases)
    }
    return found
  }

  private func expectedWords(_ columns: Int, _ quantization: Quantization) -> Int {
    let (bits, overflow) = columns.multipliedReportingOverflow(by: quantization.bits)
    return overflow ? columns : bits / 32
  }
}

// MARK: - Look-up and errors

extension WeightMap {
  private func view(_ name: String) throws(CheckpointError) -> TensorView? {
    guard let place = store.place(of: fullName(name)) else { return nil }
    store.take(fullName(name), at: place)
    let shard = store.shards[place.shard]
    guard let found = shard.tensor(place.index) else {
      throw .wrongType(
        file: shard.name, tensor: fullName(name), found: shard.dtypeName(place.index),
        expected: "F32, F16, BF16 or MLX quantization")
    }
    return found
  }

  private func requireFloat(_ tensor: TensorView) throws(CheckpointError) {
    switch tensor.dtype {
    case .f32, .f16, .bf16: return
    default:
      let file = store.place(of: tensor.name).map { store.shards[$0.shard].name } ?? store.folder
      throw .wrongType(
        file: file, tensor: tensor.name, found: tensor.dtype.rawValue, expected: "F32, F16 or BF16")
    }
  }

  private func fileName(_ name: String) -> String {
    store.place(of: fullName(name)).map { store.shards[$0.shard].name } ?? store.folder
  }

  func missing(_ name: String) -> CheckpointError {
    .missingTensor(name: fullName(name), folder: store.folder)
  }

  /// What demands the shapes: `config.json says hidden_size = 2048`; empty when no sizes are known.
  private var reason: String {
    sizes.isEmpty ? "" : "config.json says " + sizes.joined(separator: ", ")
  }

  /// - Parameter note: what the shapes alone do not say.
  func wrongShape(_ found: TensorView, expected: [Int], note: String = "") -> CheckpointError {
    let file = store.place(of: found.name).map { store.shards[$0.shard].name } ?? store.folder
    return .wrongShape(
      file: file, tensor: found.name, found: found.shape, expected: expected,
      because: [note, reason].filter { !$0.isEmpty }.joined(separator: "; "))
  }
}
