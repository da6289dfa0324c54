// Energy that the machine's processors have used, as Linux tells it (powercap: RAPL of Intel and AMD).

/// Counters of whole processors, which count whatever runs on them. Usually root alone may read them.
package struct EnergyCounter: Sendable {
  /// A file, and the number of microjoules at which it begins anew.
  private let domains: [(path: String, range: UInt64)]

  /// - Parameter folder: where the system has a folder for each domain. Parts of a processor, and the whole of a machine,
  ///   which has the processors once more, are not counted.
  package init(folder: String = "/sys/class/powercap") {
    domains = ((try? File.names(in: folder)) ?? []).sorted().compactMap { name in
      let domain = folder + "/" + name
      guard PseudoFile.lines(domain + "/name").first?.hasPrefix("package-") == true else { return nil }
      return (domain + "/energy_uj", Self.number(domain + "/max_energy_range_uj") ?? 0)
    }
  }

  /// Microjoules of each processor; nil where the system does not tell.
  package var reading: [UInt64]? {
    let numbers = domains.compactMap { Self.number($0.path) }
    return numbers.isEmpty || numbers.count < domains.count ? nil : numbers
  }

  /// Joules since an earlier reading, less than a range ago; nil where the system does not tell.
  package func joules(since earlier: [UInt64]?) -> Double? {
    guard let earlier, let now = reading else { return nil }
    return zip(zip(earlier, now), domains).reduce(0.0) { sum, item in
      let ((before, after), (_, range)) = item
      let used = after >= before ? after - before : range - min(range, before) + after
      return sum + Double(used) * 1e-6
    }
  }

  private static func number(_ path: String) -> UInt64? {
    PseudoFile.lines(path).first.flatMap { UInt64($0) }
  }
}
