// Whether a folder has everything that a model needs, judged by the folder alone.

import Checkpoint
import JSON
import Platform

/// A look at names and lengths: the weights' own headers say how long their files are.
struct SnapshotCheck {
  let folder: String

  private static let headerLimit = 100 << 20

  var isWhole: Bool {
    let names = (try? File.names(in: folder)) ?? []
    func has(_ name: String) -> Bool { File.exists(folder + "/" + name) }
    let blocks = QuantizedFiles.inside(folder)
    if !blocks.isEmpty { return Self.areWhole(blocks) }
    guard has(FileSelection.configName), has("tokenizer.json") || has("tokenizer.model") || has("vocab.json")
    else {
      return false
    }
    guard let shards = try? WeightFileNames(of: names, listed: WeightFileNames.listed(by: index)).names else {
      return false
    }
    // A dense layer behind the pooling has weights of its own.
    let layers = names.filter { $0.hasSuffix("_Dense") }.map { $0 + "/model.safetensors" }
    return (shards + layers).allSatisfy { Self.isWhole(folder + "/" + $0) }
  }

  /// Whether all parts of a GGUF model are here, as long as their heads say.
  static func areWhole(_ files: [String]) -> Bool {
    let parts = files.map { try? GGUFParts(of: $0) }
    guard parts.allSatisfy({ $0 != nil }) else { return false }
    return Set(parts.flatMap { $0?.paths ?? [] }).allSatisfy { (try? GGUFFile(path: $0)) != nil }
  }

  private var index: JSONValue? {
    (try? File.read(folder + "/" + FileSelection.indexName, limit: 64 << 20)).flatMap {
      try? JSONValue(parsing: $0)
    }
  }

  /// Whether a safetensors file is as long as its header says.
  static func isWhole(_ path: String) -> Bool {
    // Links lead to blobs.
    guard let place = File.resolved(path), let (head, facts) = try? SystemFiles().beginning(place, count: 8),
      head.count == 8
    else { return false }
    let length = head.reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    guard length <= UInt64(headerLimit),
      let bytes = try? SystemFiles().beginning(place, count: 8 + Int(length)).bytes,
      let header = try? JSONValue(parsing: Array(bytes.dropFirst(8)))
    else { return false }
    let ends = (header.objectValue?.entries ?? []).compactMap { $0.value["data_offsets"]?[1]?.intValue }
    return facts.bytes - 8 - Int(length) >= (ends.max() ?? 0)
  }
}
