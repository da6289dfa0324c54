// Variables of the environment.

/// The variables that this process was started with.
package enum Environment {
  /// Nil when the variable is not set; empty when it is set to nothing.
  package static func value(_ name: String) -> String? {
    guard let value = getenv(name) else { return nil }
    return String(cString: value)
  }

  /// Where programs keep what they can make again: `XDG_CACHE_HOME`, else `~/.cache`. Nil without a home directory.
  package static var cacheFolder: String? {
    if let folder = value("XDG_CACHE_HOME"), folder.hasPrefix("/") { return folder }
    guard let home = value("HOME"), home.hasPrefix("/") else { return nil }
    return home + "/.cache"
  }
}
