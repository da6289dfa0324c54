// Headers of safetensors files, folders of models, and GGUF files.

import Driver
import JSON
import Platform

@testable import Checkpoint
@testable import Vectors

@_cdecl("fuzz_weights_main")
public func main(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) -> CInt {
  Fuzz.run(
    count, arguments,
    [
      "safetensors": WeightTargets.safetensors, "folder": WeightTargets.folder, "gguf": WeightTargets.gguf,
    ])
}

enum WeightTargets {
  static func safetensors(_ bytes: [UInt8]) {
    let dataBytes = bytes.first.map(Int.init) ?? 0
    guard let header = try? SafetensorsHeader(Array(bytes.dropFirst()), dataBytes: dataBytes, file: "f")
    else { return }
    for entry in header.entries {
      check(entry.range.lowerBound >= 0 && entry.range.upperBound <= dataBytes, "tensors lie in the data")
    }
  }

  private static let folder: String = {
    // In memory where there is such a place: an input is six files.
    let path = (File.isDirectory("/dev/shm") ? "/dev/shm" : "/tmp") + "/mlxserve-fuzz-\(getpid())"
    for folder in [path, path + "/1_Pooling", path + "/2_Dense"] { mkdir(folder, 0o700) }
    return path
  }()
  nonisolated(unsafe) private static var block: GrowingFile?

  /// A GGUF file: what it says of itself, its tensors, its vocabulary.
  static func gguf(_ bytes: [UInt8]) {
    let path = folder + "/model.gguf"
    guard let file = block ?? (try? GrowingFile(path)), (try? file.cut(to: 0)) != nil,
      (try? file.append(bytes[...])) != nil
    else { fatalError("\(path) cannot be written") }
    block = file
    guard let source = try? GGUFFile(path: path) else { return }
    for tensor in source.tensors {
      check(tensor.range.upperBound <= bytes.count, "tensors lie in the file")
    }
    _ = try? GGUFTokenizer(source)
    guard let opened = try? ModelFolder(path: path) else { return }
    for name in opened.weights.names.prefix(16) where name.hasSuffix(".weight") {
      guard let shape = opened.weights.shape(of: name), shape.count == 2 else { continue }
      _ = try? opened.weights.linear(String(name.dropLast(7)), rows: shape[0], columns: shape[1])
    }
    _ = opened.outline
  }

  private typealias OpenFile = (file: GrowingFile, content: [UInt8])

  /// The files, each open with what is in it; an input writes those that differ. libFuzzer calls one thread.
  nonisolated(unsafe) private static var files: [(name: String, now: OpenFile?)] = [
    "config.json", "model.safetensors", "modules.json", "1_Pooling/config.json", "2_Dense/config.json",
    "config_sentence_transformers.json",
  ].map { ($0, nil) }

  /// Files of a folder with a NUL between them, those after the last one absent; of the weights only the header, before
  /// bytes that are there always.
  static func folder(_ bytes: [UInt8]) {
    let parts = bytes.split(separator: 0, omittingEmptySubsequences: false)
    for (index, (name, now)) in files.enumerated() {
      let path = folder + "/" + name
      guard index < parts.count else {
        if now != nil { unlink(path) }
        files[index].now = nil
        continue
      }
      var content = Array(parts[index])
      if name == "model.safetensors" {
        let length = (0..<8).map { UInt8(truncatingIfNeeded: content.count >> ($0 * 8)) }
        let ends = ((try? JSONValue(parsing: content))?.objectValue?.entries ?? []).compactMap {
          $0.value["data_offsets"]?[1]?.intValue
        }
        let data = [UInt8](repeating: 0x3C, count: min(1 << 14, max(0, ends.max() ?? 0)))
        content = length + content + data
      }
      if content == now?.content { continue }
      // Written in place: nothing of an earlier input is mapped any more.
      guard let file = now?.file ?? (try? GrowingFile(path)), (try? file.cut(to: 0)) != nil,
        (try? file.append(content[...])) != nil
      else { fatalError("\(path) cannot be written") }
      files[index].now = (file, content)
    }
    guard let opened = try? ModelFolder(path: folder) else { return }
    _ = try? SentenceFolder(opened)
    _ = try? opened.weights.linear("m", rows: 64, columns: 64)
    _ = try? opened.weights.embedding("m", rows: 64, columns: 64)
  }
}
