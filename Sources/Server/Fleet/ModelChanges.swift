// What has happened to the models of a fleet lately, in order, for those who follow it.

/// A model that has another status, or of which more is here.
struct ModelChange: Equatable {
  enum Kind: Equatable {
    /// `loading`, `loaded` or `unloaded`; whether that is because loading it has failed.
    case status(String, failed: Bool)
    /// Bytes of each file that is being fetched.
    case download([File])
  }

  struct File: Equatable {
    let path: String
    let done: Int
    let total: Int
  }

  let model: String
  let kind: Kind
}

/// The newest changes, numbered from 0. Pure.
struct ModelChanges {
  private static let kept = 256

  /// How many there have been.
  private(set) var count = 0
  private var newest: [ModelChange] = []

  mutating func append(_ change: ModelChange) {
    if newest.count == Self.kept { newest.removeFirst() }
    newest.append(change)
    count += 1
  }

  /// Those from a number on, as far as they are still known.
  func since(_ number: Int) -> [ModelChange] { Array(newest.suffix(max(0, count - number))) }
}
