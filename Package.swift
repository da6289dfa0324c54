// swift-tools-version: 6.2
// The manifest of mlxserve: one table of modules with their allowed imports, and one test target per module.

import PackageDescription

/// Settings of every target: Swift 6 language mode is implied by the tools version.
let strict: [SwiftSetting] = [
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
]

/// Some code is unusable without the optimizer (tensors are about 100 times slower): debug builds optimise it too.
let optimised: [SwiftSetting] = strict + [.unsafeFlags(["-O"], .when(configuration: .debug))]

/// What is built for: a manifest sees only the machine that builds. A cross build says the other (`make arm64-test`).
#if arch(arm64)
  let architecture = Context.environment["MLXSERVE_ARCH"] ?? "arm64"
#else
  let architecture = Context.environment["MLXSERVE_ARCH"] ?? "x86_64"
#endif

/// Kernel modules, which may import `KernelTypes` alone: compiled for one instruction-set level each, while the rest of the
/// package stays at the baseline. Compute picks among them at start, so one binary runs everywhere.
let kernelModules = [
  (name: "KernelsAVX2", architecture: "x86_64", level: "haswell"),
  (name: "KernelsAVXVNNI", architecture: "x86_64", level: "haswell+avxvnni"),
  (name: "KernelsAVX512", architecture: "x86_64", level: "cascadelake"),
  (name: "KernelsAMX", architecture: "x86_64", level: "cascadelake+amx-tile+amx-int8"),
  (name: "KernelsNEON", architecture: "arm64", level: "armv8-a"),
  (name: "KernelsDotprod", architecture: "arm64", level: "armv8.2-a+dotprod"),
  (name: "KernelsI8MM", architecture: "arm64", level: "armv8.2-a+dotprod+i8mm"),
]

/// Those of the architecture that is built for.
let builtKernels = kernelModules.filter { $0.architecture == architecture }

/// Cross-module optimisation would offer the bodies to Compute, which is compiled for the baseline, and variants of
/// functions without the operands' unused fields would be weak symbols (docs/kernels/layouts.md).
func kernelSettings(level: String) -> [SwiftSetting] {
  // The compiler takes extensions from Clang, which knows them as flags on x86-64.
  let parts = level.split(separator: "+").map(String.init)
  let flags =
    architecture == "x86_64"
    ? ["-target-cpu", parts[0], "-Xcc", "-march=\(parts[0])"]
      + parts.dropFirst().flatMap { ["-Xcc", "-m\($0)"] }
    : ["-Xcc", "-march=\(level)"]
  // Functions and innermost loops begin with a cache line. Otherwise their speed depends on what is linked before them: the
  // same AVX2 rows decoded 146 and 154 tokens per second on a Zen 5.
  let inLine =
    ["-Xllvm", "-align-all-functions=6"]
    + (architecture == "x86_64" ? ["-Xllvm", "-x86-experimental-pref-innermost-loop-alignment=6"] : [])
  // Some instructions of AMX come from the compiler's module of LLVM's intrinsics (docs/decisions/030).
  let intrinsics: [SwiftSetting] = level.contains("amx") ? [.enableExperimentalFeature("BuiltinModule")] : []
  return strict + intrinsics + [
    .unsafeFlags(["-Ounchecked", "-disable-cmo", "-Xllvm", "-sil-disable-pass=function-signature-opts"]),
    .unsafeFlags(inLine),
    .unsafeFlags(flags),
  ]
}

/// Most lines of Swift in each folder of `Sources`; `BudgetTests` holds them. Whoever passes one deletes as much, or raises
/// it and says why in the same commit.
let budgets = [
  "CAPI": 770,
  "CLI": 12_250,
  "Chat": 6_250,
  "Checkpoint": 5_480,
  "Compute": 10_240,
  "Conversion": 1_150,
  "Decoding": 1_870,
  "Fetch": 680,
  "Grammar": 12_760,
  "HTTP": 4_420,
  "Hub": 2_710,
  "Inference": 7_440,
  "JSON": 1_020,
  "Jinja": 5_380,
  "KernelTypes": 680,
  "KernelsAMX": 1_320,
  "KernelsAVX2": 3_130,
  "KernelsAVX512": 3_700,
  "KernelsAVXVNNI": 840,
  "KernelsDotprod": 1_470,
  "KernelsI8MM": 1_460,
  "KernelsNEON": 2_290,
  "KernelsShared": 810,
  "MLXServe": 1_240,
  "MCP": 2_020,
  "Media": 3_600,
  "Models": 10_500,
  "Pipeline": 3_400,
  "Platform": 4_430,
  "Sampling": 460,
  "Search": 4_120,
  "Server": 23_370,
  "Tokenizers": 5_340,
  "Vectors": 5_970,
  "Wire": 8_860,
  "mlxserve": 20,
]

/// Module → the modules it may import. `Tests/ArchitectureTests` reads this table and holds the sources to it.
let modules: [(name: String, imports: [String])] = [
  ("Platform", []),
  ("JSON", []),
  ("Sampling", []),
  ("HTTP", ["Platform"]),
  ("Media", ["Platform"]),
  ("Wire", ["Sampling", "JSON"]),
  ("Jinja", ["JSON"]),
  ("Tokenizers", ["JSON"]),
  ("Fetch", ["HTTP", "Platform"]),
  ("MCP", ["Fetch", "HTTP", "JSON", "Platform"]),
  ("Compute", ["KernelTypes", "Platform"] + builtKernels.map(\.name)),
  ("Checkpoint", ["Compute", "JSON", "Platform"]),
  ("Hub", ["Checkpoint", "Fetch", "JSON", "Platform"]),
  ("Conversion", ["Checkpoint", "Compute", "JSON", "Platform"]),
  ("Vectors", ["Compute", "KernelTypes", "Tokenizers", "JSON", "Platform"]),
  ("Search", ["Vectors", "JSON", "Platform"]),
  ("Grammar", ["Tokenizers", "JSON"]),
  ("Decoding", ["Grammar", "Tokenizers", "Sampling", "JSON"]),
  ("Chat", ["Grammar", "Jinja", "Tokenizers", "JSON"]),
  ("Models", ["Compute", "Checkpoint", "Media", "JSON", "Platform"]),
  (
    "Inference",
    [
      "Models", "Decoding", "Grammar", "Tokenizers", "Sampling", "Compute", "Checkpoint", "Media", "Platform",
    ]
  ),
  (
    "Pipeline",
    [
      "Inference", "Search", "Vectors", "Chat", "Decoding", "Grammar", "Tokenizers", "Sampling", "Checkpoint",
      "Compute", "Media", "JSON", "Platform",
    ]
  ),
  (
    "Server",
    [
      "Pipeline", "Inference", "Search", "Vectors", "Chat", "Decoding", "Grammar", "Tokenizers", "Wire",
      "Sampling", "Fetch",
      "Hub", "MCP", "Media", "HTTP", "JSON", "Platform",
    ]
  ),
  (
    "MLXServe",
    [
      "Server", "Search", "Vectors", "Pipeline", "Inference", "Chat", "Checkpoint", "Compute", "Decoding",
      "Models", "Wire", "Sampling", "Tokenizers", "Media", "HTTP", "JSON", "Platform",
    ]
  ),
  ("CAPI", ["MLXServe", "JSON", "Platform"]),
  (
    "CLI",
    [
      "Server", "Search", "Vectors", "Pipeline", "Inference", "Conversion", "Chat", "Checkpoint", "Compute",
      "Decoding", "Tokenizers",
      "Wire", "Sampling", "Fetch", "Hub", "MCP", "Media", "HTTP", "JSON", "Platform",
    ]
  ),
]

/// Modules that work on bytes and lanes. All others are under strict memory safety: a pointer in them would have to
/// say `unsafe`, and CI treats the warning as an error.
let lowLevel: Set = ["Platform", "HTTP", "Compute", "Checkpoint", "Decoding", "Vectors", "CAPI"]

/// Files beside the sources that are not the compiler's: of the chat page, packed into `PageFiles.swift`, and of lib_mlx.
let otherFiles = ["Server": ["Page/ui"], "CAPI": ["lib_mlx.h", "lib_mlx.map", "lib_mlx.pc"]]

let tuned: Set = [
  "Compute", "Decoding", "Grammar", "Tokenizers", "Media", "JSON", "Jinja", "Platform", "Vectors",
]

func dependencies(_ names: [String]) -> [Target.Dependency] { names.map { .init(stringLiteral: $0) } }

func speed(of module: String) -> [SwiftSetting] { tuned.contains(module) ? optimised : strict }

func safety(of module: String) -> [SwiftSetting] { lowLevel.contains(module) ? [] : [.strictMemorySafety()] }

/// `make library`: lib_mlx brings its Swift runtime along, which `--static-swift-stdlib` does for executables alone, and
/// shows nothing but its own functions, so that it can live beside another runtime. It stays loaded: its threads run in it.
#if os(Linux)
  let alone: [LinkerSetting] =
    Context.environment["MLXSERVE_LIBRARY"] == nil
    ? []
    : [
      .unsafeFlags(["-static-stdlib"]),
      .unsafeFlags(
        [
          "-s", "--gc-sections", "--version-script=\(Context.packageDirectory)/Sources/CAPI/lib_mlx.map",
          "-soname=liblib_mlx.so.1", "-z", "nodelete",
        ].flatMap { ["-Xlinker", $0] }),
    ]
#else
  let alone: [LinkerSetting] = []
#endif

/// Platform reads texts in other encodings with iconv, which is part of the C library on Linux, and a library of its own elsewhere.
func linking(of module: String) -> [LinkerSetting] {
  switch module {
  case "CAPI": alone
  case "Platform": [.linkedLibrary("iconv", .when(platforms: [.macOS, .iOS]))]
  default: []
  }
}

let kernelTargets: [Target] =
  [.target(name: "KernelTypes", swiftSettings: optimised)]
  + builtKernels.map { kernel in
    .target(
      name: kernel.name, dependencies: ["KernelTypes"], swiftSettings: kernelSettings(level: kernel.level))
  }

let moduleTargets: [Target] = modules.map { module in
  .target(
    name: module.name, dependencies: dependencies(module.imports),
    exclude: otherFiles[module.name, default: []],
    swiftSettings: speed(of: module.name) + safety(of: module.name),
    linkerSettings: linking(of: module.name))
}

/// The kernels of AVX-VNNI and of AMX with other products of bytes, for machines without them.
let kernelTwins =
  architecture == "x86_64"
  ? [(name: "KernelsVNNITwin", level: "haswell"), (name: "KernelsAMXTwin", level: "cascadelake")] : []

let twinTargets: [Target] = kernelTwins.map { twin in
  .target(
    name: twin.name, dependencies: ["KernelTypes"], path: "Tests/" + twin.name,
    swiftSettings: kernelSettings(level: twin.level))
}

func twins(of module: String) -> [String] { module == "Compute" ? kernelTwins.map(\.name) : [] }

/// `make quick M=Chat,Jinja` builds the tests of these modules alone; otherwise the first one builds those of all.
let tested = Context.environment["MLXSERVE_TESTS"]?.split(separator: ",").map(String.init)

func isTested(_ module: String) -> Bool { tested?.contains(module) ?? true }

let testTargets: [Target] = modules.filter { isTested($0.name) }.map { module in
  .testTarget(
    name: module.name + "Tests",
    dependencies: dependencies([module.name, "Support"] + module.imports + twins(of: module.name)),
    swiftSettings: speed(of: module.name))
}

let package = Package(
  name: "mlxserve",
  platforms: [.macOS(.v15), .iOS(.v18)],
  products: [
    .executable(name: "mlxserve", targets: ["mlxserve"]),
    // For Swift programs.
    .library(name: "MLXServe", targets: ["MLXServe"]),
    // For everything that can call C: `make library`.
    .library(name: "lib_mlx", type: .dynamic, targets: ["CAPI"]),
    .library(name: "lib_mlx-static", type: .static, targets: ["CAPI"]),
  ],
  targets: kernelTargets + moduleTargets + twinTargets + testTargets + [
    .executableTarget(name: "mlxserve", dependencies: ["CLI"], swiftSettings: strict),
    // What `docs/library.md` shows of the product MLXServe.
    .executableTarget(name: "chat-example", dependencies: ["MLXServe"], path: "docs/examples/swift/chat"),
    .executableTarget(name: "notes-example", dependencies: ["MLXServe"], path: "docs/examples/swift/notes"),
    // `make differential`: answers random cases, which a script compares with what others make of them.
    .executableTarget(
      name: "differential",
      dependencies: dependencies(["Grammar", "HTTP", "JSON", "Jinja", "Platform", "Tokenizers"]),
      path: "Tests/Differential",
      exclude: [
        "differential.py", "frames.py", "http_cases.py", "jinja_cases.py", "json_cases.py", "regex_cases.py",
      ],
      swiftSettings: strict),
    .target(
      name: "Support", dependencies: ["JSON", "Platform"], path: "Tests/Support", swiftSettings: optimised),
  ]
    + (isTested("Architecture")
      ? [
        .testTarget(
          name: "ArchitectureTests", dependencies: ["Support", "Platform"], swiftSettings: strict)
      ] : []))
