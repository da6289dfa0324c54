// The adapters of an engine's model: read and given memory when the engine starts, and chosen by requests.

import Checkpoint
import Models
import Platform

/// A folder with an adapter that an engine is to load.
package struct AdapterSource: Sendable, Equatable {
  /// What requests call it, beside its model.
  package var name: String
  package var path: String
  /// Whether it was found in the model's folder: one that cannot be used is told in the log, and the model does without it.
  package var isFound: Bool

  package init(name: String, path: String, isFound: Bool = false) {
    (self.name, self.path, self.isFound) = (name, path, isFound)
  }

  /// Names have no colon: it stands between a model and its adapter.
  package static func isName(_ name: String) -> Bool {
    (1...100).contains(name.utf8.count)
      && name.utf8.allSatisfy {
        $0 > 0x20 && $0 != 0x7F && $0 != UInt8(ascii: ":") && $0 != UInt8(ascii: "/")
      }
  }

  /// Adapters in a model's folder, and in its folder `adapters`: each is a folder with an adapter_config.json.
  package static func found(in folder: String) -> [AdapterSource] {
    [folder, folder + "/adapters"].flatMap { place -> [AdapterSource] in
      let names = ((try? File.names(in: place)) ?? []).sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
      return names.filter { isName($0) && AdapterFolder.isAdapter(place + "/" + $0) }
        .map { AdapterSource(name: $0, path: place + "/" + $0, isFound: true) }
    }
  }
}

/// An adapter that is loaded.
package struct LoadedAdapter: Sendable, Equatable {
  package let name: String
  /// SHA-256 over its files, in hexadecimal digits: what its keys and values are known by.
  package let digest: String
  /// Of its pairs in memory.
  package let bytes: Int
}

/// What an engine has loaded, and the memory that it is in.
struct EngineAdapters {
  private(set) var loaded: [LoadedAdapter] = []
  private var loans: [MemoryLoan] = []

  init() {}

  /// Loads adapters into a model. The kernels are the caller's for as long as this takes.
  ///
  /// - Throws: `modelLoading` with the words of what refused one that was asked for.
  init(
    _ sources: [AdapterSource], into model: any CausalModel, _ ledger: MemoryLedger
  ) throws(InferenceError) {
    for source in sources {
      do throws(InferenceError) {
        try load(source, into: model, ledger)
      } catch {
        guard source.isFound else { throw error }
        Log.warning(
          "an adapter in the model's folder is left out", ["name": source.name, "error": "\(error)"])
      }
    }
  }

  private mutating func load(
    _ source: AdapterSource, into model: any CausalModel, _ ledger: MemoryLedger
  ) throws(InferenceError) {
    do {
      guard let shelf = model.adapters else {
        throw CheckpointError.badAdapter(path: source.path, problem: "the model takes none")
      }
      let folder = try AdapterFolder(path: source.path)
      for warning in folder.warnings { Log.warning(warning, ["adapter": source.name]) }
      if shelf.slot(of: folder.digest) == nil {
        // Formats that differ become float32.
        let bytes = 2 * folder.byteCount
        guard let loan = MemoryLoan(holding: bytes, of: ledger, for: .adapters) else {
          throw CheckpointError.badAdapter(
            path: source.path,
            problem:
              "it needs \(MemoryLimit.words(bytes)), and \(MemoryLimit.words(ledger.left)) are left of --memory"
          )
        }
        let held = try shelf.add(folder)
        loan.shrink(to: held)
        loans.append(loan)
      }
      loaded.append(
        LoadedAdapter(name: source.name, digest: folder.digest, bytes: folder.byteCount))
      Log.info("adapter loaded", ["name": source.name, "bytes": "\(folder.byteCount)"])
    } catch let error as InferenceError {
      throw error
    } catch {
      throw .modelLoading("\(error)")
    }
  }
}
