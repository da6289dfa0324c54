// The text format of Prometheus, version 0.0.4.

struct MetricsText {
  enum Kind: String { case counter, gauge, histogram }

  typealias Labels = [(name: String, value: String)]

  static let contentType = "text/plain; version=0.0.4; charset=utf-8"

  private(set) var text = ""
  private var family = ""

  /// Begins a family: the samples that follow belong to it.
  mutating func begin(_ name: String, _ kind: Kind, _ help: String) {
    family = name
    text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
  }

  mutating func sample(_ value: Int, _ labels: Labels = []) { line("", labels, "\(value)") }

  mutating func sample(_ value: Double, _ labels: Labels = []) { line("", labels, Self.text(value)) }

  /// The buckets, sum and count of one histogram.
  mutating func sample(_ histogram: Histogram, _ labels: Labels = []) {
    var below = 0
    for (bound, count) in zip(histogram.bounds, histogram.counts) {
      below += count
      line("_bucket", labels + [("le", Self.text(bound))], "\(below)")
    }
    line("_bucket", labels + [("le", "+Inf")], "\(histogram.count)")
    line("_sum", labels, Self.text(histogram.sum))
    line("_count", labels, "\(histogram.count)")
  }

  private mutating func line(_ suffix: String, _ labels: Labels, _ value: String) {
    text += family + suffix
    if !labels.isEmpty {
      text += "{" + labels.map { "\($0.name)=\"\(Self.escaped($0.value))\"" }.joined(separator: ",") + "}"
    }
    text += " \(value)\n"
  }

  private static func text(_ value: Double) -> String {
    value.isFinite ? "\(value)" : value.isNaN ? "NaN" : value < 0 ? "-Inf" : "+Inf"
  }

  private static func escaped(_ value: String) -> String {
    var out = ""
    for scalar in value.unicodeScalars {
      switch scalar {
      case "\\": out += "\\\\"
      case "\"": out += "\\\""
      case "\n": out += "\\n"
      default: out.unicodeScalars.append(scalar)
      }
    }
    return out
  }
}
