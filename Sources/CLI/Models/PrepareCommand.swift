// `mlxserve prepare`: a model's weights in the order of this machine's kernels, so that later starts need not copy them.

import Checkpoint
import Compute
import Hub
import Inference
import Platform

enum PrepareCommand {
  /// Bytes of all prepared weights, unless told otherwise.
  private static let usualLimit = 64 << 30

  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    var flags = flags
    if flags[.model] == nil { flags.set(.model, to: try flags.argument("MODEL")) }
    let configuration = try Loading.engineConfiguration(flags)
    guard let path = configuration.preparedFolder else {
      throw UsageError.missingFlag("prepared-dir", hint: "there is no home directory to keep them in")
    }
    let model = try ModelFolder(path: configuration.modelPath)
    let folder = PreparedFolder(path: path)
    if flags[.remove] {
      let freed = try folder.remove(identity: model.mappedFiles.identity)
      Terminal.print(
        freed > 0 ? "freed \(Size.words(freed))" : "nothing was prepared of \(Terminal.safe(model.name))")
      return ExitCode.success
    }
    try File.makeFolders(path)
    let start = Instant.now
    var bar = ProgressBar()
    let file = try WeightPreparation.run(
      model, configuration, folder: folder,
      limit: flags[.preparedDirSize].map { $0 << 20 } ?? usualLimit
    ) { done, all in
      bar.show(done, of: all, ["\(Size.words(done)) of \(Size.words(all))"])
    }
    bar.clear()
    Terminal.printError(
      "prepared \(file.matrices) matrices of \(Terminal.safe(model.name)), \(Size.words(file.bytes)), in "
        + "\(fixed(Instant.now.seconds(since: start))) s; every later start uses them")
    Terminal.print(file.path)
    return ExitCode.success
  }
}

extension ParsedFlags {
  /// Where prepared weights are kept; nil without a home.
  var preparedFolder: String? {
    if let folder = self[.preparedDir] { return folder }
    return Environment.cacheFolder.map { $0 + "/mlxserve/prepared" }
  }
}
