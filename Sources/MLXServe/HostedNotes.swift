// Vectors of texts, and a folder that is searched with them, for programs that hold an embedding model.

import Inference
import Pipeline
import Platform
import Search
import Vectors

extension HostedModel {
  /// Vectors of length 1, in the order of the texts. Blocks.
  func embed(_ texts: [String], as use: TextUse, isUnwanted: () -> Bool) throws -> [[Float]] {
    guard let embedder = model.embedder, embedder.service.limits.labels == 0 else { throw makesNoVectors }
    var options = Embedder.Options()
    options.prompt =
      switch use {
      case .plain: .usual
      case .question: .query
      case .passage: .document
      }
    return try working {
      try embedder.embed(texts.map { .text($0) }, options, isUnwanted: isUnwanted).vectors
    }
  }

  fileprivate var makesNoVectors: MLXServeError {
    MLXServeError(
      .modelUnsupported,
      "\(id) makes no vectors: load an embedding model, such as all-MiniLM-L6-v2, for this")
  }
}

/// The index of a folder and the model that fills it. Used from any thread.
final class HostedNotes: Sendable {
  private let hosted: HostedModel
  private let folder: String
  private let index: VectorIndex
  private let encoder: ModelEncoder

  init(_ hosted: HostedModel, folder: String, index place: String) throws(MLXServeError) {
    guard let encoder = ModelEncoder(hosted.model, isBackground: false) else { throw hosted.makesNoVectors }
    guard let folder = File.resolved(folder), File.isDirectory(folder) else {
      throw MLXServeError(.invalidArgument, "there is no folder \(folder)", setting: "folder")
    }
    (self.hosted, self.folder, self.encoder) = (hosted, folder, encoder)
    do {
      try File.makeFolders(place)
      index = try VectorIndex(
        folder: "\(place)/\(encoder.fingerprint.prefix(16))", fingerprint: encoder.fingerprint,
        dimensions: encoder.dimensions)
    } catch {
      throw MLXServeError(.failed, "\(error)", setting: "index")
    }
  }

  func update(isUnwanted: () -> Bool) throws -> NotesUpdate {
    var rules = FolderIndex.Rules()
    rules.split = .notes(room: encoder.room)
    let report = try hosted.working {
      try FolderIndex(folder, index: index, encoder: encoder, rules: rules).update(
        isUnwanted: isUnwanted)
    }
    return NotesUpdate(read: report.indexed, removed: report.removed, skipped: report.skipped)
  }

  func search(_ question: String, limit: Int, isUnwanted: () -> Bool) throws -> [Note] {
    var query = SearchQuery([question])
    query.limit = limit
    query.explains = true
    let start = Instant.now
    let answer = try hosted.working {
      try HybridSearch(index.view, encoder: encoder, memory: hosted.makeLoan()).run(
        query, clock: { Instant.now.seconds(since: start) }, isUnwanted: isUnwanted)
    }
    if let cut = answer.cut { Log.info(cut.words) }
    return answer.results.map { result in
      Note(
        path: result.passage.document.key, text: String(decoding: result.passage.text, as: UTF8.self),
        sentence: result.why?.sentence?.text, score: Double(result.score), why: result.why?.summary ?? "")
    }
  }
}
