// Which files of a repository are needed to serve it: no code, no other formats, no second copy of the weights.

import Checkpoint
import JSON
import Platform

/// What the user wants of a repository.
package struct FileSelection: Sendable, Equatable {
  /// Patterns of a shell, in which a star crosses `/`. With some, only what matches one of them.
  package var included: [String] = []
  package var excluded: [String] = []
  package var takesAll = false
  /// One quantization of a repository with GGUF files.
  var quantization: String?

  package init() {}

  /// Whether it is what a server needs, and nothing else was said.
  var isUsual: Bool { included.isEmpty && excluded.isEmpty && !takesAll && quantization == nil }

  static let configName = "config.json"
  static let indexName = WeightFileNames.indexName
  private static let readmeLimit = 1_000_000

  /// Files that matter beside weights, in the root of the repository.
  private static let names: Set<String> = [
    configName, indexName, "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "chat_template.jinja", "chat_template.json", "generation_config.json",
    "preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json", "modules.json",
    "config_sentence_transformers.json", "sentence_bert_config.json",
  ]
  /// The parts of a tokenizer, where there is no `tokenizer.json`.
  private static let tokenizerParts: Set<String> = [
    "tokenizer.model", "vocab.json", "merges.txt", "vocab.txt",
  ]

  /// The files to fetch, the largest first.
  ///
  /// - Parameters:
  ///   - index: of the weights; nil when there is none.
  ///   - isForced: whether weights that are not complete will do.
  ///   - note: told what is wrong with the index, where that is no reason to refuse the model.
  /// - Throws: `unsuitable` when a file of the weights is missing.
  func files(
    of all: [RepositoryFile], index: JSONValue?, _ repository: RepositoryName, isForced: Bool = false,
    note: (String) -> Void = { _ in }
  ) throws(HubError) -> [RepositoryFile] {
    var chosen: [RepositoryFile]
    if takesAll {
      chosen = all
    } else if !included.isEmpty {
      chosen = all.filter { file in included.contains { File.matches(file.path, pattern: $0) } }
    } else if let quantization {
      let paths = Set(try QuantizedFiles.files(quantization, of: all.map(\.path), repository))
      chosen = all.filter { paths.contains($0.path) || Self.isAboutModel($0) }
    } else {
      let shards = try shards(of: all, index: index, repository, isForced: isForced, note)
      let names = Set(all.map { ByteKey($0.path) })
      let hasTokenizer = names.contains(ByteKey("tokenizer.json"))
      chosen = all.filter { file in
        shards.contains(ByteKey(file.path)) || Self.isNeeded(file, hasTokenizer: hasTokenizer)
      }
    }
    chosen.removeAll { file in excluded.contains { File.matches(file.path, pattern: $0) } }
    return chosen.sorted { ($1.bytes, $0.path) < ($0.bytes, $1.path) }
  }

  private static func isNeeded(_ file: RepositoryFile, hasTokenizer: Bool) -> Bool {
    let parts = file.parts
    guard let name = parts.last else { return false }
    if parts.count == 2 {
      return (parts[0] == "additional_chat_templates" && name.hasSuffix(".jinja"))
        // Folders of modules.json: `1_Pooling`, `2_Dense` with weights of its own.
        || (parts[0].first?.isNumber == true && parts[0].contains("_")
          && (name == configName || name == "model.safetensors"))
    }
    guard parts.count == 1 else { return false }
    if names.contains(name) { return true }
    if tokenizerParts.contains(name) { return !hasTokenizer }
    return isAboutModel(file)
  }

  private static func isAboutModel(_ file: RepositoryFile) -> Bool {
    (file.path.hasPrefix("LICENSE") || file.path == "README.md") && file.parts.count == 1
      && file.bytes <= readmeLimit
  }

  /// Names of the files with the weights, as the loader would choose them.
  private func shards(
    of all: [RepositoryFile], index: JSONValue?, _ repository: RepositoryName, isForced: Bool,
    _ note: (String) -> Void
  ) throws(HubError) -> Set<ByteKey> {
    let (present, listed) = (all.map(\.path), WeightFileNames.listed(by: index))
    do {
      let chosen = try WeightFileNames(of: present, listed: listed)
      if let fault = chosen.note { note(HubError.plain(fault)) }
      return Set(chosen.names.map { ByteKey($0) })
    } catch {
      guard !isForced else { return Set(present.filter(WeightFileNames.isWeightFile).map { ByteKey($0) }) }
      switch error {
      case .none: throw .unsuitable(repository, problem: "it has no .safetensors files")
      case .absent(let name, let isListed):
        let asker = isListed ? "\(Self.indexName) names" : "the numbers of its files ask for"
        throw .unsuitable(repository, problem: "\(asker) \(HubError.plain(name)), which it lacks")
      }
    }
  }

  /// Why these files cannot be a model that is served; nil when they can.
  static func problem(with all: [RepositoryFile]) -> String? {
    let paths = all.map(\.path)
    func has(_ ending: String) -> Bool { paths.contains { $0.hasSuffix(ending) } }
    let hasWeights = paths.contains {
      !$0.contains("/") && $0.hasSuffix(".safetensors") && !$0.hasPrefix("adapter")
        && !$0.hasPrefix("consolidated")
    }
    if !hasWeights {
      if has(".gguf") {
        let tags = QuantizedFiles.tags(of: paths)
        return "it has GGUF files: add one of its quantizations to the name, as NAME:Q4_K_M"
          + (tags.isEmpty ? "" : "; it has " + tags.map { HubError.plain($0) }.joined(separator: ", "))
      }
      if paths.contains("adapter_config.json") {
        return "it is an adapter (LoRA), not a model; take the model with the adapter fused into it"
      }
      if has(".bin") || has(".pt") || has(".pth") {
        return "its weights are pickles, which can run code; take a repository with .safetensors files"
      }
      return "it has no .safetensors files"
    }
    guard paths.contains(configName) else { return "it has no config.json" }
    return nil
  }
}
