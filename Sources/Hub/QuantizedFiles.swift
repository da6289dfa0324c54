// GGUF files of a repository: one model in several quantizations, told apart by a part of their names.

import Checkpoint
import Platform

/// Which files of a repository are which quantization.
package enum QuantizedFiles {
  /// `Q4_K_M`, `IQ2_XS`, `q8_0`, `F16`.
  static func isTag(_ text: some StringProtocol) -> Bool {
    let low = text.lowercased()
    if ["f16", "bf16", "f32", "fp16", "mxfp4"].contains(low) { return true }
    let digits = ["iq", "tq", "q"].first { low.hasPrefix($0) }.map { low.dropFirst($0.utf8.count) } ?? ""
    return digits.first?.isNumber == true && digits.dropFirst().first == "_"
  }

  /// The quantization that a path names, in capitals: the last part of it that is one. Nil for what is no model in GGUF.
  private static func tag(of path: String) -> String? {
    let low = path.lowercased()
    // What projects images into a model, and what its quantizations were weighed with, are no models.
    guard low.hasSuffix(".gguf"), !low.contains("mmproj"), !low.contains("imatrix") else { return nil }
    return path.split { $0 == "-" || $0 == "." || $0 == "/" }.last(where: isTag).map { $0.uppercased() }
  }

  /// The quantizations among paths, each once, in order.
  package static func tags(of paths: [String]) -> [String] { Set(paths.compactMap(tag)).sorted() }

  /// GGUF files in a folder that has no weights of another kind, and in the folders in it.
  package static func inside(_ folder: String) -> [String] {
    let paths = HubCache.files(below: folder)
    return paths.contains { $0.hasSuffix(".safetensors") } ? [] : paths.filter { $0.hasSuffix(".gguf") }
  }

  /// The paths of a quantization's files, in order: one, or the parts of one model.
  ///
  /// - Throws: `unsuitable` where there is none, or more than one model.
  static func files(
    _ wanted: String, of paths: [String], _ repository: RepositoryName
  ) throws(HubError) -> [String] {
    let found = paths.filter { tag(of: $0) == wanted.uppercased() }.sorted()
    guard let first = found.first else {
      let tags = tags(of: paths)
      throw .unsuitable(
        repository,
        problem: tags.isEmpty
          ? "it has no GGUF files, of which '\(HubError.plain(wanted))' would be one"
          : "it has no \(HubError.plain(wanted)) but "
            + tags.map { HubError.plain($0) }.joined(separator: ", "))
    }
    guard found.allSatisfy({ GGUFParts.stem($0) == GGUFParts.stem(first) }) else {
      throw .unsuitable(
        repository,
        problem: "several of its files are \(HubError.plain(wanted)): "
          + found.prefix(4).map { HubError.plain($0) }.joined(separator: ", ")
          + "; fetch one with --include, and name the file")
    }
    return found
  }
}
