// Stop strings in streamed text: what is released when, and that the cutting of the text does not matter.

import Support
import Testing

@testable import Decoding

/// Feeds the pieces and collects what is released, piece by piece, with the end last.
private func released(_ stops: [String], _ pieces: [String]) -> (texts: [String], stopped: String?) {
  var matcher = StopMatcher(stops: stops)
  var texts: [String] = []
  for piece in pieces { texts.append(matcher.feed(piece).text) }
  texts.append(matcher.finish())
  return (texts, matcher.stopped)
}

/// The definition: the match that begins first, among equals the shortest.
private func search(_ stops: [String], _ text: String) -> (text: String, stopped: String?) {
  let bytes = Array(text.utf8)
  for start in bytes.indices {
    let found = stops.filter { !$0.isEmpty && bytes[start...].starts(with: $0.utf8) }
    if let stop = found.min(by: { $0.utf8.count < $1.utf8.count }) {
      return (String(decoding: bytes[..<start], as: UTF8.self), stop)
    }
  }
  return (text, nil)
}

@Suite struct StopMatcherTests {
  @Test func `text without a stop string passes at once`() {
    #expect(released(["END"], ["some ", "text"]).texts == ["some ", "text", ""])
    #expect(released([], ["some ", "text"]).texts == ["some ", "text", ""])
    #expect(released([""], ["some ", "", "text"]).texts == ["some ", "", "text", ""])
  }

  @Test func `a stop string in one piece ends the text before it`() {
    var matcher = StopMatcher(stops: ["\n"])
    #expect(matcher.feed("one\ntwo") == ("one", "\n"))
    #expect(matcher.feed("three") == ("", "\n"))
    #expect(matcher.finish() == "")
    #expect(matcher.stopped == "\n")
  }

  @Test func `a stop string over three pieces never shows`() {
    let found = released(["</tool>"], ["a</", "to", "ol>b"])
    #expect(found.texts == ["a", "", "", ""])
    #expect(found.stopped == "</tool>")
  }

  @Test func `what only began like a stop string is released`() {
    #expect(released(["</tool>"], ["a</", "top", "x"]).texts == ["a", "</top", "x", ""])
    #expect(released(["aab"], ["a", "a", "a", "b"]).texts == ["", "", "a", "", ""])
    #expect(released(["END"], ["the EN"]).texts == ["the ", "EN"])
  }

  @Test func `only the longest suffix that may begin a stop string is held back`() {
    #expect(released(["abcd", "cx"], ["abc", "y"]).texts == ["", "abcy", ""])
    #expect(released(["abcd", "cx"], ["xxbc", "x"]).texts == ["xxb", "", ""])
  }

  @Test func `the match that begins first wins over one that ends first`() {
    let found = released(["abcd", "bc"], ["xab", "c", "d"])
    #expect(found.texts == ["x", "", "", ""])
    #expect(found.stopped == "abcd")
    let other = released(["abcd", "bc"], ["xab", "c", "e"])
    #expect(other.texts == ["x", "", "a", ""])
    #expect(other.stopped == "bc")
  }

  @Test func `a match that waits for an earlier one counts when the text ends`() {
    var matcher = StopMatcher(stops: ["abcd", "bc"])
    #expect(matcher.feed("xabc") == ("x", nil))
    #expect(matcher.finish() == "a")
    #expect(matcher.stopped == "bc")
  }

  @Test func `of stop strings that begin together the shortest wins`() {
    var matcher = StopMatcher(stops: ["abc", "ab"])
    #expect(matcher.feed("xabc") == ("x", "ab"))
  }

  @Test func `bytes count, not characters`() {
    // A combining accent after the stop string does not hide it; é and e + accent are different.
    #expect(released(["e"], ["caf", "e\u{301}"]).stopped == "e")
    #expect(released(["\u{E9}"], ["cafe\u{301}"]).stopped == nil)
    #expect(released(["\r"], ["a\r\nb"]).texts == ["a", ""])
    #expect(released(["👩"], ["x👩‍👩‍👧"]).texts == ["x", ""])
    // U+1F469 and U+1F468 share three of their four bytes.
    #expect(released(["👩👩"], ["👩", "👨", "👩"]).texts == ["", "👩👨", "", "👩"])
    #expect(released(["\0"], ["a\0b"]).texts == ["a", ""])
  }

  @Test func `any cutting of any text gives the result of the whole`() {
    var random = SeededGenerator(seed: 8)
    let alphabet = ["a", "b", "ab", "é", "👩", "\n"]
    func word(_ range: ClosedRange<Int>) -> String {
      (0..<Int.random(in: range, using: &random)).map { _ in alphabet.randomElement(using: &random) ?? "" }
        .joined()
    }
    var matches = 0
    for round in 0..<5000 {
      let stops = (0..<Int.random(in: 0...4, using: &random)).map { _ in word(0...5) }
      let scalars = Array(word(0...30).unicodeScalars)
      let text = String(String.UnicodeScalarView(scalars))
      let expected = search(stops, text)
      var pieces: [String] = []
      var at = 0
      while at < scalars.count {
        let end = min(scalars.count, at + Int.random(in: 0...4, using: &random))
        pieces.append(String(String.UnicodeScalarView(scalars[at..<end])))
        at = end
      }
      let found = released(stops, pieces)
      #expect(
        found.texts.joined().utf8.elementsEqual(expected.text.utf8), "round \(round): \(stops) in \(pieces)")
      #expect(
        found.stopped.map { Array($0.utf8) } == expected.stopped.map { Array($0.utf8) }, "round \(round)")
      if found.stopped != nil { matches += 1 }
    }
    #expect(matches > 1000)
  }

  @Test func `text is held back no longer than it must be`() {
    var random = SeededGenerator(seed: 9)
    for _ in 0..<500 {
      let stops = ["abab", "bba", "aaa"]
      var matcher = StopMatcher(stops: stops)
      var text = ""
      var out = ""
      for _ in 0..<20 {
        let piece = ["a", "b", "c"][Int.random(in: 0..<3, using: &random)]
        text += piece
        let step = matcher.feed(piece)
        out += step.text
        if step.stopped != nil { break }
        // At most the proper prefixes of the longest stop string can be waiting.
        let held = text.dropFirst(out.count)
        #expect(held.isEmpty || stops.contains { $0.hasPrefix(String(held)) && $0 != held } || held.count < 4)
      }
    }
  }

  @Test func `long repetitive stop strings take linear time`() {
    let stop = String(repeating: "a", count: 20_000) + "b"
    var matcher = StopMatcher(stops: [stop, String(repeating: "ab", count: 500)])
    var count = 0
    for _ in 0..<200 { count += matcher.feed(String(repeating: "a", count: 500)).text.utf8.count }
    #expect(count == 80_000)
    #expect(matcher.feed("b").stopped == stop)
  }
}
