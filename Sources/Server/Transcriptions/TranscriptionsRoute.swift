// POST /v1/audio/transcriptions and /v1/audio/translations: recordings as text.

import HTTP
import Inference
import JSON
import Media
import Pipeline
import Platform
import Wire

struct TranscriptionsRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let route = TranscriptionsRoute(server: server)
    return RouteTable(
      .openAI,
      [
        .post(
          "/v1/audio/transcriptions", "createTranscription", "Text of a recording, as multipart/form-data",
          gives: "AnyTranscription",
          { http, context throws(APIError) in try route.respond(http, context, translates: false) }
        ) {
          ($0.form, $0.otherTypes, $0.event) = ("TranscriptionForm", Self.types, "TranscriptionEvent")
        },
        .post(
          "/v1/audio/translations", "createTranslation",
          "English text of a recording, as multipart/form-data",
          gives: "AnyTranscription",
          { http, context throws(APIError) in try route.respond(http, context, translates: true) }
        ) { ($0.form, $0.otherTypes) = ("TranslationForm", Self.types) },
      ])
  }

  private static let types = ["text/plain", "text/vtt"]
  /// Names of OpenAI's models, which mean the first that hears.
  private static let others = [
    "", "whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe", "gpt-transcribe",
  ]

  private func respond(
    _ http: Request, _ context: ConnectionContext, translates: Bool
  ) throws(APIError) -> Response {
    // Its parts are copies.
    try claim(http.body.count, of: context.memory)
    let parts = try http.form(
      "A recording is sent as multipart/form-data with 'file' and 'model'.",
      limit: TranscriptionForm.mostParts)
    let form = try TranscriptionForm(parts, translates: translates)
    try server.ignore(form.ignored, for: context)
    let scope = try scope(form.model, context)
    guard let service = scope.model.transcriber else { throw .cannotTranscribe(model: scope.model.id) }
    var request = SpeechRequest(samples: try samples(form, context))
    request.language = try language(form, translates, service.vocabulary, scope.model.id)
    request.translates = translates
    request.prompt = form.prompt
    (request.temperature, request.seed) = (Float(form.temperature), form.seed)
    (request.looksBack, request.wantsWords) = (form.looksBack, form.wantsWords)
    let job: SpeechJob
    do throws(InferenceError) { job = try service.submit(request) } catch {
      throw APIError(error, param: "file")
    }
    let answer = TranscriptionAnswer(
      form: form, translates: translates, tokenizer: service.vocabulary.tokenizer)
    let run = TranscriptionRun(scope: scope, job: job, seconds: request.seconds)
    return form.streams ? run.stream(answer) : try run.response(answer, isUnwanted: context.isClientGone)
  }

  private func scope(_ name: String, _ context: ConnectionContext) throws(APIError) -> RequestScope {
    var name = name
    if Self.others.contains(name), server.models.catalog.resolve(name) == nil || name.isEmpty {
      let speech = server.models.statuses.first { status in
        status.model.map { $0.loaded.transcriber != nil }
          ?? LoadedModel.transcribes(status.source.path)
      }
      name = speech?.source.id ?? name
    }
    return try server.anyRequest(["model": .string(name)], for: context)
  }

  private func samples(_ form: TranscriptionForm, _ context: ConnectionContext) throws(APIError) -> [Float] {
    do throws(AudioError) {
      return try SoundFile.samples(
        form.file, ledger: server.models.ledger, claim: { context.memory?.extend(by: $0) ?? true },
        isUnwanted: context.isClientGone)
    } catch {
      switch error {
      case .noMemory(let bytes): throw .outOfMemory(needed: bytes, limit: context.memory?.limit ?? 0)
      case .tooLong:
        throw APIError(
          status: 413, code: "file_too_large", param: "file", message: "Invalid 'file': \(error)")
      case .tooShort, .noSamples:
        throw APIError(
          status: 400, code: "audio_too_short", param: "file", message: "Invalid 'file': \(error)")
      default: throw .invalidValue("file", "\(error)")
      }
    }
  }

  /// The code that the model is told.
  private func language(
    _ form: TranscriptionForm, _ translates: Bool, _ vocabulary: SpeechVocabulary, _ model: String
  ) throws(APIError) -> String? {
    if translates, !vocabulary.translates {
      throw APIError(
        status: 400, code: "unsupported_operation", param: "model",
        message: "The model '\(model)' hears English alone, and translates nothing. Use a multilingual one.")
    }
    guard let name = form.language else { return nil }
    guard let code = vocabulary.language(name) else {
      throw .unsupportedValue("language", "the model '\(model)' does not know '\(APIError.shortened(name))'")
    }
    return code
  }
}

/// A recording that is being written down for a client.
struct TranscriptionRun {
  /// Holds the model for as long as it lives.
  let scope: RequestScope
  let job: SpeechJob
  let seconds: Double

  private enum Failure: Error {
    case unwanted
    case engine(InferenceError)
  }

  /// - Parameter note: gets the segments of each window, and is asked now and then with none.
  private func collect(
    isUnwanted: () -> Bool, note: ([SpeechSegment]) throws -> Void = { _ in }
  ) throws -> SpeechTranscript {
    defer { job.cancel() }
    var transcript = SpeechTranscript(seconds: seconds)
    while true {
      switch job.next(until: Instant.now.adding(seconds: scope.settings.pollSeconds)) {
      case .element(.language(let code)): transcript.language = code
      case .element(.segments(let segments, _)):
        transcript.segments += segments
        try note(segments)
      case .element(.finished): return transcript
      case .element(.failed(let error)): throw Failure.engine(error)
      case .closed: throw Failure.engine(.draining)
      case .timedOut:
        if isUnwanted() { throw Failure.unwanted }
        try note([])
      }
    }
  }

  func response(_ answer: TranscriptionAnswer, isUnwanted: () -> Bool) throws(APIError) -> Response {
    let transcript: SpeechTranscript
    do { transcript = try collect(isUnwanted: isUnwanted) } catch { throw Self.error(error) }
    switch answer.form.format {
    case .json, .verbose: return Response(json: answer.json(transcript))
    case .text: return Self.text(transcript.text + "\n")
    case .srt: return Self.text(transcript.srt)
    case .vtt: return Self.text(transcript.vtt, type: "text/vtt")
    }
  }

  private static func text(_ text: String, type: String = "text/plain") -> Response {
    Response(contentType: type + "; charset=utf-8", bytes: Array(text.utf8))
  }

  private static func error(_ error: any Error) -> APIError {
    if case Failure.engine(let error) = error { return APIError(error, param: "file") }
    return APIError(AnswerFailure.clientGone, param: "file")
  }

  /// A delta for each segment: what has been sent is final.
  func stream(_ answer: TranscriptionAnswer) -> Response {
    let silence = scope.settings.keepAliveSeconds
    return Response.events { stream in
      var (text, lastSent) = ("", Instant.now)
      do {
        let transcript = try collect(isUnwanted: stream.isClientGone) { segments in
          for segment in segments {
            let piece = text.isEmpty ? String(segment.text.drop(while: \.isWhitespace)) : segment.text
            text += piece
            try stream.send(answer.delta(segment, piece).text, event: "transcript.text.delta")
            lastSent = Instant.now
          }
          guard silence > 0, Instant.now.seconds(since: lastSent) >= silence else { return }
          try stream.keepAlive()
          lastSent = Instant.now
        }
        try stream.send(answer.done(transcript, text).text, event: "transcript.text.done")
        stream.finish("[DONE]")
      } catch {
        stream.finishWithError(Wire.openAI.json(Self.error(error), "").text)
      }
    }
  }
}

extension APIError {
  static func cannotTranscribe(model: String) -> APIError {
    APIError(
      status: 400, code: "unsupported_operation", param: "model",
      message:
        "The model '\(model)' does not transcribe. Name one whose 'task' in /v1/models is 'transcribe'.")
  }

  static func onlyTranscribes(model: String) -> APIError {
    APIError(
      status: 400, code: "unsupported_operation", param: "model",
      message:
        "The model '\(model)' writes down recordings and takes no text. Use /v1/audio/transcriptions, or name a "
        + "chat model.")
  }
}
