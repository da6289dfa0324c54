// From flags to the configuration of an engine, and to a running model.

import Compute
import Inference
import Media
import Pipeline
import Platform
import Sampling

enum Loading {
  /// - Parameter path: the model's folder; nil for the one that `--model` names, which is downloaded if it is not here.
  static func engineConfiguration(_ flags: ParsedFlags, path: String? = nil) throws -> EngineConfiguration {
    let folder: String
    if let path {
      folder = path
    } else {
      guard let name = flags[.model] else { throw UsageError.missingArgument("MODEL") }
      folder = try ModelLocator.folder(name, flags)
    }
    var configuration = EngineConfiguration(
      modelPath: folder, threads: flags[.threads] ?? Machine.cores)
    configuration.isa = try flags.word(.isa)
    configuration.computeMode = try flags.word(.compute) ?? .fast
    configuration.interleavesWeights = try flags.word(.weights) != WeightPlace.mapped
    configuration.preparedFolder = flags.preparedFolder
    configuration.kvFormat = try flags.word(.kvCacheType)
    configuration.speculates = try flags.word(.speculate) != Speculation.off
    configuration.prefixCacheBytes = flags[.prefixCache].map { $0 << 20 }
    configuration.stepDelayMilliseconds = UInt32(flags[.stepDelayMs] ?? 0)
    configuration.media = mediaOptions(flags)
    configuration.useReference = flags[.referenceKernels]
    configuration.maxContext = flags[.maxContext]
    configuration.queueLimit = flags[.queueLimit] ?? configuration.queueLimit
    if let milliseconds = flags[.maxStall] { configuration.maxStall = Double(milliseconds) / 1000 }
    configuration.prefixCacheFolder = flags[.prefixCacheDir]
    if let megabytes = flags[.prefixCacheDirSize] {
      configuration.prefixCacheDiskBytes = megabytes << 20
    }
    configuration.sharesPrefixes = try flags.word(.prefixCacheScope) != PrefixScope.tenant
    configuration.cutsAnyVectors = flags[.allowTruncation]
    configuration.defaultSampling = try flags.word(.sampling) ?? .local
    configuration.version = Version.text
    configuration.maxSequences = flags[.maxSequences] ?? configuration.maxSequences
    return configuration
  }

  /// Which encoders of images and audio are wanted, and when their weights are read.
  static func mediaOptions(_ flags: ParsedFlags) -> MediaOptions {
    var options = MediaOptions()
    options.vision = !flags[.noVision]
    options.audio = !flags[.noAudio]
    options.isLazy = !flags[.noLazyEncoders]
    return options
  }

  /// Opens the folder and starts the engine; large folders show progress on a terminal.
  ///
  /// - Parameter change: what the command wants otherwise.
  static func model(
    _ flags: ParsedFlags, _ change: (inout EngineConfiguration) -> Void = { _ in }
  ) throws -> (model: LoadedModel, engine: EngineClient) {
    var configuration = try engineConfiguration(flags)
    change(&configuration)
    return try Terminal.showingProgress("loading \(configuration.modelPath)") {
      try LoadedModel.load(configuration)
    }
  }
}
