// API keys: how they are read, how one that is presented is compared, and the names that logs know them by.

package import HTTP
import Platform

/// Why keys could not be read. Never shows one.
package enum KeyError: Error, Equatable, CustomStringConvertible {
  /// What stands in the line is never told.
  case badLine(path: String, line: Int, problem: String)
  case noKey(path: String)
  case tooMany(path: String, limit: Int)
  case badKey(source: String, problem: String)

  package var description: String {
    switch self {
    case .badLine(let path, let line, let problem): "\(path), line \(line): \(problem)"
    case .noKey(let path): "\(path) holds no key: write one a line, or 'name: key'"
    case .tooMany(let path, let limit): "\(path) holds more than \(limit) keys"
    case .badKey(let source, let problem): "the key of \(source) \(problem)"
    }
  }
}

/// A set of keys. Only their SHA-256 digests are kept.
package struct KeyRing: Sendable, Equatable {
  /// What a key may do.
  private enum Role: String, CaseIterable {
    /// All, also what concerns other clients: load and unload models, read counters.
    case admin
    case user
  }

  private struct Key: Sendable, Equatable {
    let digest: [UInt8]
    let client: ClientIdentity
    /// Nil where none is written.
    let role: Role?
  }

  private static let fileBytes = 1 << 20
  private static let keyLimit = 10_000
  private static let keyBytes = 1...1024
  private static let nameBytes = 1...64

  private var keys: [Key] = []
  /// Whether a file says of a key that it is an admin's: then keys of which it says nothing are not.
  private var namesAdmins = false

  package init() {}

  package var isEmpty: Bool { keys.isEmpty }
  package var count: Int { keys.count }

  /// Adds a key that came from the command line or the environment.
  ///
  /// - Parameter source: what it came from, for the error.
  package mutating func add(_ key: String, source: String) throws(KeyError) {
    let bytes = Array(key.utf8)
    if let problem = Self.problem(bytes[...]) { throw .badKey(source: source, problem: problem) }
    // Whoever starts the server runs it.
    append(bytes, Owner(role: .admin))
  }

  /// Adds the keys of another ring.
  package mutating func add(_ other: KeyRing) {
    keys += other.keys
    namesAdmins = namesAdmins || other.namesAdmins
  }

  /// Reads a file with one key a line: `key`, `name: key` or `name role: key`. Empty lines and those that begin with `#`
  /// mean nothing, nor does the mark that some editors put before UTF-8.
  ///
  /// - Throws: `KeyError` or `PlatformError`; neither shows a key.
  package init(file path: String) throws {
    let bytes = File.withoutMark(try File.read(path, limit: Self.fileBytes))
    if bytes.contains(0) {
      throw KeyError.badLine(path: path, line: 1, problem: "this is not UTF-8 text: save the file as UTF-8")
    }
    for (index, line) in bytes.split(separator: 0x0A, omittingEmptySubsequences: false).enumerated() {
      let text = Self.trimmed(line)
      guard let first = text.first, first != UInt8(ascii: "#") else { continue }
      let (owner, key) = try Self.parts(text) { problem in
        KeyError.badLine(path: path, line: index + 1, problem: problem)
      }
      if let problem = Self.problem(key) {
        throw KeyError.badLine(path: path, line: index + 1, problem: "the key \(problem)")
      }
      guard keys.count < Self.keyLimit else { throw KeyError.tooMany(path: path, limit: Self.keyLimit) }
      append(Array(key), owner)
      namesAdmins = namesAdmins || owner.role == .admin
    }
    guard !keys.isEmpty else { throw KeyError.noKey(path: path) }
  }

  /// Whose key this is; nil when it is nobody's.
  ///
  /// Takes the same time for every wrong key: digests are compared whole, with every key of the ring.
  package func client(presenting key: some Sequence<UInt8>) -> ClientIdentity? {
    let digest = SHA256.digest(Array(key))
    var found: ClientIdentity?
    for key in keys {
      var difference: UInt8 = 0
      for (a, b) in zip(key.digest, digest) { difference |= a ^ b }
      if difference == 0 {
        found = identity(of: key)
      }
    }
    return found
  }

  /// The numbers of all keys.
  package var numbers: Set<UInt64> { Set(keys.map(\.client.key)) }

  /// Keys of this ring that hold no longer in a newer one, are another client's there, or may do less: what runs by them has
  /// no right to.
  package func numbers(endedBy newer: KeyRing) -> Set<UInt64> {
    let (now, later) = (meaning, newer.meaning)
    return Set(
      now.filter { number, client in
        guard let next = later[number] else { return true }
        return next.number != client.number || client.isAdmin && !next.isAdmin
      }.keys)
  }

  /// Whose each key is, by its number.
  private var meaning: [UInt64: ClientIdentity] {
    Dictionary(keys.map { ($0.client.key, identity(of: $0)) }, uniquingKeysWith: { $1 })
  }

  private func identity(of key: Key) -> ClientIdentity {
    var client = key.client
    client.isAdmin = key.role.map { $0 == .admin } ?? !namesAdmins
    return client
  }

  private struct Owner {
    var name: String?
    var role: Role?
  }

  private mutating func append(_ key: [UInt8], _ owner: Owner) {
    let digest = SHA256.digest(key)
    let number = ClientIdentity.number(digest)
    // Keys of one name are one client, so that a new key can replace an old one while both hold.
    let client = owner.name.map { ClientIdentity.number(of: "name " + $0) } ?? number
    let shown = owner.name ?? "key-" + SHA256.hexadecimal(Array(digest.prefix(4)))
    keys.append(
      Key(
        digest: digest, client: ClientIdentity(number: client, name: shown, key: number), role: owner.role))
  }

  /// `name: key` needs the space, so a key may hold colons; a name alone has an empty key. A word between name and colon
  /// is a role.
  private static func parts(
    _ line: ArraySlice<UInt8>, error: (String) -> KeyError
  ) throws(KeyError) -> (Owner, key: ArraySlice<UInt8>) {
    guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return (Owner(), line) }
    let words = line[..<colon].split(whereSeparator: isBlank)
    let rest = line[(colon + 1)...]
    guard let name = words.first, words.count <= 2, nameBytes.contains(name.count),
      words.allSatisfy({ $0.allSatisfy(isNameByte) }), line[colon - 1] != 0x20,
      rest.first.map(isBlank) ?? true
    else { return (Owner(), line) }
    var owner = Owner(name: String(decoding: name, as: UTF8.self))
    if words.count == 2 {
      let word = String(decoding: words[1], as: UTF8.self)
      guard let role = Role(rawValue: word) else {
        throw error("after the name stands no role: write 'admin' or 'user', or nothing")
      }
      owner.role = role
    }
    return (owner, trimmed(rest))
  }

  /// Why nobody could send this as a key; nil when somebody can.
  private static func problem(_ key: ArraySlice<UInt8>) -> String? {
    guard keyBytes.contains(key.count) else {
      return "has \(key.count) bytes; it needs \(keyBytes.lowerBound) to \(keyBytes.upperBound)"
    }
    return key.contains { $0 <= 0x20 || $0 == 0x7F } ? "has a space or a control character in it" : nil
  }

  private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0D }

  private static func isNameByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
      true
    default: false
    }
  }

  private static func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    var rest = bytes.drop(while: isBlank)
    while let last = rest.last, isBlank(last) { rest.removeLast() }
    return rest
  }
}

extension ClientIdentity {
  /// The number of whoever this text stands for; never 0.
  static func number(of text: String) -> UInt64 { number(SHA256.digest(Array(text.utf8))) }

  fileprivate static func number(_ digest: [UInt8]) -> UInt64 {
    max(1, digest.prefix(8).reduce(0) { $0 << 8 | UInt64($1) })
  }
}
