// Which files hold the weights, by their names and the index: one rule for a folder that is opened or checked, and for a
// repository that is fetched.

package import JSON

/// The weight files among the files of a folder.
///
/// - With `model.safetensors.index.json` they are the files that it names. Converters have copied the index of the
///   model that they converted, and mergers have forgotten a file in it, so the numbers of the files themselves come
///   first: where a file of the index is absent, `model.safetensors` or a numbered set without gaps
///   (`model-00001-of-00003.safetensors` and so on) is taken instead; where the index leaves out a file of such a set,
///   that file is taken too.
/// - Without an index it is `model.safetensors`, else all that are called `model*`, else `weights*` as early MLX
///   conversions have it, else all others but adapters and second copies.
package struct WeightFileNames: Sendable, Equatable {
  /// Sorted by their bytes.
  package let names: [String]
  /// What was wrong with the index, as the end of a sentence; nil when it was followed, or there is none.
  package let note: String?

  /// Why there is no set of files.
  package enum Fault: Error, Equatable {
    case none
    /// A file that the index names, or that the numbers of the others ask for.
    case absent(String, isListed: Bool)
  }

  package static let indexName = "model.safetensors.index.json"
  private static let ending = ".safetensors"
  private static let single = "model.safetensors"

  /// - Parameters:
  ///   - files: names in the folder, in any order.
  ///   - listed: names that the index gives, repeated or not; empty without an index.
  package init(of files: [String], listed: [String]) throws(Fault) {
    let files = Self.sorted(files.filter(Self.isWeightFile))
    let listed = Self.sorted(listed)
    let present = Set(files.map { ByteKey($0) })
    let whole = Self.numberedSets(files).filter(\.isWhole).map(\.names)
    let hasSingle = present.contains(ByteKey(Self.single))
    guard !listed.isEmpty else {
      names = hasSingle ? [Self.single] : try Self.unlisted(files)
      note = nil
      return
    }
    if let absent = listed.first(where: { !present.contains(ByteKey($0)) }) {
      guard let instead = hasSingle ? [Self.single] : whole.first else {
        throw .absent(absent, isListed: true)
      }
      names = instead
      note =
        "\(Self.indexName) names \(absent), which is not there; \(instead.count == 1 ? instead[0] : "\(instead[0]) to -of-\(instead.count)") "
        + "is complete by its own numbers and taken instead"
      return
    }
    let known = Set(listed.map { ByteKey($0) })
    let rest = whole.filter { $0.contains { known.contains(ByteKey($0)) } }.joined()
      .filter { !known.contains(ByteKey($0)) }
    names = Self.sorted(listed + rest)
    note = rest.first.map {
      "\(Self.indexName) leaves out \($0), which its number makes part of the weights: it is taken too"
    }
  }

  /// The names that the `weight_map` of an index gives, whatever they are.
  package static func listed(by index: JSONValue?) -> [String] {
    (index?["weight_map"]?.objectValue?.entries ?? []).compactMap(\.value.stringValue)
  }

  /// In the folder itself, visible, and with the ending of weights.
  package static func isWeightFile(_ name: String) -> Bool {
    let bytes = name.utf8
    return (ending.utf8.count + 1...255).contains(bytes.count) && bytes.first != UInt8(ascii: ".")
      && !bytes.contains { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "\\") || $0 < 0x20 }
      && bytes.reversed().starts(with: ending.utf8.reversed())
  }

  private static func unlisted(_ files: [String]) throws(Fault) -> [String] {
    func starting(_ prefix: String) -> [String] { files.filter { $0.utf8.starts(with: prefix.utf8) } }
    let others = files.filter { name in
      !["adapter", "consolidated"].contains { name.utf8.starts(with: $0.utf8) }
    }
    guard let found = [starting("model"), starting("weights"), others].first(where: { !$0.isEmpty }) else {
      throw .none
    }
    if let gap = numberedSets(found).lazy.compactMap(\.firstAbsent).first {
      throw .absent(gap, isListed: false)
    }
    return found
  }

  private static func sorted(_ names: [String]) -> [String] {
    Set(names.map { ByteKey($0) }).map(\.string).sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
  }
}

// MARK: - Numbers

extension WeightFileNames {
  /// Files of one name that differ in the first number of `-00001-of-00003.safetensors`.
  private struct NumberedSet {
    /// What stands before the number, and what behind it.
    let start, end: String
    let total, digits: Int
    var names: [String] = []
    var numbers: Set<Int> = []

    var isWhole: Bool { numbers.count == total }

    /// The first file that the numbers ask for and that is not there.
    var firstAbsent: String? {
      guard !isWhole, let number = (1...total).first(where: { !numbers.contains($0) }) else { return nil }
      let text = String(number)
      return start + String(repeating: "0", count: max(0, digits - text.utf8.count)) + text + end
    }
  }

  /// Most files of a set, so that a name with a large number costs nothing.
  private static let mostFiles = 100_000

  /// - Parameter files: sorted.
  private static func numberedSets(_ files: [String]) -> [NumberedSet] {
    var sets: [NumberedSet] = []
    for name in files {
      guard let found = numbered(name) else { continue }
      let place = sets.firstIndex {
        $0.start.utf8.elementsEqual(found.start.utf8) && $0.end.utf8.elementsEqual(found.end.utf8)
      }
      let index = place ?? sets.endIndex
      if place == nil {
        sets.append(NumberedSet(start: found.start, end: found.end, total: found.total, digits: found.digits))
      }
      sets[index].names.append(name)
      sets[index].numbers.insert(found.number)
    }
    return sets
  }

  private static func numbered(
    _ name: String
  ) -> (start: String, end: String, number: Int, total: Int, digits: Int)? {
    let parts = name.utf8.dropLast(ending.utf8.count).split(
      separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
    guard parts.count >= 4, parts[parts.count - 2].elementsEqual("of".utf8), let last = parts.last,
      let total = number(last), let number = number(parts[parts.count - 3]),
      (1...mostFiles).contains(total), (1...total).contains(number)
    else { return nil }
    let digits = parts[parts.count - 3].count
    let start = name.utf8.prefix(name.utf8.count - ending.utf8.count - last.count - 4 - digits)
    let end = name.utf8.suffix(ending.utf8.count + last.count + 4)
    return (String(Substring(start)), String(Substring(end)), number, total, digits)
  }

  /// Decimal digits alone.
  private static func number(_ digits: Substring.UTF8View) -> Int? {
    digits.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } ? Int(Substring(digits)) : nil
  }
}
