// A transcript as a whole, and as players read it: SRT, WebVTT.

package import Inference

/// What has been written down of a recording.
package struct SpeechTranscript: Sendable {
  /// The code of what is spoken; empty until it is known.
  package var language = ""
  package var segments: [SpeechSegment] = []
  /// Of the recording.
  package let seconds: Double

  package init(seconds: Double) { self.seconds = seconds }

  package var text: String { Self.trimmed(segments.map(\.text).joined()) }
  package var words: [SpeechWord] { segments.flatMap(\.words) }

  /// SubRip: numbered cues, a comma before the milliseconds.
  package var srt: String {
    segments.enumerated().map { index, segment in
      "\(index + 1)\n\(Self.cue(segment, ","))\n"
    }.joined()
  }

  /// WebVTT: a point before them.
  package var vtt: String { "WEBVTT\n\n" + segments.map { Self.cue($0, ".") + "\n" }.joined() }

  private static func cue(_ segment: SpeechSegment, _ point: String) -> String {
    let times = "\(time(segment.start, point)) --> \(time(segment.end, point))"
    return "\(times)\n\(line(segment.text))\n"
  }

  /// One line, in which nothing looks like the times of a cue.
  private static func line(_ text: String) -> String {
    var line = ""
    for scalar in trimmed(text).unicodeScalars {
      if scalar.value < 0x20 {
        line += " "
      } else if scalar == ">", line.hasSuffix("--") {
        line.removeLast()
        line += ">"
      } else {
        line.unicodeScalars.append(scalar)
      }
    }
    return line
  }

  /// `01:02:03,004`.
  private static func time(_ seconds: Double, _ point: String) -> String {
    let all = Int((seconds * 1000).rounded())
    func digits(_ number: Int, _ count: Int) -> String {
      let text = String(number)
      return String(repeating: "0", count: max(0, count - text.count)) + text
    }
    let parts = [all / 3_600_000, all / 60_000 % 60, all / 1000 % 60].map { digits($0, 2) }
    return parts.joined(separator: ":") + point + digits(all % 1000, 3)
  }

  private static func trimmed(_ text: String) -> String {
    let rest = text.drop(while: \.isWhitespace)
    return String(rest.prefix(rest.count - rest.reversed().prefix(while: \.isWhitespace).count))
  }
}
