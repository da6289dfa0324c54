// Schemas of what the routes of recordings read and answer.

enum OpenAPITranscriptions {
  /// Of forms, in JSON Schema, members of an object.
  static let requests = #"""
    "TranscriptionForm": {"type": "object", "required": ["file", "model"], "properties": {
      "file": {"type": "string", "format": "binary", "description": "a recording"},
      "model": {"type": "string", "description": "one that transcribes; OpenAI's names mean the first such"},
      "language": {"type": "string", "description": "a code or an English name; it is detected without"},
      "languages": {"type": "array", "items": {"type": "string"}, "maxItems": 1},
      "prompt": {"type": "string", "description": "what was said before, or names as they are spelt"},
      "keywords": {"type": "array", "items": {"type": "string"}, "description": "added to the prompt"},
      "response_format": {"enum": ["json", "text", "srt", "verbose_json", "vtt"]},
      "temperature": {"type": "number", "minimum": 0, "maximum": 1},
      "seed": {"type": "integer", "minimum": 0},
      "timestamp_granularities": {"type": "array", "items": {"enum": ["segment", "word"]},
        "description": "with verbose_json"},
      "include": {"type": "array", "items": {"enum": ["logprobs"]}, "description": "with json"},
      "stream": {"type": "boolean", "description": "with json or text: an event for each segment"},
      "chunking_strategy": {"type": "string", "description": "`auto`, or an object as text: windows stand for themselves"}}},
    "TranslationForm": {"type": "object", "required": ["file", "model"], "properties": {
      "file": {"type": "string", "format": "binary"}, "model": {"type": "string"}, "prompt": {"type": "string"},
      "response_format": {"enum": ["json", "text", "srt", "verbose_json", "vtt"]},
      "temperature": {"type": "number", "minimum": 0, "maximum": 1}}}
    """#

  /// In the notation of `OpenAPIResponses`, members of an object.
  static let answers = #"""
    "AnyTranscription": "Transcription|VerboseTranscription|Text",
    "TranscriptionAbilities": {"formats": ["string"], "languages": ["string"], "translates": "boolean",
      "seconds": "integer"},
    "SoundDuration": {"type": "'duration'", "seconds": "integer"},
    "SoundTokens": {"type": "'tokens'", "input_tokens": "integer", "output_tokens": "integer",
      "total_tokens": "integer", "input_token_details": {"audio_tokens": "integer", "text_tokens": "integer"}},
    "Transcription": {"text": "string", "usage": "SoundDuration", "logprobs?": ["TokenLogprob"]},
    "TranscriptSegment": {"id": "integer", "seek": "integer", "start": "number", "end": "number", "text": "string",
      "tokens": ["integer"], "temperature": "number", "avg_logprob": "number", "compression_ratio": "number",
      "no_speech_prob": "number"},
    "VerboseTranscription": {"task": "'transcribe'|'translate'", "language": "string", "duration": "number",
      "text": "string", "segments?": ["TranscriptSegment"],
      "words?": [{"word": "string", "start": "number", "end": "number"}], "usage": "SoundDuration"},
    "TranscriptDelta": {"type": "'transcript.text.delta'", "delta": "string", "logprobs?": ["TokenLogprob"]},
    "TranscriptDone": {"type": "'transcript.text.done'", "text": "string", "logprobs?": ["TokenLogprob"],
      "usage": "SoundTokens"},
    "TranscriptionEvent": "TranscriptDelta|TranscriptDone"
    """#
}
