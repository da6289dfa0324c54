// Why a program has no model or no server: one code for programs, and words for people.

import Checkpoint
import HTTP
import Inference
import JSON
import Media
import Models
import Pipeline
import Platform
import Server

extension MLXServeError {
  /// What loading a folder threw.
  init(loading error: any Error) {
    switch error {
    case let error as MLXServeError: self = error
    case let error as CheckpointError: self.init(Self.code(of: error), "\(error)")
    case let error as InferenceError: self.init(Self.code(of: error), "\(error)")
    case is PlatformError: self.init(.failed, "\(error)")
    // The tokenizer's file, the template and the recommended settings are files of the folder.
    default: self.init(.modelCorrupt, "\(error)")
    }
  }

  private static func code(of error: CheckpointError) -> Code {
    switch error {
    case .badFolder: .modelNotFound
    case .missingFile(_, let name, _):
      name.utf8.elementsEqual("config.json".utf8) ? .modelNotFound : .modelCorrupt
    case .file(.file(_, _, let code)): [EACCES, EPERM].contains(code) ? .modelNotFound : .modelCorrupt
    case .foreignFormat, .foreignQuantization: .modelUnsupported
    case .file, .json, .badValue, .badHeader, .badGGUF, .duplicateTensor, .missingTensor, .wrongShape,
      .wrongType, .badQuantization, .badAdapter:
      .modelCorrupt
    }
  }

  private static func code(of error: InferenceError) -> Code {
    switch error {
    case .modelTooLarge, .memoryTooSmall, .outOfMemory: .outOfMemory
    case .contextTooLarge: .invalidArgument
    // The family is known by then: what does not fit is the checkpoint.
    default: .modelCorrupt
    }
  }

  /// What opening a listener threw.
  init(listening error: SocketError) {
    switch error {
    case .placeTaken: self.init(.addressInUse, "\(error)", setting: "port")
    case .cannotListen, .cannotListenOnPath: self.init(.invalidArgument, "\(error)", setting: "host")
    case .clientGone, .clientTooSlow: self.init(.failed, "\(error)")
    }
  }

  /// - Throws: for a folder whose family this version has no code for.
  static func checkFamily(of folder: ModelFolder) throws(MLXServeError) {
    guard let type = folder.config["model_type"]?.stringValue else { return }
    let supported = ModelInspection.supportedTypes
    guard !supported.contains(type) else { return }
    throw MLXServeError(
      .modelUnsupported, "\(ModelError.unsupportedFamily(type: type, supported: supported))")
  }
}

extension ModelOptions {
  /// - Throws: for what cannot be meant.
  func check() throws(MLXServeError) {
    if let id, !(1...200).contains(id.utf8.count) || id.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) {
      throw MLXServeError(
        .invalidArgument, "the name of a model needs 1 to 200 bytes without control characters",
        setting: "model_id")
    }
    guard (1...256).contains(maxSequences) else {
      throw MLXServeError(
        .invalidArgument, "max_sequences is a number from 1 to 256", setting: "max_sequences")
    }
    if let maxContext, maxContext < 1 {
      throw MLXServeError(.invalidArgument, "max_context is a number of tokens", setting: "max_context")
    }
  }
}

extension ServerOptions {
  /// - Throws: for what cannot be meant, and for a server that others could use though nobody has said so.
  func check() throws(MLXServeError) {
    guard (0...65535).contains(port) else {
      throw MLXServeError(.invalidArgument, "a port is a number from 0 to 65535", setting: "port")
    }
    guard HostRules.isLoopback(host) || Authority.isNumeric(host) else {
      throw MLXServeError(
        .invalidArgument, "the host is not a numeric address of this machine, such as 127.0.0.1 or ::1",
        setting: "host")
    }
    guard HostRules.isLoopback(host) || !apiKeys.isEmpty else {
      throw MLXServeError(
        .invalidArgument, "\(host) lets other machines in: give an api_key that they must send",
        setting: "host")
    }
    if let queueLimit, !(0...100_000).contains(queueLimit) {
      throw MLXServeError(
        .invalidArgument, "queue_limit is a number from 0 to 100000", setting: "queue_limit")
    }
    try ModelOptions(id: modelID).check()
  }

  func limits(for model: LoadedModel) -> Limits {
    var limits = Limits()
    if MediaKind.allCases.contains(where: model.media.takes) { limits.bodyBytes = BodySize.media }
    if model.transcriber != nil { limits.bodyBytes = BodySize.recording }
    limits.bufferedBodyBytes = max(limits.bufferedBodyBytes, limits.bodyBytes)
    return limits
  }
}
