// `mlxserve transcribe`: what is said in sound files, as text or subtitles.

import Inference
import JSON
import Media
import Pipeline
import Platform

enum TranscribeCommand {
  /// Most bytes of a file.
  private static let fileLimit = 2 << 30

  private struct Problem: Error, CustomStringConvertible {
    let description: String
  }

  @Sendable static func run(_ given: ParsedFlags) throws -> Int32 {
    Log.configure(level: .warning, json: false)
    var flags = given
    guard !flags.arguments.isEmpty else { throw UsageError.missingArgument("FILE") }
    let format: TranscriptFormat = try flags.word(.format) ?? .txt
    let output = flags[.output]
    if let output, flags.arguments.count > 1, !File.isDirectory(output) {
      throw UsageError.unusable(
        flag: "output", reason: "several files need a folder: \(Terminal.safe(output)) is none")
    }
    if flags[.model] == nil { flags.set(.model, to: try chosen(flags)) }
    let configuration = try Loading.engineConfiguration(flags)
    let (model, engine) = try Terminal.showingProgress("loading \(configuration.modelPath)") {
      try LoadedModel.open(configuration)
    }
    defer { engine.stop() }
    guard let service = model.transcriber else {
      throw Problem(description: "\(model.id) does not transcribe: name a Whisper model with --model")
    }
    for path in flags.arguments {
      let request = try request(path, flags, service.vocabulary)
      // Plain text appears as it is written down.
      let isLive = format == .txt && output == nil && !flags[.beside]
      let transcript = try transcribe(request, service, name: path, isLive: isLive)
      let text = Self.text(transcript, format, path)
      if flags[.beside] {
        try OutputFile.write(Array(text.utf8), to: Self.stem(path) + "." + format.rawValue)
      } else if let output {
        let name = Self.stem(path.split(separator: "/").last.map(String.init) ?? path)
        let target = File.isDirectory(output) ? "\(output)/\(name).\(format.rawValue)" : output
        try OutputFile.write(Array(text.utf8), to: target)
      } else if !isLive {
        Terminal.write(text)
      }
    }
    return ExitCode.success
  }

  /// The only model of the cache that transcribes.
  private static func chosen(_ flags: ParsedFlags) throws -> String {
    let names = ModelLocator.here(try flags.hubSettings())
      .filter { LoadedModel.transcribes($0.path) }.map(\.name)
    guard names.count == 1, let name = names.first else {
      throw Problem(
        description: names.isEmpty
          ? "no model that transcribes is here: 'mlxserve pull openai/whisper-small' fetches one, and --model names a folder"
          : "several models transcribe: name one with --model (\(names.joined(separator: ", ")))")
    }
    return name
  }

  private static func request(
    _ path: String, _ flags: ParsedFlags, _ vocabulary: SpeechVocabulary
  ) throws -> SpeechRequest {
    let samples: [Float]
    do throws(AudioError) {
      samples = try SoundFile.samples(try read(path))
    } catch {
      throw Problem(description: "\(Terminal.safe(path)): \(error)")
    }
    var request = SpeechRequest(samples: samples)
    if let name = flags[.language] {
      guard let code = vocabulary.language(name) else {
        throw UsageError.unusable(flag: "language", reason: "the model does not know \(Terminal.safe(name))")
      }
      request.language = code
    }
    request.translates = flags[.translate]
    if request.translates, !vocabulary.translates {
      throw UsageError.unusable(flag: "translate", reason: "this model hears English alone")
    }
    request.prompt = flags[.prompt] ?? ""
    request.temperature = flags[.temperature].map { Float($0) } ?? 0
    request.wantsWords = flags[.words]
    return request
  }

  private static func read(_ path: String) throws(AudioError) -> [UInt8] {
    do { return try File.read(path, limit: fileLimit) } catch {
      throw .unreadable("\(error)")
    }
  }

  private static func transcribe(
    _ request: SpeechRequest, _ service: any SpeechService, name: String, isLive: Bool
  ) throws -> SpeechTranscript {
    var (transcript, bar) = (SpeechTranscript(seconds: request.seconds), ProgressBar())
    let (job, begin) = (try service.submit(request), Instant.now)
    defer { bar.clear() }
    while true {
      switch job.next(until: Instant.now.adding(seconds: 1)) {
      case .element(.language(let code)): transcript.language = code
      case .element(.segments(let segments, let done)):
        transcript.segments += segments
        if isLive, !segments.isEmpty {
          bar.clear()
          for segment in segments {
            Terminal.print(Terminal.safe(String(segment.text.drop(while: \.isWhitespace))))
          }
        }
        let speed = done / max(0.01, Instant.now.seconds(since: begin))
        bar.show(
          Int(done), of: Int(request.seconds.rounded(.up)),
          [
            Terminal.safe(name), "\(Self.clock(done)) of \(Self.clock(request.seconds))",
            "\(fixed(speed, 1)) x",
          ])
      case .element(.finished): return transcript
      case .element(.failed(let error)): throw error
      case .closed: throw InferenceError.draining
      case .timedOut: break
      }
    }
  }

  private static func clock(_ seconds: Double) -> String {
    let all = Int(seconds)
    let rest = String(all % 60)
    return "\(all / 60):" + (rest.utf8.count < 2 ? "0" : "") + rest
  }

  private static func text(_ transcript: SpeechTranscript, _ format: TranscriptFormat, _ path: String)
    -> String
  {
    switch format {
    case .txt: transcript.text + "\n"
    case .srt: transcript.srt
    case .vtt: transcript.vtt
    case .json: Self.json(transcript, path).text + "\n"
    }
  }

  private static func json(_ transcript: SpeechTranscript, _ path: String) -> JSONValue {
    func rounded(_ seconds: Double) -> JSONValue { .double((seconds * 100).rounded() / 100) }
    return [
      "file": .string(path), "language": .string(transcript.language),
      "duration": rounded(transcript.seconds),
      "text": .string(transcript.text),
      "segments": .array(
        transcript.segments.map { segment in
          var object = JSONObject([
            ("start", rounded(segment.start)), ("end", rounded(segment.end)), ("text", .string(segment.text)),
            ("avg_logprob", .double(segment.averageLogprob)),
          ])
          if !segment.words.isEmpty {
            object["words"] = .array(
              segment.words.map { word in
                ["word": .string(word.text), "start": rounded(word.start), "end": rounded(word.end)]
              })
          }
          return .object(object)
        }),
    ]
  }

  /// A path without the ending of its file.
  private static func stem(_ path: String) -> String {
    guard let dot = path.lastIndex(of: "."), !path[dot...].contains("/"), dot > path.startIndex else {
      return path
    }
    return String(path[..<dot])
  }
}
