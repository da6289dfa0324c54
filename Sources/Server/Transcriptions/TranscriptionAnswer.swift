// Transcripts in OpenAI's words: JSON objects, and the events of a stream.

import Inference
import JSON
import Pipeline
import Tokenizers
import Wire

struct TranscriptionAnswer {
  let form: TranscriptionForm
  let translates: Bool
  let tokenizer: Tokenizer

  /// Hundredths of a second.
  private func rounded(_ seconds: Double) -> JSONValue { .double((seconds * 100).rounded() / 100) }

  private func duration(_ seconds: Double) -> JSONValue {
    ["type": "duration", "seconds": .int(Int(seconds.rounded(.up)))]
  }

  func json(_ transcript: SpeechTranscript) -> JSONValue {
    guard form.format == .verbose else {
      var object = JSONObject([("text", .string(transcript.text)), ("usage", duration(transcript.seconds))])
      if form.wantsLogprobs { object["logprobs"] = logprobs(transcript.segments) }
      return .object(object)
    }
    let language = translates ? "english" : SpeechLanguage.name(of: transcript.language)
    var object = JSONObject([
      ("task", translates ? "translate" : "transcribe"), ("language", .string(language)),
      ("duration", rounded(transcript.seconds)), ("text", .string(transcript.text)),
    ])
    if form.wantsSegments { object["segments"] = .array(transcript.segments.enumerated().map(segment)) }
    if form.wantsWords {
      object["words"] = .array(
        transcript.words.map { word in
          [
            "word": .string(word.text.drop(while: \.isWhitespace).description), "start": rounded(word.start),
            "end": rounded(word.end),
          ]
        })
    }
    object["usage"] = duration(transcript.seconds)
    return .object(object)
  }

  private func segment(_ index: Int, _ segment: SpeechSegment) -> JSONValue {
    [
      "id": .int(index), "seek": .int(segment.seek), "start": rounded(segment.start),
      "end": rounded(segment.end), "text": .string(segment.text),
      "tokens": .array(segment.tokens.map { .int(Int($0)) }),
      "temperature": .double(Double(segment.temperature)),
      "avg_logprob": .double(segment.averageLogprob),
      "compression_ratio": .double(segment.compressionRatio),
      "no_speech_prob": .double(segment.noSpeechProbability),
    ]
  }

  private func logprobs(_ segments: [SpeechSegment]) -> JSONValue {
    .array(
      segments.flatMap { segment in
        zip(segment.tokens, segment.logprobs).map { token, logprob -> JSONValue in
          let bytes = tokenizer.bytes(of: token)
          return [
            "token": .string(String(decoding: bytes, as: UTF8.self)),
            "bytes": .array(bytes.map { .int(Int($0)) }), "logprob": .double(Double(logprob)),
          ]
        }
      })
  }

  // MARK: Events

  /// - Parameter text: of the segment; the first one's without its blank.
  func delta(_ segment: SpeechSegment, _ text: String) -> JSONValue {
    var object = JSONObject([("type", "transcript.text.delta"), ("delta", .string(text))])
    if form.wantsLogprobs { object["logprobs"] = logprobs([segment]) }
    return .object(object)
  }

  /// - Parameter text: all deltas, one after the other.
  func done(_ transcript: SpeechTranscript, _ text: String) -> JSONValue {
    var object = JSONObject([("type", "transcript.text.done"), ("text", .string(text))])
    if form.wantsLogprobs { object["logprobs"] = logprobs(transcript.segments) }
    let (heard, written) = (
      Int((transcript.seconds * 50).rounded(.up)), transcript.segments.reduce(0) { $0 + $1.tokens.count }
    )
    object["usage"] = [
      "type": "tokens", "input_tokens": .int(heard), "output_tokens": .int(written),
      "total_tokens": .int(heard + written),
      "input_token_details": ["audio_tokens": .int(heard), "text_tokens": 0],
    ]
    return .object(object)
  }
}
