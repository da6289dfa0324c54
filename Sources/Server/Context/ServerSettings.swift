// What the operator has chosen, and what tests replace.

package import Fetch
package import Hub
package import Inference
package import JSON
package import MCP
import Pipeline
package import Platform
package import Wire

/// The settings of one server; a fresh value holds the defaults.
package struct ServerSettings: Sendable {
  /// The member that holds reasoning text.
  package var reasoningField = ReasoningField.reasoningContent
  /// Whether an unknown field is refused instead of being named in a header.
  package var strictParameters = false
  /// Whether objects may have members that their schemas do not declare and do not forbid, where a request does not say.
  package var allowsUndeclaredMembers = false
  /// Whether earlier answers, too, cannot spell special tokens.
  package var isHistoryStrict = false
  /// How reasoning is written into Responses streams.
  package var responsesReasoningEvents = ReasoningEvents.openai
  /// Whether tools that a provider runs itself are refused instead of being left out.
  package var refusesHostedTools = false
  /// Clients whose lines that change with every request stay where they are.
  package var keptLines: Set<MovingLines> = []
  /// Most requests of this server that wait for the engine; nil for the engine's own limit.
  package var queueLimit: Int?
  /// Most tokens of an answer whose request sets no limit; `Int.max` for what the context leaves.
  package var maxAnswer = LoadedModel.usualMaxAnswer
  /// Receipts of answers whose requests do not say, and what signs them all.
  package var receipts = ReceiptForm.off
  package var receiptKey: Ed25519?
  /// Where answers with receipts are written down; nil for nowhere.
  package var recorder: Recorder?
  /// Responses and conversations; in memory by default.
  package var store = ResponseStore()
  /// Files and vector stores; nil where there is no place for them.
  package var archive: Archive?
  /// Where the prompts are noted that are computed while nobody waits; nil where none are.
  package var readAheadFolder: String?
  /// Silence on a stream after which a comment shows that it lives, seconds.
  package var keepAliveSeconds = 1.0
  /// How often a waiting connection looks whether its client is still there, seconds.
  package var pollSeconds = 0.025
  /// What is counted, for /metrics.
  package var metrics = Metrics()
  /// The folder whose files `file://` URLs may name; nil for none.
  package var mediaRoot: String?
  /// What http and https URLs may name; nil for nothing.
  package var mediaURLs: FetchRules?
  /// Servers whose tools answers may call; nil for none.
  package var toolServers: ToolServers?
  /// The hub that clients may have models fetched from; nil where they may not.
  package var hub: HubSettings?
  /// Says what is wrong with a model before its weights are fetched; see `DownloadRequest.judge`.
  package var judge: @Sendable (_ config: JSONValue, _ weightBytes: Int) -> String? = { _, _ in nil }
  /// Seconds since 1970 when the server started: `created` of models.
  package var started: Int?
  /// Of the server, for /openapi.json.
  package var version = "0.0.0"
  /// What /debug/state tells of the engine; without it that route does not exist.
  package var engineStatistics: (@Sendable () -> EngineStatistics)?
  /// Makes the random part of ids; replaced in tests.
  package var makeID: @Sendable () -> String = { RandomID.make(24) }
  /// Seconds since 1970, for `created`.
  package var now: @Sendable () -> Int = { Int(Instant.wallSeconds) }

  package init() {}

  /// Whether what is acknowledged reaches the folders.
  var storeHealth: StoreHealth { store.health + (archive?.health ?? StoreHealth()) }
}

private enum RandomID {
  private static let alphabet = Array("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)

  /// Random letters and digits.
  static func make(_ count: Int) -> String {
    String(decoding: (0..<count).map { _ in alphabet[Int.random(in: 0..<alphabet.count)] }, as: UTF8.self)
  }
}
