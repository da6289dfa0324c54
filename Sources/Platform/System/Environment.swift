// Variables of the environment.

/// The variables that this process was started with.
package enum Environment {
  /// Nil when the variable is not set; empty when it is set to nothing.
  package static func value(_ name: String) -> String? {
    guard let value = getenv(name) else { return nil }
    return String(cString: value)
  }
}
