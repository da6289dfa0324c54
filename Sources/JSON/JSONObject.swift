// An ordered JSON object: insertion order is kept, the last of duplicate keys wins (as in Python).

/// Members in the order they were first written.
package struct JSONObject: Sendable, Equatable {
  package private(set) var entries: [(key: String, value: JSONValue)] = []
  /// Position of each key in `entries`; built only for objects too large for a linear search.
  private var positions: [ByteKey: Int] = [:]

  /// Up to this many members a linear search over the entries beats hashing.
  private static let indexedFrom = 12

  package init() {}

  package init(_ members: some Sequence<(String, JSONValue)>) {
    for (key, value) in members { self[key] = value }
  }

  package var count: Int { entries.count }
  package var isEmpty: Bool { entries.isEmpty }
  package var keys: [String] { entries.map(\.key) }

  /// The value of `key`; assigning nil removes the member, O(n).
  package subscript(key: String) -> JSONValue? {
    get { position(of: key).map { entries[$0].value } }
    set {
      switch (position(of: key), newValue) {
      case (let at?, let value?): entries[at].value = value
      case (nil, let value?): append(key, value)
      case (let at?, nil):
        entries.remove(at: at)
        rebuildPositions()
      case (nil, nil): break
      }
    }
  }

  private func position(of key: String) -> Int? {
    if positions.isEmpty {
      // By index: a closure would be handed copies of key and value.
      return entries.indices.first { entries[$0].key.hasSameBytes(as: key) }
    }
    return positions[ByteKey(key)]
  }

  private mutating func append(_ key: String, _ value: JSONValue) {
    entries.append((key, value))
    if !positions.isEmpty {
      positions[ByteKey(key)] = entries.count - 1
    } else if entries.count >= Self.indexedFrom {
      rebuildPositions()
    }
  }

  private mutating func rebuildPositions() {
    positions = [:]
    guard entries.count >= Self.indexedFrom else { return }
    for (at, entry) in entries.enumerated() { positions[ByteKey(entry.key)] = at }
  }

  /// Equal when both have the same members, in any order.
  package static func == (a: JSONObject, b: JSONObject) -> Bool {
    a.count == b.count && a.entries.allSatisfy { b[$0.key] == $0.value }
  }
}

/// A string that hashes and compares by its UTF-8 bytes: `é` and `e` + accent stay two different keys.
package struct ByteKey: Hashable, Sendable {
  package let string: String

  package init(_ string: String) { self.string = string }

  package static func == (a: ByteKey, b: ByteKey) -> Bool {
    a.string.hasSameBytes(as: b.string)
  }

  package func hash(into hasher: inout Hasher) {
    var copy = string
    copy.withUTF8 { unsafe hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
  }
}

extension String {
  /// Whether both have the same UTF-8 bytes: `é` and `e` + accent have not.
  package func hasSameBytes(as other: String) -> Bool {
    // Most differ in their lengths.
    guard utf8.count == other.utf8.count else { return false }
    // In place: the views themselves would take one byte after the other through their indices.
    let isSame = unsafe utf8.withContiguousStorageIfAvailable { a in
      unsafe other.utf8.withContiguousStorageIfAvailable { b in unsafe a.elementsEqual(b) }
    }
    return (isSame ?? nil) ?? utf8.elementsEqual(other.utf8)
  }
}
