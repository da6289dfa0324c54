// How many descriptors this process may have open: what is in force, and what it may give itself.

/// `RLIMIT_NOFILE`; `Int.max` stands for no limit.
package struct DescriptorLimit: Sendable, Equatable {
  /// In force. Shells and init systems start programs with 1,024, for the sake of those that call `select`.
  package let soft: Int
  /// As far as the process may raise it.
  package let hard: Int

  package static var now: DescriptorLimit {
    let limit = read()
    return DescriptorLimit(soft: Int(clamping: limit.rlim_cur), hard: Int(clamping: limit.rlim_max))
  }

  /// Raises the limit in force to what is allowed, for this process and those that it starts. Where the system refuses,
  /// it stays.
  ///
  /// - Returns: the limits afterwards.
  @discardableResult
  package static func raise() -> DescriptorLimit {
    var limit = read()
    guard limit.rlim_cur < limit.rlim_max else { return now }
    limit.rlim_cur = limit.rlim_max
    #if canImport(Glibc)
      setrlimit(resource, &limit)
    #elseif canImport(Darwin)
      // It takes no more than this, whatever the hard limit says.
      if setrlimit(resource, &limit) != 0 {
        limit.rlim_cur = min(limit.rlim_max, rlim_t(OPEN_MAX))
        setrlimit(resource, &limit)
      }
    #else
      setrlimit(resource, &limit)
    #endif
    return now
  }

  #if canImport(Glibc)
    private static let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
  #else
    private static let resource = RLIMIT_NOFILE
  #endif

  private static func read() -> rlimit {
    var limit = rlimit()
    getrlimit(resource, &limit)
    return limit
  }
}
