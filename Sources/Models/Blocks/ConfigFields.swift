// Reading config.json: every value is checked for kind and range, and every error names its key.

import JSON

/// The members of one object of config.json; JSON null counts as absent.
struct ConfigFields {
  private let object: JSONValue
  /// Prepended to keys in errors: `rope_scaling.`.
  private let prefix: String
  /// Remembers which keys were read, where somebody wants to know.
  private let reads: ReadKeys?

  init(_ object: JSONValue, prefix: String = "", reads: ReadKeys? = nil) {
    (self.object, self.prefix, self.reads) = (object, prefix, reads)
  }

  /// A key as errors name it.
  func name(of key: String) -> String { prefix + key }

  /// Keys of members that are not null, as errors name them.
  var names: [String] {
    (object.objectValue?.entries ?? []).filter { !$0.value.isNull }.map { prefix + $0.key }
  }

  func has(_ key: String) -> Bool { value(key) != nil }

  func value(_ key: String) -> JSONValue? {
    reads?.insert(prefix + key)
    return look(key)
  }

  /// The value, which does not count as read.
  func look(_ key: String) -> JSONValue? {
    guard let value = object[key], !value.isNull else { return nil }
    return value
  }

  /// The object under `key`, or nil when absent.
  func object(_ key: String) throws(ModelError) -> ConfigFields? {
    guard let value = value(key) else { return nil }
    guard value.objectValue != nil else { throw invalid(key, value, "an object") }
    return ConfigFields(value, prefix: prefix + key + ".", reads: reads)
  }

  func int(_ key: String, in range: ClosedRange<Int>, default fallback: Int? = nil) throws(ModelError) -> Int
  {
    let expected = "an integer in \(range.lowerBound)...\(range.upperBound)"
    guard let value = value(key) else {
      // Other settings decide about the range.
      let usual = try required(fallback, key)
      guard range.contains(usual) else {
        throw .invalidValue(key: prefix + key, found: "none, which means \(usual)", expected: expected)
      }
      return usual
    }
    guard let int = value.intValue else { throw invalid(key, value, expected) }
    guard range.contains(int) else {
      throw .invalidValue(key: prefix + key, found: "\(int)", expected: expected)
    }
    return int
  }

  func double(
    _ key: String, in range: ClosedRange<Double>, default fallback: Double? = nil
  ) throws(ModelError) -> Double {
    guard let value = value(key) else { return try required(fallback, key) }
    let expected = "a number in \(range.lowerBound)...\(range.upperBound)"
    guard let number = value.doubleValue else { throw invalid(key, value, expected) }
    guard range.contains(number) else {
      throw .invalidValue(key: prefix + key, found: "\(number)", expected: expected)
    }
    return number
  }

  func bool(_ key: String, default fallback: Bool) throws(ModelError) -> Bool {
    guard let value = value(key) else { return fallback }
    guard let bool = value.boolValue else { throw invalid(key, value, "a boolean") }
    return bool
  }

  func string(_ key: String) throws(ModelError) -> String? {
    guard let value = value(key) else { return nil }
    guard let string = value.stringValue else { throw invalid(key, value, "a string") }
    return string
  }

  /// `count` numbers, each in `range`.
  func doubles(_ key: String, count: Int, in range: ClosedRange<Double>) throws(ModelError) -> [Double] {
    guard let value = value(key) else { throw .missingKey(prefix + key) }
    let expected = "an array of \(count) numbers in \(range.lowerBound)...\(range.upperBound)"
    guard let array = value.arrayValue else { throw invalid(key, value, expected) }
    let numbers = array.compactMap(\.doubleValue).filter(range.contains)
    guard array.count == count, numbers.count == count else {
      throw .invalidValue(
        key: prefix + key, found: "an array of \(array.count), \(numbers.count) of them in range",
        expected: expected)
    }
    return numbers
  }

  /// Integers, each in `range`; none when the key is absent.
  func ints(_ key: String, in range: ClosedRange<Int>) throws(ModelError) -> [Int] {
    guard let value = value(key) else { return [] }
    let expected = "an array of integers in \(range.lowerBound)...\(range.upperBound)"
    guard let array = value.arrayValue else { throw invalid(key, value, expected) }
    let numbers = array.compactMap(\.intValue).filter(range.contains)
    guard numbers.count == array.count else {
      throw .invalidValue(
        key: prefix + key, found: "an array of \(array.count), \(numbers.count) of them in range",
        expected: expected)
    }
    return numbers
  }

  private func required<Value>(_ fallback: Value?, _ key: String) throws(ModelError) -> Value {
    guard let fallback else { throw .missingKey(prefix + key) }
    return fallback
  }

  private func invalid(_ key: String, _ value: JSONValue, _ expected: String) -> ModelError {
    .invalidValue(key: prefix + key, found: value.kind, expected: expected)
  }
}
