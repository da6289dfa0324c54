// Why a model was not found, fetched or kept, in words for a person: what happened, and what to do.

package import Platform

/// Nothing in it holds a token, or an address with a signature.
package enum HubError: Error, Sendable, Equatable, CustomStringConvertible {
  case badName(String, problem: String)
  case badSetting(name: String, problem: String)
  /// The program curl is not there, or not as it must be.
  case noProgram(String)
  /// No connection may be made.
  case offline(what: String, cache: String)
  /// The hub does not tell a missing repository from one that is hidden.
  case notFound(RepositoryName, hasToken: Bool, message: String?)
  case noRevision(String, RepositoryName, known: [String])
  case noFile(String, RepositoryName)
  /// Its terms must be accepted first.
  case gated(RepositoryName, page: String, hasToken: Bool)
  /// - source: where the token came from.
  case badToken(source: String)
  case forbidden(RepositoryName, message: String?)
  case disabled(RepositoryName, message: String?)
  /// Somebody else answers at the hub's address.
  case notTheHub(host: String, problem: String)
  case status(Int, what: String, message: String?)
  case unreachable(host: String, problem: String)
  case badAnswer(what: String, problem: String)
  case badRedirect(String)
  /// A file's name that leads elsewhere.
  case unsafePath(String)
  /// The repository holds nothing that can be served.
  case unsuitable(RepositoryName, problem: String)
  case noRoom(needed: Int, free: Int, folder: String)
  case noMemory(needed: Int, limit: Int)
  case disk(PlatformError)
  /// The bytes are not those that were published.
  case damaged(file: String, problem: String)
  case inUse(String)
  case cancelled

  package var description: String {
    switch self {
    case .badName(let name, let problem): "'\(Self.plain(name))' cannot be the name of a model: \(problem)"
    case .badSetting(let name, let problem): "\(name) \(problem)"
    case .noProgram(let problem): problem
    case .offline(let what, let cache):
      "\(what) is not whole in \(cache), and HF_HUB_OFFLINE forbids connections; "
        + "unset it, or copy the model there"
    case .notFound(let name, let hasToken, let message):
      "the hub has no model \(name.text), or it is private: check the spelling"
        + (hasToken ? ", and what the token may read" : "; private models need a token in HF_TOKEN")
        + Self.said(message)
    case .noRevision(let revision, let name, let known):
      "\(name.text) has no revision '\(Self.plain(revision))'"
        + (known.isEmpty ? "" : "; it has \(known.map(Self.plain).joined(separator: ", "))")
    case .noFile(let path, let name): "\(name.text) has no file \(Self.plain(path))"
    case .gated(let name, let page, let hasToken):
      hasToken
        ? "\(name.text) is gated, and your account has not been given access: ask for it at \(page)"
        : "\(name.text) is gated: accept its terms at \(page), then set HF_TOKEN to a token of your account"
    case .badToken(let source):
      "the hub refuses the token from \(source): it is wrong or expired; make a new one, or log in again"
    case .forbidden(let name, let message):
      "the token may not read \(name.text): give it the right to, or use another" + Self.said(message)
    case .disabled(let name, let message): "access to \(name.text) is disabled" + Self.said(message)
    case .notTheHub(let host, let problem):
      "\(host) is not the hub: \(problem). A proxy or a login page may answer in its place, or HF_ENDPOINT is wrong"
    case .status(let status, let what, let message):
      "the hub answers \(status) for \(what)\(Self.said(message)); try again later"
    case .unreachable(let host, let problem): "\(host) cannot be reached: \(problem); try again later"
    case .badAnswer(let what, let problem): "the hub's answer for \(what) cannot be used: \(problem)"
    case .badRedirect(let problem): "the hub leads elsewhere: \(problem); nothing is fetched from there"
    case .unsafePath(let path):
      "the repository has a file named '\(Self.plain(path))', which leads elsewhere; nothing was fetched"
    case .unsuitable(let name, let problem): "\(name.text) cannot be served: \(problem)"
    case .noRoom(let needed, let free, let folder):
      "\(Size.words(needed)) are needed and \(Size.words(free)) are free in \(folder): "
        + "make room ('mlxserve list' shows what is there, 'mlxserve rm' removes it), or use another --cache-dir"
    case .noMemory(let needed, let limit):
      "its weights take \(Size.words(needed)), and this machine has memory for \(Size.words(limit)): "
        + "take a smaller model or one of fewer bits, or --force"
    case .disk(let error): error.description
    case .damaged(let file, let problem):
      "\(Self.plain(file)) is not what was published, twice: \(problem). Nothing of it was kept; try again later"
    case .inUse(let words): words
    case .cancelled: "stopped; the same command goes on where it was"
    }
  }

  private static func said(_ message: String?) -> String {
    guard let message, !message.isEmpty else { return "" }
    return " (the hub says: \(plain(message)))"
  }

  /// One line of bounded length, whatever somebody put into a name.
  static func plain(_ text: String) -> String {
    var out = ""
    for scalar in text.unicodeScalars {
      if out.utf8.count >= 300 { return out + "…" }
      out.unicodeScalars.append(scalar.steersText ? "?" : scalar)
    }
    return out
  }
}

/// Sizes as downloads are told: in units of 1000, as the hub's pages have them.
package enum Size {
  /// `351 MB`, `2.3 GB`, `17 kB`.
  package static func words(_ bytes: Int) -> String {
    for (unit, name) in [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")] where bytes >= unit {
      let tenths = bytes / (unit / 10)
      return tenths < 100 ? "\(tenths / 10).\(tenths % 10) \(name)" : "\(tenths / 10) \(name)"
    }
    return "\(bytes) B"
  }
}
