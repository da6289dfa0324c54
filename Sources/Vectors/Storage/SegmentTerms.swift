// The terms of a segment and the passages that have them, as they are written.

import Platform

/// Finds terms in a segment, which whoever reads it must hold.
struct SegmentTerms {
  /// For errors.
  let path: String
  let passages: Int
  /// How many terms there are.
  let count: Int
  /// Where each term begins in `terms`, and the end of the last one.
  let offsets: UnsafeBufferPointer<UInt32>
  /// Sorted by their bytes.
  let terms: UnsafeRawBufferPointer
  /// Where the postings of each term begin in `postings`, and the end of the last ones.
  let places: UnsafeBufferPointer<UInt64>
  let postings: UnsafeRawBufferPointer

  /// The passages that have a term; nil where none has it.
  func list(of term: [UInt8]) throws(IndexError) -> List? {
    var (low, high) = (0, count)
    while low < high {
      let middle = (low + high) / 2
      if compare(middle, term) < 0 { low = middle + 1 } else { high = middle }
    }
    guard low < count, compare(low, term) == 0 else { return nil }
    guard let start = Int(exactly: places[low]), let end = Int(exactly: places[low + 1]), start <= end,
      end <= postings.count
    else { throw .damaged(path: path, what: "its table of terms") }
    return List(
      bytes: UnsafeRawBufferPointer(rebasing: postings[start..<end]), passages: passages, path: path)
  }

  /// Below zero where a term comes before another one, zero where they are the same.
  private func compare(_ number: Int, _ other: [UInt8]) -> Int {
    let start = min(Int(offsets[number]), terms.count)
    let size = max(start, min(Int(offsets[number + 1]), terms.count)) - start
    guard let base = terms.baseAddress else { return size - other.count }
    // A query asks hundreds of segments for each of its words: bytes compared one by one took a quarter of a search.
    let order = memcmp(base + start, other, min(size, other.count))
    return order != 0 ? Int(order) : size - other.count
  }

  /// Passages in order, and how often each has the term: two numbers for each.
  struct List {
    let bytes: UnsafeRawBufferPointer
    /// Of the segment.
    let passages: Int
    /// For errors.
    let path: String
    private var (at, passage) = (0, 0)

    init(bytes: UnsafeRawBufferPointer, passages: Int, path: String) {
      (self.bytes, self.passages, self.path) = (bytes, passages, path)
    }

    /// Most postings that the list has: a number takes a byte or more.
    var mostPostings: Int { bytes.count / 2 }

    /// The next one; nil at the end.
    mutating func next() throws(IndexError) -> (passage: Int, frequency: Int)? {
      guard let distance = Varint.read(bytes, &at), let frequency = Varint.read(bytes, &at) else {
        return nil
      }
      passage &+= distance
      guard passage >= 0, passage < passages else {
        throw .damaged(path: path, what: "postings lie beyond the end")
      }
      return (passage, frequency)
    }
  }
}
