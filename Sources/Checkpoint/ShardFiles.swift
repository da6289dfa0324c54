// The weight files of a folder: chosen by `WeightFileNames`, mapped, and compared with the index.

import JSON
import Platform

/// The weight files of a model folder.
struct ShardFiles {
  let folder: String
  /// File names, sorted.
  let names: [String]
  /// What was wrong with the index, where other files were taken than it names.
  private let note: String?
  /// Tensor name → file name; empty without an index that counts.
  private let index: [(tensor: String, file: String)]

  /// - Throws: when there are no weights, or the index is malformed, or a file is not there.
  init(folder: String) throws(CheckpointError) {
    self.folder = folder
    let index = try Self.index(of: folder)
    let present: [String]
    do {
      present = try File.names(in: folder)
    } catch {
      throw .file(error)
    }
    do {
      let chosen = try WeightFileNames(of: present, listed: index.map(\.file))
      (names, note) = (chosen.names, chosen.note)
    } catch {
      throw Self.error(error, folder, present)
    }
    self.index = note == nil ? index : []
  }

  /// Maps the files and checks their headers.
  func open() throws(CheckpointError) -> [Safetensors] {
    var shards: [Safetensors] = []
    for name in names { shards.append(try Safetensors(path: folder + "/" + name)) }
    return shards
  }

  /// What is wrong with the index: which files it names, or which tensors it says are in them. Nil for nothing. The
  /// model asks for every tensor that it needs, so such an index does no harm.
  func fault(_ store: WeightStore) -> String? {
    if let note { return note }
    for (tensor, name) in index {
      let holder = store.place(of: tensor).map { store.shards[$0.shard].name }
      if let holder, holder.utf8.elementsEqual(name.utf8) { continue }
      return "\(WeightFileNames.indexName) says that \(CheckpointError.quoted(tensor)) is in "
        + "\(CheckpointError.escaped(name)), and it is \(holder.map { "in " + CheckpointError.escaped($0) } ?? "nowhere")"
        + ": the files themselves say what they hold"
    }
    return nil
  }

  private static func index(of folder: String) throws(CheckpointError) -> [(tensor: String, file: String)] {
    guard let index = try ModelFolder.object(folder, WeightFileNames.indexName) else { return [] }
    let file = folder + "/" + WeightFileNames.indexName
    guard let map = index["weight_map"]?.objectValue, !map.isEmpty else {
      throw .badValue(file: file, key: "weight_map", problem: "is not an object that lists tensors")
    }
    var entries: [(tensor: String, file: String)] = []
    for (tensor, value) in map.entries {
      // An index must not lead out of the folder.
      guard let name = value.stringValue, WeightFileNames.isWeightFile(name) else {
        throw .badValue(
          file: file, key: "weight_map of \(CheckpointError.quoted(tensor))",
          problem:
            "is \(CheckpointError.escaped(value.text)), expected the name of a .safetensors file in this folder"
        )
      }
      entries.append((tensor, name))
    }
    return entries
  }

  private static func error(
    _ fault: WeightFileNames.Fault, _ folder: String, _ present: [String]
  ) -> CheckpointError {
    switch fault {
    case .absent(let name, let isListed):
      return .missingFile(
        folder: folder, name: name,
        advice: isListed
          ? "\(WeightFileNames.indexName) lists it: download it, or delete the index if it is stale."
          : "The numbers of the other files ask for it: download it.")
    case .none:
      for name in present {
        guard let format = ForeignFormat.recognise(fileName: name) else { continue }
        return .foreignFormat(file: folder + "/" + name, format: format.name, advice: format.advice)
      }
      return .missingFile(
        folder: folder, name: "model*.safetensors", advice: "Download the weights of the model too.")
    }
  }
}
