// What `mlxserve bench` has measured, as a table, as JSON and as CSV.

import JSON

/// The figures of one run, and where they were taken.
struct BenchReport {
  /// Median, least and largest of the repetitions of one measurement.
  struct Spread: Equatable {
    let median, least, largest: Double

    init(_ values: [Double]) {
      let sorted = values.sorted()
      median = sorted.isEmpty ? 0 : sorted[sorted.count / 2]
      least = sorted.first ?? 0
      largest = sorted.last ?? 0
    }

    var json: JSONValue { ["median": .double(median), "least": .double(least), "largest": .double(largest)] }
  }

  struct Measurement {
    enum Phase: String { case prefill, decode }
    let phase: Phase
    /// Tokens in the context before the measured ones.
    let depth: Int
    /// Sequences computed together; the speed is that of all of them.
    var sequences = 1
    /// Tokens of one repetition, of each sequence.
    let tokens: Int
    /// Tokens per second; nil where the tokens before them had to be computed again.
    let speed: Spread?
  }

  /// Speed of decoding with guesses as a multiple of the speed without.
  struct Speculation {
    /// Where every guess holds: text that repeats what is known.
    let right: Spread
    /// Where there is always a guess and none holds.
    let wrong: Spread
  }

  let model: String
  let compute: String
  let threads: Int
  let loadSeconds: Double
  let reads: StepReads
  let readBytesPerSecond: Double
  /// Bytes that decoding at the first depth reads per second, as a share of a read loop right after it.
  let readShare: Spread
  /// The share of this decoding's time that is not the forward pass: sampling, sending, planning.
  let besideForward: Spread
  /// Where it was wanted.
  let speculation: Speculation?
  let tokenizerBytesPerSecond: Double?
  let measurements: [Measurement]
  let peakResidentBytes: Int
}

/// What a decode step reads, bytes.
struct StepReads {
  var weights: Int
  /// Keys and values of one token of context.
  var keysValues: Int
  /// The recurrent layers' state of one sequence.
  var state: Int

  /// For one of `tokens` decoded after `depth` others: all weights and the keys and values of these others, which the sequences
  /// of a step share, and the keys and values and the state of its own.
  func perToken(depth: Int, tokens: Int, sequences: Int = 1) -> Int {
    (weights + keysValues * depth) / sequences + keysValues * tokens / 2 + state
  }
}

extension BenchReport {
  private func first(_ phase: Measurement.Phase) -> JSONValue {
    Self.number(measurements.first { $0.phase == phase }?.speed?.median)
  }

  private static func number(_ value: Double?) -> JSONValue { value.map(JSONValue.double) ?? .null }

  private func bytesPerToken(_ measurement: Measurement) -> Int {
    reads.perToken(
      depth: measurement.depth, tokens: measurement.tokens, sequences: measurement.sequences)
  }

  /// Bytes read per second; nil for prefill, which memory does not bound.
  private func bytesPerSecond(_ measurement: Measurement) -> Double? {
    guard measurement.phase == .decode, let speed = measurement.speed else { return nil }
    return speed.median * Double(bytesPerToken(measurement))
  }

  var json: JSONValue {
    [
      "model": .string(model), "compute": .string(compute), "threads": .int(threads),
      "prefill_tokens_per_second": first(.prefill), "decode_tokens_per_second": first(.decode),
      "load_seconds": .double(loadSeconds), "peak_rss_bytes": .int(peakResidentBytes),
      "weight_bytes_per_token": .int(reads.weights), "kv_bytes_per_context_token": .int(reads.keysValues),
      "state_bytes_per_sequence": .int(reads.state),
      "memory_read_bytes_per_second": .double(readBytesPerSecond),
      "decode_share_of_read_loop": readShare.json,
      "decode_share_beside_forward": besideForward.json,
      "speculation": speculation.map { ["right": $0.right.json, "wrong": $0.wrong.json] } ?? .null,
      "tokenizer_bytes_per_second": Self.number(tokenizerBytesPerSecond),
      "measurements": .array(
        measurements.map { m in
          [
            "phase": .string(m.phase.rawValue), "depth": .int(m.depth), "sequences": .int(m.sequences),
            "tokens": .int(m.tokens), "tokens_per_second": Self.number(m.speed?.median),
            "least": Self.number(m.speed?.least), "largest": Self.number(m.speed?.largest),
            "bytes_per_second": Self.number(bytesPerSecond(m)),
          ]
        }),
    ]
  }

  var csv: String {
    (["phase,depth,sequences,tokens,tokens_per_second,least,largest,gigabytes_per_second,ceiling_share"]
      + measurements.map { m in
        func cell(_ value: Double?, _ digits: Int = 2) -> String { value.map { fixed($0, digits) } ?? "" }
        let rate = bytesPerSecond(m)
        return [
          m.phase.rawValue, "\(m.depth)", "\(m.sequences)", "\(m.tokens)", cell(m.speed?.median),
          cell(m.speed?.least), cell(m.speed?.largest), cell(rate.map { $0 / 1e9 }),
          cell(rate.map { $0 / readBytesPerSecond }, 3),
        ].joined(separator: ",")
      }).joined(separator: "\n")
  }

  /// - Parameter width: of the terminal; nil for lines of any length.
  func table(width: Int?) -> String {
    func percent(_ share: Spread, _ digits: Int) -> String {
      let (median, least, largest) = (100 * share.median, 100 * share.least, 100 * share.largest)
      return "\(fixed(median, digits)) % (\(fixed(least, digits)) - \(fixed(largest, digits)))"
    }
    func megabytes(_ bytes: Int) -> String { fixed(Double(bytes) / 1e6) + " MB" }
    var facts = [
      ("model", model),
      ("compute", "\(compute), \(threads) threads"),
      ("load", "\(fixed(loadSeconds, 3)) s, peak memory \(megabytes(peakResidentBytes))"),
      (
        "reads",
        "\(megabytes(reads.weights)) of weights per token, "
          + (reads.state > 0 ? "\(megabytes(reads.state)) of state, " : "")
          + "and \(fixed(Double(reads.keysValues) / 1e3)) kB per token of context; a plain read loop reaches "
          + "\(fixed(readBytesPerSecond / 1e9)) GB/s"
      ),
      ("in turns", "decoding reads \(percent(readShare, 0)) of what the loop does"),
      ("steps", "sampling and sending, beside the forward pass: \(percent(besideForward, 1))"),
    ]
    if let speculation {
      func times(_ spread: Spread) -> String {
        "\(fixed(spread.median, 2)) (\(fixed(spread.least, 2)) - \(fixed(spread.largest, 2)))"
      }
      facts.append(
        (
          "guesses",
          "decoding is \(times(speculation.right)) times as fast if all guesses are right, "
            + "\(times(speculation.wrong)) times if all are wrong"
        ))
    }
    if let tokenizerBytesPerSecond {
      facts.append(("tokenizer", "\(fixed(tokenizerBytesPerSecond / 1e6)) MB/s of English prose"))
    }
    let lines = facts.map { Paragraph.wrapped($0.1, after: $0.0, column: 10, width: width ?? .max) } + [""]
    let header = [
      "phase", "depth", "seqs", "tokens", "tokens/s", "least - largest", "MB/tok", "GB/s", "of loop",
    ]
    // The spread goes first where the terminal is narrow, and what was measured last.
    let rows = Table.lines(header, measurements.map(row), width: width, dispensable: [5, 6, 2, 8, 1])
    let unmeasured = measurements.filter { $0.speed == nil }.map {
      "\($0.phase.rawValue) after \($0.depth) tokens was not measured: there was no room to keep them"
    }
    return (lines + rows + unmeasured).joined(separator: "\n")
  }

  private func row(_ m: Measurement) -> [String] {
    func cell(_ value: Double?, _ digits: Int, _ unit: String = "") -> String {
      value.map { fixed($0, digits) + unit } ?? ""
    }
    let rate = bytesPerSecond(m)
    return [
      m.phase.rawValue, "\(m.depth)", "\(m.sequences)", "\(m.tokens)", cell(m.speed?.median, 2),
      m.speed.map { "\(fixed($0.least, 2)) - \(fixed($0.largest, 2))" } ?? "",
      cell(rate.map { _ in Double(bytesPerToken(m)) / 1e6 }, 1), cell(rate.map { $0 / 1e9 }, 2),
      cell(rate.map { 100 * $0 / readBytesPerSecond }, 0, " %"),
    ]
  }
}
