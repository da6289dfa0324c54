// How fast the model's tokenizer encodes prose.

import Checkpoint
import Platform
import Tokenizers

enum TokenizerBenchmark {
  private static let prose = """
    The server reads a folder of weights, a tokenizer and a template, and answers questions about them. \
    "Is that all?" asked the visitor, who had come 1,234 miles to see it. It was not: by 9 o'clock in the \
    morning it had counted to 65536, translated a letter, and told two stories (one of them true).

    """

  /// Bytes of UTF-8 encoded per second; nil when the folder has no tokenizer that can be loaded.
  static func bytesPerSecond(modelPath: String) -> Double? {
    guard let folder = try? ModelFolder(path: modelPath), let file = try? folder.tokenizerFile,
      let tokenizer = try? Tokenizer(tokenizerJSON: file)
    else { return nil }
    let text = String(repeating: prose, count: (1 << 20) / prose.utf8.count)
    let best =
      (0..<3).map { _ -> Double in
        let begin = Instant.now
        let count = tokenizer.encode(text, addSpecialTokens: false).count
        return count > 0 ? Instant.now.seconds(since: begin) : .infinity
      }.min() ?? .infinity
    return Double(text.utf8.count) / best
  }
}
