// When an answer of lines of code ends: at a line that is indented too little, or at a line's end after some time.

package import Platform

/// Follows the lines of one answer. Used by one thread.
package struct LineRules: Sendable {
  /// Spaces and tabs that every line after the first needs; an empty line needs none.
  private let indentation: Int
  /// From the first text on, after which the next line's end is the answer's; nil for any time.
  private let seconds: Double?
  private var begin: Instant?
  /// The beginning of a line that may turn out to have too little before its text.
  private var held = ""
  private var isAtStart = false

  package init(indentation: Int = 0, seconds: Double? = nil) {
    (self.indentation, self.seconds) = (indentation, seconds)
  }

  /// Takes more of the answer.
  ///
  /// - Returns: what can be shown now, and whether the answer ends with it.
  package mutating func feed(_ text: String, at now: Instant) -> (text: String, isOver: Bool) {
    let begin = begin ?? now
    self.begin = begin
    let isLate = seconds.map { now.seconds(since: begin) >= $0 } ?? false
    var out = ""
    for scalar in text.unicodeScalars {
      if isAtStart {
        if scalar == " " || scalar == "\t" {
          held.unicodeScalars.append(scalar)
          continue
        }
        isAtStart = false
        let isBlank = scalar == "\n" || scalar == "\r"
        if !isBlank, held.unicodeScalars.count < indentation { return (out, true) }
        out += held
        held = ""
      }
      out.unicodeScalars.append(scalar)
      guard scalar == "\n" else { continue }
      if isLate { return (out, true) }
      isAtStart = indentation > 0
    }
    return (out, false)
  }

  /// What was held back, when the answer has ended.
  package mutating func finish() -> String {
    defer { held = "" }
    return held
  }
}
