// When each word of a window was said: the heads of the decoder that follow the sound, and the cheapest way through them.
//
// Source: Whisper's timing: attention normalised over the tokens, smoothed over time, averaged, then dynamic time warping.

import Models
import Platform
import Tokenizers

/// Engine thread only.
struct WordTimes {
  let writer: SpeechWriter
  /// Whether the language writes no blanks between words: then every character that is complete is one.
  let isUnspaced: Bool

  private static let unspaced: Set = ["zh", "ja", "th", "lo", "my", "yue"]
  /// Positions over which attention is smoothed.
  private static let smoothing = 7
  /// Of the memory.
  private static let secondsPerPosition = 0.02
  private static let ends: Set<String> = [".", "。", "!", "！", "?", "？"]
  private static let openings: Set<String> = ["\"", "'", "“", "¿", "(", "[", "{", "-"]
  private static let closings: Set<String> = [
    "\"", "'", ".", "。", ",", "，", "!", "！", "?", "？", ":", "：", "”", ")", "]", "}", "、",
  ]

  init(_ writer: SpeechWriter, language: String?) {
    self.writer = writer
    isUnspaced = language.map(Self.unspaced.contains) ?? false
  }

  /// A word of the window, in the order in which it was said.
  struct Word: Equatable {
    var text: String
    var tokens: Int
    var start, end: Double
    var probability: Double
  }

  /// Finds the words of a window's segments. Seconds are those of the recording.
  ///
  /// - Parameters:
  ///   - opening: the tokens with which the window begins.
  ///   - frames: of the window.
  func add(
    to segments: inout [SpeechSegment], opening: [Int32], offset: Double, frames: Int, _ work: SpeechTurns
  ) throws(SpeechStop) {
    let text = Array(segments.flatMap(\.tokens).prefix(writer.mostTokens))
    guard !text.isEmpty, frames > 1 else { return }
    let matrix = try attention(opening, text, positions: frames / 2, work)
    let times = Self.path(matrix, rows: text.count + 1, columns: matrix.count / (text.count + 1)).map {
      Double($0) * Self.secondsPerPosition
    }
    var words = self.words(text, segments.flatMap(\.logprobs), times)
    Self.shorten(&words)
    words = Self.joined(words)
    var next = 0
    for index in segments.indices {
      var taken = 0
      while next < words.count, taken < segments[index].tokens.count {
        let word = words[next]
        taken += word.tokens
        next += 1
        guard !word.text.isEmpty else { continue }
        segments[index].words.append(
          SpeechWord(
            text: word.text, start: offset + word.start, end: offset + word.end, probability: word.probability
          ))
      }
    }
  }

  // MARK: Attention

  /// The mean of all heads, `[text and one more][positions]`: the row of a token is where it was when it chose the next.
  private func attention(
    _ opening: [Int32], _ text: [Int32], positions: Int, _ work: SpeechTurns
  ) throws(SpeechStop) -> [Float] {
    let v = writer.vocabulary
    let tokens = opening + [v.noTimestamps] + text + [v.end]
    let rows = text.count + 1
    var (sum, columns) = ([Float](), 0)
    try work {
      writer.model.align(tokens, positions: positions) { weights in
        columns = weights.count / tokens.count
        var weights = weights
        Self.normalise(&weights, rows: tokens.count, columns: columns)
        let kept = weights[opening.count * columns..<(opening.count + rows) * columns]
        let smooth = Self.smoothed(Array(kept), columns: columns)
        if sum.isEmpty { sum = smooth } else { for i in sum.indices { sum[i] += smooth[i] } }
      }
    }
    return sum
  }

  /// Each column less its mean, divided by its deviation.
  static func normalise(_ matrix: inout [Float], rows: Int, columns: Int) {
    for column in 0..<columns {
      var (sum, squares) = (0.0, 0.0)
      for row in 0..<rows {
        let x = Double(matrix[row * columns + column])
        sum += x
        squares += x * x
      }
      let mean = sum / Double(rows)
      let deviation = max(0, squares / Double(rows) - mean * mean).squareRoot()
      for row in 0..<rows {
        let x = Double(matrix[row * columns + column]) - mean
        matrix[row * columns + column] = deviation > 1e-12 ? Float(x / deviation) : 0
      }
    }
  }

  /// The median of each element and its neighbours in the row, which is mirrored at its ends.
  static func smoothed(_ matrix: [Float], columns: Int) -> [Float] {
    let reach = smoothing / 2
    guard columns > reach else { return matrix }
    var out = matrix
    var near = [Float](repeating: 0, count: smoothing)
    for start in stride(from: 0, to: matrix.count, by: columns) {
      for column in 0..<columns {
        for place in 0..<smoothing {
          var at = abs(column + place - reach)
          if at >= columns { at = 2 * (columns - 1) - at }
          let value = matrix[start + at]
          var slot = place
          while slot > 0, near[slot - 1] > value {
            near[slot] = near[slot - 1]
            slot -= 1
          }
          near[slot] = value
        }
        out[start + column] = near[reach]
      }
    }
    return out
  }

  /// Where each row begins on the way through the matrix with the largest sum, from its first element to its last.
  static func path(_ matrix: [Float], rows: Int, columns: Int) -> [Int] {
    guard columns > 0, matrix.count == rows * columns else { return [Int](repeating: 0, count: rows) }
    let width = columns + 1
    var cost = [Float](repeating: .infinity, count: (rows + 1) * width)
    var moves = [UInt8](repeating: 0, count: (rows + 1) * width)
    cost[0] = 0
    for row in 1...rows {
      for column in 1...columns {
        let at = row * width + column
        let (diagonal, up, left) = (cost[at - width - 1], cost[at - width], cost[at - 1])
        let best: Float
        if diagonal < up, diagonal < left {
          (best, moves[at]) = (diagonal, 0)
        } else if up < diagonal, up < left {
          (best, moves[at]) = (up, 1)
        } else {
          (best, moves[at]) = (left, 2)
        }
        cost[at] = best - matrix[(row - 1) * columns + column - 1]
      }
    }
    var begins = [Int](repeating: 0, count: rows)
    var (row, column) = (rows, columns)
    while row > 0 {
      // On the way back, the last that is written is the first column of the row.
      begins[row - 1] = max(0, column - 1)
      switch column == 0 ? 1 : moves[row * width + column] {
      case 0: (row, column) = (row - 1, column - 1)
      case 1: row -= 1
      default: column -= 1
      }
    }
    return begins
  }

  // MARK: Words

  /// - Parameter times: when each token begins, and when the last ends.
  private func words(_ tokens: [Int32], _ logprobs: [Float], _ times: [Double]) -> [Word] {
    var words: [Word] = []
    var (bytes, first) = ([UInt8](), 0)
    for (index, token) in tokens.enumerated() {
      bytes += writer.vocabulary.tokenizer.bytes(of: token)
      guard let text = String(validating: bytes, as: UTF8.self) else { continue }
      let probability = (first...index).reduce(0.0) { $0 + Double(exp(logprobs[$1])) }
      let isBeginning = isUnspaced || words.isEmpty || text.first?.isWhitespace ?? true || Self.isMark(text)
      if isBeginning {
        words.append(
          Word(
            text: text, tokens: index + 1 - first, start: times[first], end: times[index + 1],
            probability: probability))
      } else {
        let last = words.count - 1
        words[last].text += text
        words[last].tokens += index + 1 - first
        words[last].end = times[index + 1]
        words[last].probability += probability
      }
      (bytes, first) = ([], index + 1)
    }
    for index in words.indices { words[index].probability /= Double(max(1, words[index].tokens)) }
    return words
  }

  private static func isMark(_ text: String) -> Bool {
    !text.isEmpty
      && text.unicodeScalars.allSatisfy { $0.isASCII && $0.properties.isPatternSyntax || $0 == "_" }
  }

  /// A word that is much longer than others beside the end of a sentence has a pause in it.
  static func shorten(_ words: inout [Word]) {
    let durations = words.map { $0.end - $0.start }.filter { $0 > 0 }.sorted()
    guard !durations.isEmpty else { return }
    let longest = 2 * min(0.7, durations[durations.count / 2])
    for index in words.indices.dropFirst() where words[index].end - words[index].start > longest {
      if ends.contains(words[index].text) {
        words[index].end = words[index].start + longest
      } else if ends.contains(words[index - 1].text) {
        words[index].start = words[index].end - longest
      }
    }
    // The first word of a window, too, has the pause before it.
    if words[0].end - words[0].start > longest { words[0].start = words[0].end - longest }
  }

  /// Marks stand with the words that they belong to.
  static func joined(_ words: [Word]) -> [Word] {
    var joined: [Word] = []
    var opening: Word?
    for word in words {
      var word = word
      if let mark = opening {
        word.text = mark.text + word.text
        word.tokens += mark.tokens
        word.start = min(mark.start, word.start)
        opening = nil
      }
      if word.text.first?.isWhitespace ?? false, openings.contains(String(word.text.dropFirst())) {
        opening = word
      } else if !joined.isEmpty, closings.contains(word.text) {
        let last = joined.count - 1
        joined[last].text += word.text
        joined[last].tokens += word.tokens
      } else {
        joined.append(word)
      }
    }
    return joined + (opening.map { [$0] } ?? [])
  }
}
