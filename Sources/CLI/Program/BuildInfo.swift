// Which build this is: the commit is put here by `git archive`, from which releases are built.

import Compute
import JSON
import Platform

enum BuildInfo {
  private static let archived = "$Format:%H$"
  private static let archivedDate = "$Format:%cs$"

  /// Forty digits; nil in a working copy.
  static var commit: String? { archived.hasPrefix("$") ? nil : archived }
  static var date: String? { archivedDate.hasPrefix("$") ? nil : archivedDate }

  static var target: String {
    #if os(Linux)
      let system = "linux"
    #elseif os(macOS)
      let system = "macos"
    #else
      let system = "unknown"
    #endif
    #if arch(x86_64)
      return system + "-x86_64"
    #elseif arch(arm64)
      return system + "-arm64"
    #else
      return system
    #endif
  }

  static var compiler: String {
    #if compiler(>=6.4)
      return "Swift 6.4 or newer"
    #elseif compiler(>=6.3)
      return "Swift 6.3"
    #else
      return "Swift 6.2"
    #endif
  }

  /// Kernels that this program holds.
  static var kernels: [String] { ISA.built.map(\.rawValue) }

  static var lines: [String] {
    let build = commit.map { "commit \($0.prefix(12)), \(date ?? "")" } ?? "built from a working copy"
    return [
      "mlxserve \(Version.text)", "\(build); \(compiler), \(target)",
      "kernels: \(kernels.joined(separator: ", ")); this CPU takes \(CPUFeatures.best.rawValue)",
    ]
  }

  static var json: JSONValue {
    [
      "version": .string(Version.text), "commit": commit.map(JSONValue.string) ?? nil,
      "date": date.map(JSONValue.string) ?? nil, "compiler": .string(compiler), "target": .string(target),
      "kernels": .array(kernels.map(JSONValue.string)), "cpu": .string(CPUFeatures.best.rawValue),
    ]
  }
}
