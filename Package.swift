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

/// Kernel modules of x86-64: compiled for one instruction-set level each, while the rest of the package stays at
/// the baseline. Compute picks among them at start, so one binary runs everywhere.
#if arch(x86_64)
  let kernelModules = [("KernelsAVX2", "haswell"), ("KernelsAVX512", "cascadelake")]
#else
  let kernelModules: [(String, String)] = []
#endif

func kernelSettings(cpu: String) -> [SwiftSetting] {
  strict + [.unsafeFlags(["-Ounchecked", "-target-cpu", cpu, "-Xcc", "-march=\(cpu)"])]
}

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
  ("Compute", ["Platform"] + kernelModules.map(\.0)),
  ("Checkpoint", ["Compute", "JSON", "Platform"]),
  ("Decoding", ["Tokenizers", "JSON"]),
  ("Chat", ["Jinja", "Tokenizers", "JSON"]),
  ("Models", ["Compute", "Checkpoint", "JSON", "Platform"]),
  ("Inference", ["Models", "Decoding", "Tokenizers", "Compute", "Checkpoint", "Platform"]),
  ("Server", ["Inference", "Chat", "Decoding", "Tokenizers", "OpenAI", "HTTP", "JSON", "Platform"]),
  (
    "CLI",
    [
      "Server", "Inference", "Chat", "Checkpoint", "Compute", "Decoding", "Tokenizers", "HTTP", "JSON", "Platform",
    ]
  ),
]

let tuned: Set<String> = ["Compute", "Tokenizers", "JSON", "Jinja"]

func dependencies(of module: (name: String, imports: [String])) -> [Target.Dependency] {
  module.imports.filter { isPresent("Sources/\($0)") }.map { .init(stringLiteral: $0) }
}

var targets: [Target] = []
for (name, cpu) in kernelModules {
  targets.append(.target(name: name, swiftSettings: kernelSettings(cpu: cpu)))
}
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
  targets.append(
    .target(
      name: "Support", dependencies: ["JSON", "Platform"], path: "Tests/Support", swiftSettings: strict))
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
