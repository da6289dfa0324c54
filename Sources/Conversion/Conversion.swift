// A conversion at work: a folder beside the output that becomes it when everything is there. What an earlier run has finished of
// the same conversion is checked and kept.

import Checkpoint
package import Compute
import JSON
import Platform

/// Writes a plan's model. For one thread.
package final class Conversion {
  package let plan: ConversionPlan
  package let output: String
  /// Where files are written until all are there.
  package let folder: String
  private let shards: [ShardPlan]
  private let lock: FolderLock
  private let files = SystemFiles()
  private var journal: Journal
  /// Numbers that are encoded at a time: memory of a few of them is all that a conversion needs.
  private static let batch = 4 << 20

  /// Which files are there, and what was measured while they were written.
  private struct Journal {
    static let name = "convert.json"
    let key: String
    var shards: [String: (checksum: String, squares: Double, misses: Double)] = [:]

    var json: JSONValue {
      let entries = shards.sorted { $0.key < $1.key }.map { name, entry -> (String, JSONValue) in
        (
          name,
          [
            "checksum": .string(entry.checksum), "squares": .double(entry.squares),
            "misses": .double(entry.misses),
          ]
        )
      }
      return ["key": .string(key), "shards": .object(JSONObject(entries))]
    }
  }

  /// Makes the folder, or takes up the one of an earlier run.
  ///
  /// - Throws: when the output exists, the folder is of another conversion or another process, or the disk has too little room.
  package init(_ plan: ConversionPlan, to output: String) throws(ConversionError) {
    guard !File.exists(output) else { throw .exists(path: output) }
    var output = output
    while output.count > 1, output.hasSuffix("/") { output.removeLast() }
    (self.plan, self.output, folder) = (plan, output, output + ".partial")
    shards = try ShardPlan.all(plan.outputs, limit: plan.options.shardBytes)
    var hash = SHA256()
    for shard in shards { hash.update(shard.header) }
    hash.update(plan.folder.mappedFiles.identity)
    hash.update(Array((plan.options.words + Version.text).utf8))
    hash.update(Array((plan.options.adapter?.digest ?? "").utf8))
    for (name, values) in plan.options.importance.sorted(by: { $0.key < $1.key }) {
      hash.update(Array("\(name) \(values)".utf8))
    }
    let key = SHA256.hexadecimal(hash.finish())
    let parent = File.parent(of: output)
    let isNew = !File.exists(folder)
    do throws(PlatformError) {
      if isNew { try File.makeFolders(folder) }
      lock = try FolderLock(folder: folder)
    } catch {
      if case .file(_, _, EWOULDBLOCK) = error { throw .busy(path: folder) }
      throw .file(error)
    }
    let stored = (try? File.read(folder + "/" + Journal.name, limit: 1 << 24)).flatMap {
      try? JSONValue(parsing: $0)
    }
    let names = (try? File.names(in: folder)) ?? []
    guard stored?["key"]?.stringValue == key || stored == nil && names.allSatisfy({ $0 == "lock" }) else {
      throw .otherConversion(path: folder)
    }
    journal = Journal(key: key)
    for (name, entry) in stored?["shards"]?.objectValue?.entries ?? [] {
      guard let checksum = entry["checksum"]?.stringValue, let squares = entry["squares"]?.doubleValue,
        let misses = entry["misses"]?.doubleValue
      else { continue }
      journal.shards[name] = (checksum, squares, misses)
    }
    try save()
    let present = shards.filter { journal.shards[$0.name] != nil }.reduce(0) { $0 + $1.bytes }
    // A per cent more, for what is beside the weights.
    let needed = shards.reduce(0) { $0 + $1.bytes } - present
    if let free = File.freeBytes(parent), free < needed + needed / 100 {
      if isNew { try? File.removeAll(folder) }
      throw .noRoom(needed: needed + needed / 100, free: free, folder: parent)
    }
  }

  private func save() throws(ConversionError) {
    try filing { () throws(PlatformError) in
      try files.writeDurably(journal.json.bytes, folder: folder, name: Journal.name)
    }
  }

  private func filing<Result>(_ work: () throws(PlatformError) -> Result) throws(ConversionError) -> Result {
    do throws(PlatformError) { return try work() } catch { throw .file(error) }
  }

  /// What rounding has changed of the numbers that were rounded, as a share of them: the root of the mean square. Nil where none were.
  package var relativeError: Double? {
    let squares = journal.shards.values.reduce(0) { $0 + $1.squares }
    return squares > 0 ? (journal.shards.values.reduce(0) { $0 + $1.misses } / squares).squareRoot() : nil
  }

  // MARK: Weights

  /// Writes the weights that are not there yet.
  ///
  /// - Parameter goOn: asked after every few megabytes, with the bytes done and all of them; false ends it.
  package func writeWeights(
    _ compute: ComputeContext, goOn: (_ done: Int, _ all: Int) -> Bool
  ) throws(ConversionError) {
    let all = shards.reduce(0) { $0 + $1.bytes }
    var done = 0
    for shard in shards {
      if let entry = journal.shards[shard.name] {
        if try checksum(shard.name, bytes: shard.bytes) == entry.checksum {
          done += shard.bytes
          guard goOn(done, all) else { throw .ended }
          continue
        }
        journal.shards[shard.name] = nil
      }
      try write(shard, compute) { bytes in
        done += bytes
        return goOn(done, all)
      }
    }
    guard plan.folder.mappedFiles.areUnchanged == true else { throw .changed(path: plan.folder.path) }
  }

  /// Nil for a file that is not there or of another size.
  private func checksum(_ name: String, bytes: Int) throws(ConversionError) -> String? {
    let path = folder + "/" + name
    guard File.exists(path) else { return nil }
    return try filing { () throws(PlatformError) in
      var sum: UInt64 = 0
      let read = try File.forEachPiece(
        of: path, pieceBytes: 1 << 22, start: { $0.bytes == bytes },
        take: { piece in
          sum = (sum ^ Checksum.of(piece)) &* 0x9E37_79B9_7F4A_7C15
          return true
        })
      return read.map { _ in String(sum, radix: 16) }
    }
  }

  private func write(
    _ shard: ShardPlan, _ compute: ComputeContext, goOn: (_ bytes: Int) -> Bool
  ) throws(ConversionError) {
    let temporary = folder + "/" + shard.name + ".tmp"
    let descriptor = try filing { () throws(PlatformError) in
      // With the permissions of other files, which `create` does not give.
      try GrowingFile(temporary).cut(to: 0)
      return try files.openForWriting(temporary)
    }
    defer { files.close(descriptor) }
    func put(_ bytes: [UInt8], at offset: Int) throws(ConversionError) {
      try filing { () throws(PlatformError) in
        try files.write(bytes, to: descriptor, at: offset, path: temporary)
      }
      guard goOn(bytes.count) else { throw .ended }
    }
    try put(shard.header, at: 0)
    var sums = (squares: 0.0, misses: 0.0)
    for (index, offsets) in zip(shard.outputs, shard.offsets) {
      let output = plan.outputs[index]
      var (places, index) = (offsets, 0)
      for source in output.sources {
        for tensors in try plan.folder.weights.tensors(of: source) {
          defer { index += 1 }
          if let form = output.form {
            let (squares, misses) = try encode(
              tensors, output.change(of: index), form, compute, &places, put)
            sums = (sums.squares + squares, sums.misses + misses)
          } else {
            try copy(tensors, &places, put)
          }
          for part in [tensors.weight, tensors.scales, tensors.biases] { part?.letGo() }
        }
      }
      // Empty tensors have no rows to come from.
      let ends = zip(offsets, output.byteCounts).map { $0 + $1 }
      guard places == ends else {
        throw .unsupported(tensor: output.names[0], reason: "its parts do not fit together")
      }
    }
    try filing { () throws(PlatformError) in
      try files.flush(descriptor, path: temporary)
      try files.publish(temporary, folder: folder, name: shard.name)
    }
    guard let checksum = try checksum(shard.name, bytes: shard.bytes) else {
      throw .changed(path: folder + "/" + shard.name)
    }
    journal.shards[shard.name] = (checksum, sums.squares, sums.misses)
    try save()
  }

  private typealias Put = (_ bytes: [UInt8], _ offset: Int) throws(ConversionError) -> Void

  /// - Parameter places: where the next rows of elements, scales and biases stand.
  private func encode(
    _ tensors: WeightTensors, _ change: LowRankTensors?, _ form: WeightForm, _ compute: ComputeContext,
    _ places: inout [Int], _ put: Put
  ) throws(ConversionError) -> (squares: Double, misses: Double) {
    let step = max(1, Self.batch / max(1, tensors.columns))
    var sums = (squares: 0.0, misses: 0.0)
    for start in stride(from: 0, to: tensors.rows, by: step) {
      let encoded: EncodedRows
      do throws(ComputeError) {
        let rows = start..<min(tensors.rows, start + step)
        if let change {
          let sum = try compute.merged(tensors, rows: rows, change.outputs(from: start))
          encoded = try compute.encode(sum, rows: 0..<rows.count, as: form)
        } else {
          encoded = try compute.encode(tensors, rows: rows, as: form)
        }
      } catch {
        throw .compute(error)
      }
      for index in places.indices {
        let bytes = Array(encoded.bytes[encoded.parts[index]])
        try put(bytes, places[index])
        places[index] += bytes.count
      }
      sums = (sums.squares + encoded.squares, sums.misses + encoded.misses)
    }
    return sums
  }

  private func copy(_ tensors: WeightTensors, _ places: inout [Int], _ put: Put) throws(ConversionError) {
    let parts = [tensors.weight, tensors.scales, tensors.biases].compactMap(\.self)
    for (index, part) in parts.enumerated() where index < places.count {
      let count = part.count * part.dtype.size
      for start in stride(from: 0, to: count, by: 4 * Self.batch) {
        let bytes = part.copy(start..<min(count, start + 4 * Self.batch))
        try put(bytes, places[index])
        places[index] += bytes.count
      }
    }
  }
}

// MARK: - Other files

extension Conversion {
  /// Most bytes of a file that is copied.
  private static let fileLimit = 1 << 30
  private static let endings = [".json", ".txt", ".jinja", ".model", ".tiktoken", ".py", ".jsonl"]
  /// Of the source's weights, or written anew.
  private static let ownNames = [
    "config.json", "readme.md", "model.safetensors.index.json", "quantize_config.json", "quant_config.json",
    "hf_quant_config.json", "adapter_config.json", "recipe.yaml",
  ]
  /// Folders with small files that a model may have.
  private static let folders = [
    "additional_chat_templates", "1_Pooling", "2_Dense", "3_Dense", "2_Normalize",
  ]

  /// Writes all files but the weights and the model card: what the folder is, its tokenizer and its templates.
  package func writeFiles() throws(ConversionError) {
    var map = JSONObject()
    for shard in shards {
      for name in plan.outputs[shard.outputs].flatMap(\.names) { map[name] = .string(shard.name) }
    }
    let sorted = map.entries.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }.map {
      ($0.key, $0.value)
    }
    let index: JSONValue = [
      "metadata": ["total_size": .int(plan.bytes), "total_parameters": .int(plan.parameters)],
      "weight_map": .object(JSONObject(sorted)),
    ]
    try write(index.indented, as: WeightFileNames.indexName)
    if plan.folder.isGGUF {
      try writeMetadata()
    } else {
      try copyFiles(from: plan.folder.path, to: "")
      for name in Self.folders where File.isDirectory(plan.folder.path + "/" + name) {
        try copyFiles(from: plan.folder.path + "/" + name, to: name + "/")
      }
    }
    try write(plan.config.indented, as: "config.json")
  }

  private func write(_ text: String, as name: String) throws(ConversionError) {
    try write(Array(text.utf8), as: name)
  }

  private func write(_ bytes: [UInt8], as name: String) throws(ConversionError) {
    try filing { () throws(PlatformError) in
      let path = folder + "/" + name
      try File.makeFolders(File.parent(of: path))
      try File.replace(path, with: bytes)
    }
  }

  private func copyFiles(from source: String, to place: String) throws(ConversionError) {
    try filing { () throws(PlatformError) in
      for name in try File.names(in: source) {
        let low = name.lowercased()
        let isWanted =
          Self.endings.contains(where: low.hasSuffix)
          || ["license", "notice"].contains(where: low.hasPrefix)
          // Dense layers behind an encoder.
          || !place.isEmpty && low.hasSuffix(".safetensors")
        guard isWanted, !Self.ownNames.contains(low) || !place.isEmpty, !low.hasSuffix(".index.json"),
          !low.hasPrefix("."), !File.isDirectory(source + "/" + name)
        else { continue }
        let bytes = try File.read(source + "/" + name, limit: Self.fileLimit)
        let path = folder + "/" + place + name
        try File.makeFolders(File.parent(of: path))
        try File.replace(path, with: bytes)
      }
    }
  }

  /// Tokenizer, template and settings of a GGUF file.
  private func writeMetadata() throws(ConversionError) {
    let source = plan.folder
    do throws(CheckpointError) {
      if let bytes = try source.tokenizerFile { try? write(bytes, as: "tokenizer.json") }
    } catch {
      throw .checkpoint(error)
    }
    var settings = source.tokenizerConfig?.objectValue ?? JSONObject()
    settings["chat_template"] = nil
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    try write(JSONValue.object(settings).indented, as: "tokenizer_config.json")
    if let template = source.chatTemplate { try write(template, as: "chat_template.jinja") }
    if let template = source.toolChatTemplate {
      try write(template, as: "additional_chat_templates/tool_use.jinja")
    }
    var generation = source.generationConfig?.objectValue ?? JSONObject()
    let ends = source.eosTokenIDs
    if !ends.isEmpty { generation["eos_token_id"] = .array(ends.map(JSONValue.int)) }
    if !generation.isEmpty { try write(JSONValue.object(generation).indented, as: "generation_config.json") }
  }

  /// Writes the model card, and gives the folder the output's name.
  package func finish(card: String) throws(ConversionError) {
    try write(card, as: "README.md")
    try filing { () throws(PlatformError) in
      for name in [Journal.name, "lock"] { try files.remove(folder + "/" + name) }
      try files.synchronizeFolder(folder)
      // Somebody may have made it meanwhile.
      guard !File.exists(output) else { throw .file(action: "create", path: output, code: EEXIST) }
      try File.move(folder, to: output)
      try files.synchronizeFolder(File.parent(of: output))
    }
  }
}
