// What of the official suite is refused or over-constrained, to the last test.

import Support

/// Per file: `!` a refused schema with the keyword that the error names, `-` a valid instance that no answer can be.
enum SuiteExceptions {
  static let all: [String: [String]] = {
    let bytes = (try? TestData.bytes(TestData.fixtures + "/schemas/suite-exceptions.tsv")) ?? []
    var all: [String: [String]] = [:]
    for line in bytes.split(separator: 0x0A) {
      let parts = line.split(separator: 0x09, maxSplits: 1)
      guard parts.count == 2 else { continue }
      all[String(decoding: parts[0], as: UTF8.self), default: []].append(
        String(decoding: parts[1], as: UTF8.self))
    }
    return all
  }()
}
