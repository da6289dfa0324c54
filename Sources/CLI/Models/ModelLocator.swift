// From what a person types as a model to a folder: a path, or the name of a model that is in the cache or on the hub.

import Checkpoint
import Hub
import Pipeline
import Platform

/// What stands where a model is asked for.
enum ModelPlace: Equatable {
  case folder(String)
  case reference(ModelReference)
}

enum ModelLocator {
  /// A path wins over a name; what begins as paths do is one, whether it exists or not.
  ///
  /// - Throws: when it is neither.
  static func place(_ text: String, _ settings: HubSettings) throws -> ModelPlace {
    let isPath =
      ["/", ".", "~"].contains { text.hasPrefix($0) } || text.contains("/./") || text.hasSuffix("/")
      || File.exists(text)
    if isPath || text.isEmpty { return .folder(text) }
    do {
      return .reference(try reference(text, settings))
    } catch {
      // Something like a path that is not there: the words on folders fit better.
      if text.split(separator: "/").count > 2, !text.contains("://") { return .folder(text) }
      throw error
    }
  }

  /// What a name means: `owner/name`, a short name, or the name alone of a model that is in the cache.
  static func reference(_ text: String, _ settings: HubSettings) throws(HubError) -> ModelReference {
    let reference = try ModelReference(text, host: settings.host)
    let cached = HubCache(root: settings.cache).repositories()
    // The hub takes names in any case; folders of the cache have the right one.
    let low = reference.repository.text.lowercased()
    let hasOwner = low.contains("/")
    let found = cached.filter { (hasOwner ? $0.text : $0.name).lowercased() == low }
    if found.count == 1, let only = found.first {
      return ModelReference(only, revision: reference.revision, quantization: reference.quantization)
    }
    if hasOwner { return reference }
    guard found.isEmpty else {
      throw .badName(text, problem: "the cache has several: " + found.map(\.text).joined(separator: ", "))
    }
    let near = nearest(to: text, among: KnownModels.names + cached.map(\.name))
    throw .badName(
      text,
      problem:
        "it is not a folder, not a short name ('mlxserve models' lists them), and not OWNER/NAME"
        + (near.isEmpty ? "" : "; did you mean " + near.joined(separator: ", ") + "?"))
  }

  /// The models that are in the cache, whole, by their names.
  static func here(_ settings: HubSettings) -> [(name: String, path: String)] {
    HubCache(root: settings.cache).repositories().compactMap { name in
      present(ModelReference(name), settings).map { (name.text, $0) }
    }
  }

  /// The model to talk to where none is named: the one in the cache, or one that is chosen from a list on a terminal.
  ///
  /// - Throws: where there is none, or several and nobody to ask.
  static func chosen(_ flags: ParsedFlags) throws -> String {
    let names = here(try flags.hubSettings()).filter {
      LoadedModel.generates($0.path)
        && (File.exists($0.path + "/config.json") || ModelFolder.isGGUF($0.path))
    }.map(\.name)
    guard let first = names.first else { throw UsageError.noModel(here: []) }
    if names.count == 1 {
      Terminal.tell(Terminal.dimmedError("model: \(first)"))
      return first
    }
    guard Terminal.inputIsTerminal, Terminal.outputIsTerminal else { throw UsageError.noModel(here: names) }
    for (number, name) in names.enumerated() { Terminal.print("\(number + 1)  \(name)") }
    while true {
      Terminal.print("Which one? (1 to \(names.count))")
      guard let line = readLine(), !line.isEmpty else { throw UsageError.noModel(here: names) }
      if let number = Int(line), names.indices.contains(number - 1) { return names[number - 1] }
      if let name = names.first(where: { $0 == line }) { return name }
    }
  }

  /// The three names that look most like what was typed.
  static func nearest(to text: String, among names: [String]) -> [String] {
    let low = text.lowercased()
    let ranked = names.map { name -> (String, Int) in
      // Of a repository, the part after the slash is what people remember.
      let tail = name.split(separator: "/").last.map(String.init) ?? name
      return (name, editDistance(low, tail.lowercased()))
    }
    return ranked.filter { $0.1 <= max(2, low.utf8.count / 2) }.sorted { ($0.1, $0.0) < ($1.1, $1.0) }.prefix(
      3
    )
    .map(\.0)
  }

  /// The folder of a model that is there; nil when it has to be fetched first.
  static func present(_ reference: ModelReference, _ settings: HubSettings) -> String? {
    HubCache(root: settings.cache).wholeSnapshot(of: reference)
  }

  /// Of the models that this process has in use.
  private static let held = Monitor<[FileLock]>([])

  /// The folder of a model that is there, or the path that was given; nil for one that has to be fetched first.
  static func present(_ text: String, _ flags: ParsedFlags) throws -> String? {
    let settings = try flags.hubSettings()
    switch try place(text, settings) {
    case .folder(let path): return path
    case .reference(let reference): return present(reference, settings)
    }
  }

  /// The folder of a model, fetched first where it is not there. As long as this process runs, nobody removes it from
  /// the cache.
  static func folder(_ text: String, _ flags: ParsedFlags) throws -> String {
    let settings = try flags.hubSettings()
    let folder: String
    switch try place(text, settings) {
    case .folder(let path): folder = path
    case .reference(let reference):
      folder = try present(reference, settings) ?? ModelFetch.folder(DownloadRequest(reference), settings)
    }
    if let place = try? ModelFolder.check(folder), let lock = HubCache.hold(place) {
      held.update { $0.append(lock) }
    }
    return folder
  }
}
