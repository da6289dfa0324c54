// Which hosts a request may name, and which web pages may send one.
//
// A page of any site can make its own name resolve to this machine and then talk to the server as if it were its own
// (DNS rebinding). Its requests give it away by the name in `Host`. Numeric addresses cannot be rebound.

import HTTP

/// The hosts that requests may be for.
package struct HostRules: Sendable {
  /// Lower case, without a final dot.
  private var names = ["localhost", "127.0.0.1", "::1"]
  private let takesAll: Bool
  /// Whether any numeric address will do: then the server is there for other machines, by all its addresses.
  private let takesNumeric: Bool

  /// - Parameters:
  ///   - bind: what the server listens on, as the user wrote it.
  ///   - allowed: further names; `*` is all.
  ///   - machine: the machine's own name, taken where other machines may come.
  package init(bind: String = "127.0.0.1", allowed: [String] = [], machine: String? = nil) {
    takesAll = allowed.contains("*")
    takesNumeric = !Self.isLoopback(bind)
    names += ([bind] + allowed).map(Self.plain)
    if takesNumeric, let machine, !machine.utf8.isEmpty {
      let name = Self.plain(machine)
      names.append(name)
      // The name that multicast DNS gives it.
      if !name.utf8.contains(UInt8(ascii: ".")) { names.append(name + ".local") }
    }
  }

  /// Whether only programs of this machine can reach a server that listens there.
  package static func isLoopback(_ host: String) -> Bool {
    let name = plain(host)
    return ["localhost", "::1"].contains { $0.utf8.elementsEqual(name.utf8) }
      || (name.utf8.starts(with: "127.".utf8) && Authority.isNumeric(name))
  }

  /// Whether a request for this host is meant for the server. Nil is HTTP/1.0 without a name: no browser sends that.
  func allows(_ host: String?) -> Bool {
    guard !takesAll, let host else { return true }
    let name = Self.plain(host)
    if Self.isLoopback(name) || (takesNumeric && Authority.isNumeric(name)) { return true }
    return names.contains { $0.utf8.elementsEqual(name.utf8) }
  }

  private static func plain(_ host: String) -> String {
    let bytes = host.utf8.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }
    let end = bytes.count > 1 && bytes.last == UInt8(ascii: ".") ? bytes.count - 1 : bytes.count
    return String(decoding: bytes[..<end], as: UTF8.self)
  }
}

/// The web pages that may send requests.
package struct OriginRules: Sendable {
  private let allowed: [String]
  let takesAll: Bool
  private let takesDesktop: Bool

  /// Schemes of pages that desktop programs bring along: Obsidian and other Electron programs, Tauri, Visual Studio
  /// Code's webviews and the editor itself. No page of the web has them. `file:` is not among them: browsers send
  /// `null` for it, as they do for sandboxed frames of any site.
  private static let desktopSchemes = ["app", "tauri", "vscode-webview", "vscode-file"]
  /// What Tauri's pages have as their host where a system wants http for them.
  private static let desktopHost = "tauri.localhost"

  /// - Parameters:
  ///   - allowed: origins of further pages, exactly as browsers write them; `*` is all.
  ///   - desktop: whether pages of desktop programs may come.
  package init(allowed: [String] = [], desktop: Bool = false) {
    self.allowed = allowed
    takesAll = allowed.contains("*")
    takesDesktop = desktop
  }

  /// What `access-control-allow-origin` says to a page of this origin; nil refuses it.
  ///
  /// - Parameter host: that the request is for, which has been found to be this server. Its own pages, and those of
  ///   the machine that the browser runs on, may come.
  func answer(to origin: String, host: String?) -> String? {
    if takesAll { return "*" }
    if allowed.contains(where: { $0.utf8.elementsEqual(origin.utf8) }) { return origin }
    if takesDesktop, Self.desktopSchemes.contains(where: { origin.utf8.starts(with: "\($0)://".utf8) }) {
      return origin
    }
    for scheme in ["http://", "https://"] where origin.utf8.starts(with: scheme.utf8) {
      guard
        let authority = Authority.parse(
          String(decoding: origin.utf8.dropFirst(scheme.utf8.count), as: UTF8.self))
      else { return nil }
      let isOwn =
        host.map { $0.utf8.elementsEqual(authority.host.utf8) } ?? false
        || takesDesktop && authority.host.utf8.elementsEqual(Self.desktopHost.utf8)
      return isOwn || HostRules.isLoopback(authority.host) ? origin : nil
    }
    return nil
  }
}
