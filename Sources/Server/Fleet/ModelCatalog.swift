// Which models there are: those named at the start, the folders of one folder, and other names for them.

package import Hub
package import Inference
import JSON
import Pipeline
import Platform
import Wire

/// A model that can be loaded.
package struct ModelSource: Sendable, Equatable {
  /// The id in requests, answers and /v1/models.
  package let id: String
  /// The model's folder.
  package let path: String

  package init(id: String, path: String) {
    (self.id, self.path) = (id, path)
  }

  /// By bytes: names that only look the same are different models.
  package static func == (a: ModelSource, b: ModelSource) -> Bool {
    a.id.utf8.elementsEqual(b.id.utf8) && a.path.utf8.elementsEqual(b.path.utf8)
  }
}

/// Names are compared by their bytes. Holds no state but what the start gave it: folders are looked at anew each time,
/// so that a model which is put beside the others is there at once.
package struct ModelCatalog: Sendable {
  /// What is wrong with the flags that name models.
  package enum Problem: Error, Equatable, CustomStringConvertible {
    case nothing
    case duplicate(String)
    case badName(String)
    case noFolder(String)
    case aliasOfNothing(alias: String, model: String)
    case badAdapterName(String)
    case adapterOfNothing(adapter: String, model: String)

    package var description: String {
      switch self {
      case .nothing: "there is no model: give --model DIR, or --models-dir DIR"
      case .duplicate(let name):
        "two models or aliases are called '\(name)': give one another name, as in --model NAME=DIR"
      case .badName(let name):
        "'\(APIError.shortened(name))' cannot be the name of a model: it needs 1 to 200 bytes without control characters"
      case .noFolder(let path): "--models-dir \(path): not a folder"
      case .aliasOfNothing(let alias, let model):
        "--alias \(alias)=\(model): there is no model '\(model)'"
      case .badAdapterName(let name):
        "'\(APIError.shortened(name))' cannot be the name of an adapter: it needs 1 to 100 bytes without spaces, ':' and '/'"
      case .adapterOfNothing(let adapter, let model):
        "--adapter \(model):\(adapter): there is no model '\(model)'"
      }
    }
  }

  /// Another name for a model.
  package struct Alias: Sendable {
    package let name: String
    /// The id of the model.
    package let model: String

    package init(name: String, model: String) {
      (self.name, self.model) = (name, model)
    }
  }

  /// An adapter that the start has named.
  package struct Adapter: Sendable {
    /// The id of its model; nil for the first one.
    package let model: String?
    package let source: AdapterSource

    package init(model: String?, source: AdapterSource) { (self.model, self.source) = (model, source) }
  }

  private let adapters: [Adapter]
  private let named: [ModelSource]
  private let folder: String?
  private let aliases: [Alias]
  private let hub: HubSettings?

  /// - Parameters:
  ///   - folder: every folder in it that holds a config.json or one GGUF model is a model, and so is every GGUF file; a
  ///     named one of the same name wins.
  ///   - hub: whose cache's models are models too, by their names on the hub.
  /// - Throws: what cannot be meant.
  package init(
    named: [ModelSource], folder: String? = nil, aliases: [Alias] = [], adapters: [Adapter] = [],
    hub: HubSettings? = nil
  ) throws(Problem) {
    (self.hub, self.named, self.folder, self.adapters) = (hub, named, folder, adapters)
    self.aliases = aliases
    guard !named.isEmpty || folder != nil || hub != nil else { throw .nothing }
    if let folder, !File.isDirectory(folder) { throw .noFolder(folder) }
    var names: Set<ByteKey> = []
    for name in named.map(\.id) + aliases.map(\.name) {
      guard Self.isName(name) else { throw .badName(name) }
      guard names.insert(ByteKey(name)).inserted else { throw .duplicate(name) }
    }
    // What is not there now may come later, where folders are looked at.
    for alias in aliases where folder == nil && hub == nil && source(alias.model) == nil {
      guard adapted(alias.model) == nil else { continue }
      throw .aliasOfNothing(alias: alias.name, model: alias.model)
    }
    var adapterNames: Set<ByteKey> = []
    for adapter in adapters {
      let (name, model) = (adapter.source.name, adapter.model ?? named.first?.id ?? "")
      guard AdapterSource.isName(name) else { throw .badAdapterName(name) }
      guard source(model) != nil else { throw .adapterOfNothing(adapter: name, model: model) }
      guard adapterNames.insert(ByteKey(model + ":" + name)).inserted else { throw .duplicate(name) }
    }
  }

  /// One model, whatever its name.
  init(only source: ModelSource) {
    named = [source]
    folder = nil
    (aliases, adapters) = ([], [])
    hub = nil
  }

  private static func isName(_ name: String) -> Bool {
    (1...200).contains(name.utf8.count) && !name.utf8.contains { $0 < 0x20 || $0 == 0x7F }
  }

  /// All models there are now: named ones in their order, then those of the folder by their bytes.
  package var sources: [ModelSource] {
    let names = (folder.flatMap { try? File.names(in: $0) } ?? []).map { name in
      name.hasSuffix(".gguf") ? String(name.dropLast(5)) : name
    }
    let cached = hub.map { HubCache(root: $0.cache).repositories().map(\.text) } ?? []
    var taken = Set(named.map { ByteKey($0.id) })
    let others =
      names.compactMap { name in folder.flatMap { scanned(name, in: $0) } } + cached.compactMap { pulled($0) }
    return named + others.filter { taken.insert(ByteKey($0.id)).inserted }
  }

  /// A model of the cache, by its name on the hub or a short one, if all of it is there.
  private func pulled(_ name: String) -> ModelSource? {
    // One model has one name: `resolve` leaves Ollama's tag out.
    guard let hub, !name.hasSuffix(":latest"), let reference = try? ModelReference(name, host: hub.host)
    else { return nil }
    return HubCache(root: hub.cache).wholeSnapshot(of: reference).map { ModelSource(id: name, path: $0) }
  }

  /// The model that a request means: by its own name, with Ollama's tag `latest` or without, else by an alias; nil when
  /// there is none.
  package func resolve(_ name: String) -> ModelSource? {
    // Some clients ask Ollama's API for names, and OpenAI's for answers.
    for candidate in [name] + (name.hasSuffix(":latest") ? [String(name.dropLast(7))] : []) {
      if let source = source(candidate) { return source }
      let alias = aliases.first { $0.name.utf8.elementsEqual(candidate.utf8) }
      if let alias { return source(alias.model) }
    }
    // What is said of a model with adapters is not said of another.
    if let colon = name.lastIndex(of: ":"), let source = source(String(name[..<colon])),
      !adapters(of: source).isEmpty
    {
      return nil
    }
    return aliases.first { $0.name == "*" }.flatMap { source($0.model) }
  }

  // MARK: Adapters

  /// The adapters of a model, named ones first, then those in its folder.
  package func adapters(of source: ModelSource) -> [AdapterSource] {
    let declared = adapters.filter { ($0.model ?? named.first?.id ?? "").utf8.elementsEqual(source.id.utf8) }
      .map(\.source)
    guard !source.path.utf8.isEmpty else { return declared }
    let place =
      LoadedModel.isGGUF(source.path) && !File.isDirectory(source.path)
      ? File.parent(of: source.path) : source.path
    let found = AdapterSource.found(in: place)
    return declared + found.filter { found in !declared.contains { $0.name == found.name } }
  }

  /// The model and the adapter that a name means, `MODEL:NAME`, or an alias of that, or a name alone that is that of one
  /// named adapter; nil for a model's own name, and where there is none.
  package func adapted(_ name: String) -> (source: ModelSource, adapter: String)? {
    let name = aliases.first { $0.name.utf8.elementsEqual(name.utf8) }?.model ?? name
    if source(name) != nil { return nil }
    if let colon = name.lastIndex(of: ":") {
      let (model, adapter) = (String(name[..<colon]), String(name[name.index(after: colon)...]))
      guard let source = source(model),
        adapters(of: source).contains(where: { $0.name.utf8.elementsEqual(adapter.utf8) })
      else { return nil }
      return (source, adapter)
    }
    let alone = adapters.filter { $0.source.name.utf8.elementsEqual(name.utf8) }
    guard alone.count == 1, let source = source(alone[0].model ?? named.first?.id ?? "") else { return nil }
    return (source, name)
  }

  /// Other names of a model.
  package func aliases(of id: String) -> [String] {
    aliases.filter { $0.model.utf8.elementsEqual(id.utf8) }.map(\.name)
  }

  /// Names of aliases whose model is there, for messages.
  var aliasNames: [String] { aliases.filter { source($0.model) != nil }.map(\.name) }

  private func source(_ id: String) -> ModelSource? {
    if let source = named.first(where: { $0.id.utf8.elementsEqual(id.utf8) }) { return source }
    return folder.flatMap { scanned(id, in: $0) } ?? pulled(id)
  }

  /// A name comes from a client: it must be one component, and no hidden one.
  private func scanned(_ name: String, in folder: String) -> ModelSource? {
    guard Self.isName(name), name.utf8.first != UInt8(ascii: "."), !name.utf8.contains(UInt8(ascii: "/"))
    else { return nil }
    let path = folder + "/" + name
    if File.exists(path + "/config.json") || LoadedModel.isGGUF(path) {
      return ModelSource(id: name, path: path)
    }
    return File.exists(path + ".gguf") ? ModelSource(id: name, path: path + ".gguf") : nil
  }
}

extension ModelCatalog {
  private static let tokenizerBytes = 256 << 20

  /// The models that generate, if not all of them have the same tokenizer: the same file, byte for byte.
  var tokenizersDiffer: [String]? {
    let sources = sources
    // To look at the one that most servers have takes 6 ms, at a GGUF file 29.
    guard sources.count > 1 else { return nil }
    let able = sources.filter { LoadedModel.generates($0.path) }
    guard let first = able.first, able.count > 1 else { return nil }
    let bytes = try? File.read(first.path + "/tokenizer.json", limit: Self.tokenizerBytes)
    let size = bytes?.count
    // What a GGUF file has in it is not compared.
    let areSame =
      !able.contains { LoadedModel.isGGUF($0.path) }
      && able.dropFirst().allSatisfy { model in
        let file = model.path + "/tokenizer.json"
        return (try? File.facts(file).bytes) == size
          && (try? File.read(file, limit: Self.tokenizerBytes)) == bytes
      }
    return areSame ? nil : able.map(\.id)
  }
}
