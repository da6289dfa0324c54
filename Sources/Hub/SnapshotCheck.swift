// Whether a folder has everything that a model needs, judged by the folder alone.

import JSON
import Platform

/// A look at names and lengths: the weights' own headers say how long their files are.
struct SnapshotCheck {
  let folder: String

  private static let headerLimit = 100 << 20

  var isWhole: Bool {
    let names = (try? File.names(in: folder)) ?? []
    func has(_ name: String) -> Bool { File.exists(folder + "/" + name) }
    guard has(FileSelection.configName), has("tokenizer.json") || has("tokenizer.model") || has("vocab.json")
    else {
      return false
    }
    let shards = indexed ?? names.filter { $0.hasSuffix(".safetensors") && !$0.hasPrefix("adapter") }
    return !shards.isEmpty && shards.allSatisfy { Self.isWhole(folder + "/" + $0) }
  }

  /// The files that the index names; nil when there is none.
  private var indexed: [String]? {
    guard let bytes = try? File.read(folder + "/" + FileSelection.indexName, limit: 64 << 20),
      let map = (try? JSONValue(parsing: bytes))?["weight_map"]?.objectValue, !map.isEmpty
    else { return nil }
    return Set(map.entries.compactMap { $0.value.stringValue }.map { ByteKey($0) }).map(\.string)
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
