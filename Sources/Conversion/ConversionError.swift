// What keeps a model from being converted: one line that says what, where, and what to do about it.

package import Checkpoint
package import Compute
package import Platform

/// Thrown before anything is written, or while it is: what has been written stays for the next run.
package enum ConversionError: Error, CustomStringConvertible {
  case checkpoint(CheckpointError)
  case compute(ComputeError)
  case file(PlatformError)
  /// Flags that contradict each other or the model.
  case badOption(String)
  /// Rounding again what is rounded has to be asked for.
  case quantized(module: String, how: String)
  /// A tensor that no layout of MLX's has.
  case unsupported(tensor: String, reason: String)
  case exists(path: String)
  /// A folder of an unfinished conversion with other options, or of another model.
  case otherConversion(path: String)
  case busy(path: String)
  case noRoom(needed: Int, free: Int, folder: String)
  /// The source was changed while it was read.
  case changed(path: String)
  /// A signal ended it.
  case ended

  package var description: String {
    switch self {
    case .checkpoint(let error): "\(error)"
    case .compute(let error): "\(error)"
    case .file(let error): "\(error)"
    case .badOption(let problem): problem
    case .quantized(let module, let how):
      "\(module) is quantized already (\(how)), and rounding it again loses more: say --requantize to do it, or leave out "
        + "--bits, --group-size, --mode, --recipe and --module to keep its numbers"
    case .unsupported(let tensor, let reason): "\(tensor): \(reason)"
    case .exists(let path): "\(path) exists: name another folder, or delete it"
    case .otherConversion(let path):
      "\(path) is part of another conversion, of other files or with other options: delete it, or name another output"
    case .busy(let path): "another process writes \(path)"
    case .noRoom(let needed, let free, let folder):
      "the model needs \(MemoryLimit.words(needed)) in \(folder), which has \(MemoryLimit.words(free)) free"
    case .changed(let path): "\(path) has been changed while it was read: start again"
    case .ended: "ended; the same command goes on from here"
    }
  }
}
