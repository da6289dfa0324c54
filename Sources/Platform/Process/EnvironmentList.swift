// All variables of the environment, as the system lists them.

extension Environment {
  /// Every variable with its value; none where the system does not tell.
  package static var all: [(name: String, value: String)] {
    #if os(Linux)
      return PseudoFile.bytes("/proc/self/environ").split(separator: 0).map {
        String(decoding: $0, as: UTF8.self)
      }
      .compactMap(pair)
    #elseif os(macOS)
      var all: [(name: String, value: String)] = []
      guard var next = _NSGetEnviron()?.pointee else { return [] }
      while let entry = next.pointee {
        if let pair = pair(String(cString: entry)) { all.append(pair) }
        next += 1
      }
      return all
    #else
      return []
    #endif
  }

  private static func pair(_ text: String) -> (name: String, value: String)? {
    guard let sign = text.firstIndex(of: "=") else { return nil }
    return (String(text[..<sign]), String(text[text.index(after: sign)...]))
  }
}
