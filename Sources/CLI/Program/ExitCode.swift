// What the exit codes of the program mean; the manual page has the same table.

import Conversion
import Hub
import Platform

/// A download or a conversion that a signal has ended: what is there stays.
struct EndedBySignal: Error, CustomStringConvertible {
  let signal: Int32
  var words = "\(HubError.cancelled)"

  /// As a shell tells it.
  var code: Int32 { 128 + signal }
  var description: String { words }
}

enum ExitCode {
  /// Of a program that could not do what it was told; 2 is also how `UsageError` ends.
  static let success: Int32 = 0
  static let checkFailed: Int32 = 1
  static let usage: Int32 = 2
  /// `Signals` ends so when a mapped file was cut.
  static let cutModel: Int32 = 3
  static let access: Int32 = 5
  static let network: Int32 = 6
  static let noRoom: Int32 = 7
  static let damaged: Int32 = 8
  static let interrupted: Int32 = 130

  /// Code and meaning, for the manual page.
  static let meanings: [(code: Int32, words: String)] = [
    (success, "all went well"), (checkFailed, "a check found something that cannot be used"),
    (usage, "a flag or an input is wrong, or the model is not there"),
    (cutModel, "a model file was cut while it was in use"),
    (access, "the hub refuses access: terms to accept, or a token"),
    (network, "the hub cannot be reached, or curl is missing"), (noRoom, "the disk has too little room"),
    (damaged, "what came from the hub is not what was published"), (interrupted, "ended by Ctrl-C"),
    (143, "ended by SIGTERM"),
  ]

  static func of(_ error: any Error) -> Int32 {
    if let ended = error as? EndedBySignal { return ended.code }
    switch error as? ConversionError {
    case .noRoom, .file(.file(_, _, ENOSPC)), .file(.file(_, _, EDQUOT)): return noRoom
    default: break
    }
    guard let error = error as? HubError else { return usage }
    switch error {
    case .gated, .badToken, .forbidden: return access
    case .noProgram, .offline, .notTheHub, .status, .unreachable, .badAnswer, .badRedirect: return network
    case .noRoom, .disk(.file(_, _, ENOSPC)), .disk(.file(_, _, EDQUOT)): return noRoom
    case .damaged: return damaged
    case .cancelled: return interrupted
    case .badName, .badSetting, .notFound, .noRevision, .noFile, .disabled, .unsafePath, .unsuitable,
      .noMemory,
      .disk, .inUse:
      return usage
    }
  }
}
