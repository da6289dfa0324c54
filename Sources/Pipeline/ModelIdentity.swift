// What the answers of a loaded model depend on beside their requests: names, and digests of its files.

package import Checkpoint
import JSON
import Platform

/// For any thread. Files are hashed once, when somebody first asks.
package final class ModelIdentity: Sendable {
  /// Of the program.
  package let version: String
  /// As `ComputeContext.arithmetic`.
  package let arithmetic: String
  /// How keys and values are stored.
  package let cache: String
  private let folder: ModelFolder?
  private let state = Monitor(State())

  private struct State {
    var isBegun = false
    var digests: [(name: String, digest: String?)]?
  }

  /// - Parameter folder: nil for a model without files, whose digests are not known.
  package init(version: String = "", arithmetic: String = "", cache: String = "", folder: ModelFolder? = nil)
  {
    (self.version, self.arithmetic, self.cache, self.folder) = (version, arithmetic, cache, folder)
  }

  /// Has the files hashed by a thread of their own.
  package func prepare() {
    let isFirst = state.withLock { state in
      defer { state.isBegun = true }
      return !state.isBegun
    }
    guard isFirst else { return }
    do throws(PlatformError) {
      try Thread(name: "digests") { [self] in read() }.detach()
    } catch {
      read()
    }
  }

  /// SHA-256 in hexadecimal digits of the weight files (over their digests, in the order of their names), of config.json, of
  /// tokenizer.json and of the chat template; nil for what is not there or has changed since it was loaded. Waits until they
  /// are known.
  package var digests: [(name: String, digest: String?)] {
    prepare()
    return state.wait { $0.digests } ?? []
  }

  private func read() {
    let templates = [folder?.chatTemplate, folder?.toolChatTemplate].compactMap { $0 }
    let texts: [(String, [UInt8]?)] = [
      ("config", (folder?.config.text).map { Array($0.utf8) }), ("tokenizer", try? folder?.tokenizerFile),
      ("template", templates.isEmpty ? nil : Array(templates.joined(separator: "\0").utf8)),
    ]
    let weights = (try? folder?.mappedFiles.digest { _ in true }).map(SHA256.hexadecimal)
    let found = [("weights", weights)] + texts.map { ($0, $1.map { SHA256.hexadecimal(SHA256.digest($0)) }) }
    state.update { $0.digests = found }
  }
}
