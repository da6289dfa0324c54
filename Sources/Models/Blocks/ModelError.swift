// Why a checkpoint is not a model we can run, naming the config key or tensor.

package import Checkpoint
package import Compute

/// Found while a checkpoint is bound to its family, before anything is computed. Tensors of the wrong shape or type
/// are `CheckpointError`s within.
package enum ModelError: Error, CustomStringConvertible {
  case unsupportedFamily(type: String, supported: [String])
  /// A family that is known and not run.
  case refusedFamily(type: String, reason: String, supported: [String])
  case missingKey(String)
  /// `found` and `expected` in words: `a string`, `an integer in 1...4096`.
  case invalidValue(key: String, found: String, expected: String)
  /// A valid setting that has no implementation here.
  case unsupportedSetting(key: String, value: String, supported: String)
  case missingTensor(name: String, because: String)
  /// An image or an audio clip that the encoder cannot take.
  case unusableMedia(String)
  case checkpoint(CheckpointError)
  case compute(ComputeError)

  package var description: String {
    switch self {
    case .unsupportedFamily(let type, let supported):
      "config.json: model_type '\(type)' is not supported. Supported: \(supported.joined(separator: ", "))."
    case .refusedFamily(let type, let reason, let supported):
      "config.json: model_type '\(type)' is not supported: \(reason). "
        + "Supported: \(supported.joined(separator: ", "))."
    case .missingKey(let key):
      "config.json: '\(key)' is missing. Re-download the checkpoint or add the key."
    case .invalidValue(let key, let found, let expected):
      "config.json: '\(key)' is \(found), expected \(expected). Re-download the checkpoint or fix the key."
    case .unsupportedSetting(let key, let value, let supported):
      "config.json: \(key) = \(value) is not supported. Supported: \(supported)."
    case .missingTensor(let name, let because):
      "the checkpoint has no tensor '\(name)': \(because). Re-download the checkpoint."
    case .unusableMedia(let problem): "the image or audio clip cannot be encoded: \(problem)"
    case .checkpoint(let error): error.description
    case .compute(let error): error.description
    }
  }
}

/// The value of `body`, whose error becomes one of this module.
func loading<Result>(
  _ body: @autoclosure () throws(CheckpointError) -> Result
) throws(ModelError) -> Result {
  do { return try body() } catch { throw .checkpoint(error) }
}

/// As `loading`.
func computing<Result>(
  _ body: @autoclosure () throws(ComputeError) -> Result
) throws(ModelError) -> Result {
  do { return try body() } catch { throw .compute(error) }
}
