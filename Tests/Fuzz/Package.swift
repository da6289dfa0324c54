// swift-tools-version: 6.2
// The fuzzing build: what parses is instrumented for libFuzzer. `make fuzz` links the sources beside this manifest.

import PackageDescription

let strict: [SwiftSetting] = [
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
]

/// `make fuzz` builds for release, whole modules at a time, because an input must be cheap. Overflow and bounds checks
/// stay: they are what is looked for.
///
/// `make fuzz SANITIZER=address` watches memory too, where code has pointers.
let sanitizers = ["fuzzer"] + [Context.environment["SANITIZER"] ?? ""].filter { !$0.isEmpty }
let instrumented = strict + [.unsafeFlags(sanitizers.map { "-sanitize=\($0)" })]

#if arch(x86_64)
  let kernels = [
    (name: "KernelsAVX2", cpu: "haswell"), (name: "KernelsAVXVNNI", cpu: "alderlake"),
    (name: "KernelsAVX512", cpu: "cascadelake"), (name: "KernelsAMX", cpu: "sapphirerapids"),
  ]
#else
  let kernels = [
    (name: "KernelsNEON", cpu: "armv8-a"), (name: "KernelsDotprod", cpu: "armv8.2-a+dotprod"),
    (name: "KernelsI8MM", cpu: "armv8.2-a+dotprod+i8mm"),
  ]
#endif

/// Modules that parse what comes from outside → their imports.
let modules: [(name: String, imports: [String])] = [
  ("Platform", []),
  ("JSON", []),
  ("HTTP", ["Platform"]),
  ("Media", ["Platform"]),
  ("Jinja", ["JSON"]),
  ("Tokenizers", ["JSON"]),
  ("Checkpoint", ["Compute", "JSON", "Platform"]),
  ("Grammar", ["Tokenizers", "JSON"]),
  ("Chat", ["Grammar", "Jinja", "Tokenizers", "JSON"]),
  ("Sampling", []),
  ("Wire", ["Sampling", "JSON"]),
  ("Vectors", ["Compute", "KernelTypes", "Tokenizers", "JSON", "Platform"]),
  ("Search", ["Vectors", "JSON", "Platform"]),
  ("Fetch", ["HTTP", "Platform"]),
  ("Hub", ["Checkpoint", "Fetch", "JSON", "Platform"]),
]

/// Programs → what their targets call. libFuzzer looks through the counters of a whole program after every input, so each
/// has only what it needs.
let programs: [(name: String, folder: String, imports: [String])] = [
  ("fuzz-http", "HTTP", ["HTTP"]),
  ("fuzz-media", "Media", ["Media"]),
  ("fuzz-json", "JSON", ["JSON"]),
  ("fuzz-requests", "Requests", ["Wire", "Bodies", "JSON"]),
  ("fuzz-tokens", "Tokens", ["Tokenizers", "JSON"]),
  ("fuzz-weights", "Weights", ["Checkpoint", "Vectors", "JSON", "Platform"]),
  ("fuzz-templates", "Templates", ["Jinja", "JSON"]),
  ("fuzz-grammar", "Grammar", ["Grammar", "Tokenizers", "JSON"]),
  ("fuzz-calls", "Calls", ["Chat", "JSON"]),
  ("fuzz-indexes", "Indexes", ["Vectors", "Platform"]),
  ("fuzz-notes", "Notes", ["Search", "Vectors"]),
  ("fuzz-hub", "Hub", ["Fetch", "Hub", "JSON", "Platform"]),
]

func dependencies(_ names: [String]) -> [Target.Dependency] { names.map { .init(stringLiteral: $0) } }

let kernelTargets: [Target] =
  [.target(name: "KernelTypes", swiftSettings: strict)]
  + kernels.map { kernel in
    .target(
      name: kernel.name, dependencies: ["KernelTypes"],
      swiftSettings: strict + [
        .enableExperimentalFeature("BuiltinModule"),
        .unsafeFlags(["-Ounchecked", "-disable-cmo", "-Xllvm", "-sil-disable-pass=function-signature-opts"]),
        // The compiler takes the extensions of arm64 from Clang.
        .unsafeFlags(
          (kernel.cpu.hasPrefix("armv8") ? [] : ["-target-cpu", kernel.cpu]) + [
            "-Xcc", "-march=\(kernel.cpu)",
          ]),
      ])
  }

let moduleTargets: [Target] = modules.map { module in
  .target(name: module.name, dependencies: dependencies(module.imports), swiftSettings: instrumented)
}

/// They have no `main` of their own: see `Fuzz.run`.
let programTargets: [Target] = programs.map { program in
  .executableTarget(
    name: program.name, dependencies: dependencies(["Driver"] + program.imports),
    path: "Fuzz/\(program.folder)",
    swiftSettings: instrumented + [.unsafeFlags(["-parse-as-library"])],
    // gold fails on some of these programs with an error of its own.
    linkerSettings: [.unsafeFlags(sanitizers.map { "-sanitize=\($0)" } + ["-use-ld=lld"])])
}

let package = Package(
  name: "mlxserve",
  platforms: [.macOS(.v15)],
  targets: kernelTargets + moduleTargets + programTargets + [
    .target(
      name: "Compute", dependencies: dependencies(["KernelTypes", "Platform"] + kernels.map(\.name)),
      swiftSettings: strict),
    // Bodies that stand beside their routes: they know no engine.
    .target(
      name: "Bodies", dependencies: ["Wire", "JSON"], path: "Sources/Server",
      exclude: ["Page"], sources: ["Embeddings/EmbeddingsRequest.swift"], swiftSettings: instrumented),
    .target(name: "Driver", path: "Fuzz/Driver", swiftSettings: strict),
  ])
