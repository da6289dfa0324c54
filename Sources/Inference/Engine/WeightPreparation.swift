// A model's weights put into the order of the kernels once and for all: later processes map what this one has written.

package import Checkpoint
package import Compute
import Models
import Platform

/// Makes the file of a model's prepared weights, and finds it.
package enum WeightPreparation {
  /// Writes the weights of a folder in the order of the configuration's kernels.
  ///
  /// - Parameters:
  ///   - folder: where prepared weights are kept.
  ///   - limit: most bytes of all that is there; what was prepared longest ago makes room.
  ///   - progress: told the bytes that are written, and how many there will be.
  /// - Throws: `InferenceError.modelLoading` for a folder that cannot be served, else `PreparingError`.
  package static func run(
    _ model: ModelFolder, _ configuration: EngineConfiguration, folder: PreparedFolder, limit: Int,
    progress: (_ done: Int, _ all: Int) -> Void
  ) throws -> PreparedFile {
    let compute = try configuration.makeContext()
    let identity = model.mappedFiles.identity
    settle(model.mappedFiles)
    guard let arena = compute.makeArena(identity: identity, remembers: true) else {
      throw PreparingError.noPanels(isa: compute.isa?.rawValue ?? "reference")
    }
    // What holds the weights has to outlive the copying.
    let bound: Any
    do {
      bound =
        model.task == .chat
        ? try ModelFamily.load(model, compute: compute, arena: arena)
        : try EncoderFamily.load(model, compute: compute, arena: arena)
    } catch {
      throw InferenceError.modelLoading(String(describing: error))
    }
    defer { withExtendedLifetime(bound) {} }
    let file = try compute.prepare(
      arena, identity: identity, folder: folder, limit: limit, progress: progress)
    // Read back, from the disk where that is possible: the next process finds it in memory, in large pages.
    guard let layout = compute.panelLayout,
      PreparedPanels(folder: folder.path, identity: identity, layout: layout)?.isWhole == true
    else { throw PreparingError.damaged(path: file.path) }
    return file
  }

  /// What was prepared of a folder for the configuration's kernels; nil where nothing was that fits.
  package static func prepared(_ model: ModelFolder, _ configuration: EngineConfiguration) -> PreparedPanels?
  {
    guard let folder = configuration.preparedFolder, let compute = try? configuration.makeContext(),
      let layout = compute.panelLayout
    else { return nil }
    return PreparedPanels(folder: folder, identity: model.mappedFiles.identity, layout: layout)
  }

  /// Waits until a later change of the files is sure to be seen in their times.
  private static func settle(_ files: WeightFiles) {
    let left = files.lastChange + KnownWeights.settled - Instant.wallNanoseconds
    guard left > 0 else { return }
    // At most those 2.5 s.
    usleep(UInt32(min(left, KnownWeights.settled) / 1000))
  }
}
