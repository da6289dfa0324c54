// swift-tools-version: 6.2
// The manifest of mlxserve: one table of modules with their allowed imports, and one test target per module.

import Foundation
import PackageDescription

/// Settings of every target: Swift 6 language mode is implied by the tools version.
let strict: [SwiftSetting] = [
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
]

/// Tensor code is unusable without the optimizer (about 100 times slower), so debug builds optimise it too.
let optimised: [SwiftSetting] = strict + [.unsafeFlags(["-O"], .when(configuration: .debug))]

func isPresent(_ path: String) -> Bool {
  FileManager.default.fileExists(atPath: Context.packageDirectory + "/" + path)
}

/// Module name → the modules it may import. `Tests/ArchitectureTests` holds the same table for the sources.
let modules: [(name: String, imports: [String])] = [
  ("Platform", []),
  ("JSON", []),
  ("HTTP", ["Platform"]),
  ("OpenAI", ["JSON"]),
  ("Jinja", ["JSON"]),
  ("Tokenizers", ["JSON"]),
  ("Compute", ["Platform"]),
  ("Checkpoint", ["Compute", "JSON", "Platform"]),
  ("Decoding", ["Tokenizers", "JSON"]),
  ("Chat", ["Jinja", "Tokenizers", "JSON"]),
  ("Models", ["Compute", "Checkpoint", "JSON"]),
  ("Inference", ["Models", "Decoding", "Tokenizers", "Compute", "Checkpoint", "Platform"]),
  ("Server", ["Inference", "Chat", "Decoding", "Tokenizers", "OpenAI", "HTTP", "JSON", "Platform"]),
  ("CLI", ["Server", "Inference", "Chat", "Checkpoint", "Compute", "Decoding", "Tokenizers", "HTTP", "JSON", "Platform"]),
]

let tuned: Set<String> = ["Compute", "Tokenizers", "JSON", "Jinja"]

func dependencies(of module: (name: String, imports: [String])) -> [Target.Dependency] {
  module.imports.filter { isPresent("Sources/\($0)") }.map { .init(stringLiteral: $0) }
}

var targets: [Target] = []
for module in modules where isPresent("Sources/\(module.name)") {
  targets.append(
    .target(
      name: module.name,
      dependencies: dependencies(of: module),
      swiftSettings: tuned.contains(module.name) ? optimised : strict))
}
if isPresent("Sources/mlxserve") {
  targets.append(.executableTarget(name: "mlxserve", dependencies: ["CLI"], swiftSettings: strict))
}
if isPresent("Tests/Support") {
  targets.append(.target(name: "Support", dependencies: ["JSON", "Platform"], path: "Tests/Support", swiftSettings: strict))
}
for module in modules where isPresent("Tests/\(module.name)Tests") {
  targets.append(
    .testTarget(
      name: "\(module.name)Tests",
      dependencies: [.init(stringLiteral: module.name), "Support"] + dependencies(of: module),
      swiftSettings: tuned.contains(module.name) ? optimised : strict))
}

if isPresent("Tests/ArchitectureTests") {
  targets.append(
    .testTarget(name: "ArchitectureTests", dependencies: ["Support", "Platform"], swiftSettings: strict))
}

let package = Package(
  name: "mlxserve",
  platforms: [.macOS(.v15)],
  targets: targets)
