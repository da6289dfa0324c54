// Which passages have a term, and how often: the inverted index of one part.

/// Makes the tables of a part, passage by passage.
struct TermTableBuilder {
  /// Of each term its number, and by that number its postings.
  private var numbers: [[UInt8]: Int] = [:]
  private var postings: [Postings] = []
  /// Words of each passage without stop words.
  private(set) var lengths: [UInt32] = []
  /// Stems that were needed already, by language and word.
  private var stems: [[UInt8]: [UInt8]] = [:]
  /// Languages of which the part has stems.
  private var languages: Set<StemLanguage> = []
  /// Bytes that are taken and not claimed yet.
  private var owed = 0

  /// What a term takes beside its own bytes, four times: its number and its postings in tables that grow, and both in
  /// order; what one more word in a passage takes at most; and what a word takes whose stem is kept.
  private static let (bytesPerTerm, bytesPerWord, bytesPerStem) = (450, 12, 200)
  /// Bytes that are claimed at a time.
  private static let claim = 64 << 10

  /// The postings of a term, from the first passage that has it on; the one that is read is not among the bytes yet.
  private struct Postings {
    var bytes: [UInt8] = []
    var passage: Int
    var frequency = 1
    /// The last passage among the bytes.
    var last = 0

    init(passage: Int) { self.passage = passage }

    mutating func count(in passage: Int) {
      if passage != self.passage { end() }
      self.passage = passage
      frequency += 1
    }

    /// Writes the passage that was read: the first one whole, the others as distances.
    mutating func end() {
      Varint.append(passage - last, to: &bytes)
      Varint.append(frequency, to: &bytes)
      (last, frequency) = (passage, 0)
    }
  }

  /// Adds the next passage.
  ///
  /// - Parameters:
  ///   - name: of its document; its words are the passage's too.
  ///   - reserve: told the bytes that are needed next; false where they are not to be had.
  /// - Throws: `noMemory`.
  mutating func add(
    _ text: [UInt8], name: [UInt8] = [], _ reserve: (Int) -> Bool
  ) throws(IndexError) {
    let words = WordSplitter.words(in: text)
    let language = StemLanguage.of(words)
    if languages.insert(language).inserted { count(language.mark) }
    var length: UInt32 = 0
    for (text, words) in [(text, words), (name, WordSplitter.words(in: name))] {
      for word in words where !word.isStopWord {
        length &+= 1
        count(word.term)
        if let stem = stem(text[word.range], language) { count(stem) }
        if owed >= Self.claim {
          guard reserve(owed) else { throw .noMemory(bytes: owed) }
          owed = 0
        }
      }
    }
    lengths.append(length)
  }

  private mutating func count(_ term: [UInt8]) {
    owed += Self.bytesPerWord
    if let number = numbers[term] {
      postings[number].count(in: lengths.count)
    } else {
      owed += Self.bytesPerTerm + 4 * term.count
      numbers[term] = postings.count
      postings.append(Postings(passage: lengths.count))
    }
  }

  private mutating func stem(_ spelling: ArraySlice<UInt8>, _ language: StemLanguage) -> [UInt8]? {
    let key = [language.rawValue] + spelling
    if let known = stems[key] { return known.isEmpty ? nil : known }
    let stem = language.term(spelling)
    stems[key] = stem ?? []
    owed += Self.bytesPerStem + 2 * key.count
    return stem
  }

  /// The terms in the order of their bytes, and what belongs to each, one after another.
  func tables() -> TermTables {
    var tables = TermTables()
    for (term, number) in numbers.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
      tables.termOffsets.append(UInt32(truncatingIfNeeded: tables.terms.count))
      tables.terms += term
      tables.postingOffsets.append(UInt64(tables.postings.count))
      var list = postings[number]
      list.end()
      tables.postings += list.bytes
    }
    tables.termOffsets.append(UInt32(truncatingIfNeeded: tables.terms.count))
    tables.postingOffsets.append(UInt64(tables.postings.count))
    return tables
  }
}

/// The inverted index as it is stored.
struct TermTables {
  /// Where each term begins in `terms`, and where the last one ends.
  var termOffsets: [UInt32] = []
  var terms: [UInt8] = []
  /// Where the postings of each term begin, and where the last ones end.
  var postingOffsets: [UInt64] = []
  var postings: [UInt8] = []
}

/// Numbers of seven bits a byte, the lowest first.
enum Varint {
  static func append(_ value: Int, to bytes: inout [UInt8]) {
    var rest = UInt64(max(0, value))
    while rest >= 0x80 {
      bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    bytes.append(UInt8(truncatingIfNeeded: rest))
  }

  /// Reads one and moves on; nil at the end or when there is none.
  @inline(__always)
  static func read(_ bytes: UnsafeRawBufferPointer, _ at: inout Int) -> Int? {
    var value: UInt64 = 0
    var shift: UInt64 = 0
    while at < bytes.count, shift < 63 {
      let byte = bytes[at]
      at += 1
      value |= UInt64(byte & 0x7F) << shift
      if byte < 0x80 { return Int(truncatingIfNeeded: value) }
      shift += 7
    }
    return nil
  }
}
