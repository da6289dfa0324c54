// Which files of a folder hold the weights: those the index names, or all that are called like weights.

import JSON
import Platform

/// The weight files of a model folder.
///
/// With `model.safetensors.index.json` they are the files that its `weight_map` names, and every tensor it
/// lists must be where it says; other files are ignored. Without, they are all `model*.safetensors`. An index that names
/// files which are not there is another checkpoint's (converters have copied that of the unquantized model) where the
/// files that are there are complete by their own numbers: then it does not count.
struct ShardFiles {
  let folder: String
  /// File names, sorted.
  let names: [String]
  /// Whether there is an index that speaks of other files.
  let hasForeignIndex: Bool
  /// Tensor name → file name; empty without an index.
  private let index: [(tensor: String, file: String)]

  private static let indexName = "model.safetensors.index.json"
  private static let ending = ".safetensors"

  /// - Throws: when there are no weights, or the index is malformed or names a file that is not there.
  init(folder: String) throws(CheckpointError) {
    self.folder = folder
    guard let index = try ModelFolder.object(folder, Self.indexName) else {
      self.index = []
      names = try Self.unindexed(folder)
      hasForeignIndex = false
      return
    }
    let file = folder + "/" + Self.indexName
    guard let map = index["weight_map"]?.objectValue, !map.isEmpty else {
      throw .badValue(file: file, key: "weight_map", problem: "is not an object that lists tensors")
    }
    var entries: [(tensor: String, file: String)] = []
    var distinct: Set<ByteKey> = []
    for (tensor, value) in map.entries {
      guard let name = value.stringValue, Self.isPlainFileName(name) else {
        throw .badValue(
          file: file, key: "weight_map of \(CheckpointError.quoted(tensor))",
          problem:
            "is \(CheckpointError.escaped(value.text)), expected the name of a .safetensors file in this folder"
        )
      }
      if distinct.insert(ByteKey(name)).inserted, !File.exists(folder + "/" + name) {
        if let present = Self.completeSet(in: folder) {
          self.index = []
          names = present
          hasForeignIndex = true
          return
        }
        throw .missingFile(
          folder: folder, name: name,
          advice: "\(Self.indexName) lists it: download it, or delete the index if it is stale.")
      }
      entries.append((tensor, name))
    }
    self.index = entries
    hasForeignIndex = false
    names = distinct.map(\.string).sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
  }

  /// Maps the files and checks their headers.
  func open() throws(CheckpointError) -> [Safetensors] {
    var shards: [Safetensors] = []
    for name in names { shards.append(try Safetensors(path: folder + "/" + name)) }
    return shards
  }

  /// Every tensor of the index must be in the file that the index says.
  func check(_ store: WeightStore) throws(CheckpointError) {
    for (tensor, name) in index {
      let holder = store.place(of: tensor).map { store.shards[$0.shard].name }
      guard let holder, holder.utf8.elementsEqual(name.utf8) else {
        throw .badValue(
          file: folder + "/" + Self.indexName, key: "weight_map of \(CheckpointError.quoted(tensor))",
          problem: "names \(CheckpointError.escaped(name)), which does not hold this tensor")
      }
    }
  }

  /// One path component that ends as weight files do: an index must not lead out of the folder.
  private static func isPlainFileName(_ name: String) -> Bool {
    let bytes = name.utf8
    return bytes.count <= 255 && bytes.first != UInt8(ascii: ".")
      && !bytes.contains { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "\\") || $0 < 0x20 }
      && isWeightFile(name)
  }

  private static func isWeightFile(_ name: String) -> Bool {
    name.utf8.count > ending.utf8.count && name.utf8.reversed().starts(with: ending.utf8.reversed())
  }

  /// The weight files of the folder where their own names say that none is missing: `model.safetensors` alone, or
  /// `model-00001-of-00003.safetensors` and so on to the last.
  private static func completeSet(in folder: String) -> [String]? {
    guard let names = try? unindexed(folder), let first = names.first else { return nil }
    if names.count == 1, first.utf8.elementsEqual("model.safetensors".utf8) { return names }
    let total = names.count
    func padded(_ number: Int) -> String {
      String(repeating: "0", count: max(0, 5 - String(number).utf8.count)) + String(number)
    }
    let expected = (1...total).map { "model-\(padded($0))-of-\(padded(total)).safetensors" }
    return names.elementsEqual(expected) { $0.utf8.elementsEqual($1.utf8) } ? names : nil
  }

  /// `model*.safetensors`, or `weights*.safetensors` as early MLX conversions called them.
  private static func unindexed(_ folder: String) throws(CheckpointError) -> [String] {
    let names: [String]
    do {
      names = try File.names(in: folder)
    } catch {
      throw .file(error)
    }
    for prefix in ["model", "weights"] {
      let found = names.filter { $0.utf8.starts(with: prefix.utf8) && isWeightFile($0) }
      if !found.isEmpty { return found }
    }
    for name in names {
      guard let format = ForeignFormat.recognise(fileName: name) else { continue }
      throw .foreignFormat(
        file: folder + "/" + name, format: format.name, advice: format.advice)
    }
    throw .missingFile(
      folder: folder, name: "model*.safetensors", advice: "Download the weights of the model too.")
  }
}
