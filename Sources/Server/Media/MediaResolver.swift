// From the parts of a request to what the model's encoders take: finds the bytes, decodes them, brings them to size.

import Fetch
import HTTP
import JSON
import Media
import Pipeline
import Platform
import Wire

/// Where media may come from, and the desk where they are made ready. Shared by all requests.
struct MediaSources: Sendable {
  let desk: MediaDesk
  /// Nil where nothing is fetched.
  let fetcher: Fetcher?
  /// The folder whose files `file://` URLs may name; nil for none.
  let root: String?
}

/// Belongs to one request: what it has found stays, because a prompt may be made several times until it fits.
final class MediaResolver {
  private let sources: MediaSources
  private let model: LoadedModel
  /// Parts of a multipart body by name.
  private let attachments: [ByteKey: [UInt8]]
  /// Whether nobody waits for the answer any more; the compiler of its patterns asks it, too.
  let isUnwanted: () -> Bool
  /// What has been found, by the field that holds it.
  private var passages: [ByteKey: MediaPassage] = [:]
  /// Time for everything that a request has fetched, seconds.
  private static let fetchSeconds = 30.0
  /// When everything that is fetched must be there.
  private lazy var deadline = Instant.now.adding(seconds: Self.fetchSeconds)

  /// - Parameter isUnwanted: whether nobody waits for the answer any more; asked while something is fetched or
  ///   waits for its turn to be decoded.
  init(
    _ sources: MediaSources, model: LoadedModel, attachments: [ByteKey: [UInt8]],
    isUnwanted: @escaping () -> Bool
  ) {
    (self.sources, self.model, self.attachments) = (sources, model, attachments)
    self.isUnwanted = isUnwanted
  }

  /// - Throws: 400 naming the field, when the model takes no such thing or the bytes are no such thing.
  func passage(of part: MediaPart) throws(APIError) -> MediaPassage {
    if let known = passages[ByteKey(part.field)] { return known }
    let passage = try makePassage(of: part)
    passages[ByteKey(part.field)] = passage
    return passage
  }

  private func makePassage(of part: MediaPart) throws(APIError) -> MediaPassage {
    switch part.content {
    case .image(let url, let detail):
      guard let rules = model.media.images else {
        throw refusal(part, "images", .image, flag: "--no-vision")
      }
      return try image(bytes(at: url, of: part), rules.budgets.tokens(for: detail), rules, part)
    case .audio(let data, let format):
      guard let rules = model.media.audio else {
        throw refusal(part, "sound", .audio, flag: "--no-audio")
      }
      guard format.lowercased().utf8.elementsEqual("wav".utf8) else {
        throw .unsupportedValue(
          "\(part.path).input_audio.format", "'\(APIError.shortened(format))' has no reader here; send 'wav'")
      }
      return try audio(bytes(of: data, part), rules, part)
    }
  }

  /// - Parameter flag: what takes the encoder from a model that has one.
  private func refusal(_ part: MediaPart, _ what: String, _ kind: MediaKind, flag: String) -> APIError {
    let isOff = model.media.switchedOff.contains(kind)
    let cause =
      isOff
      ? ": this server was started with \(flag)" : model.media.absences[kind].map { ": " + $0 } ?? ""
    return .unsupportedValue("\(part.path).type", "the model '\(model.id)' takes no \(what)" + cause)
  }

  // MARK: Audio

  private func audio(
    _ bytes: [UInt8], _ rules: MediaRules.Audio, _ part: MediaPart
  ) throws(APIError) -> MediaPassage {
    let key = SHA256.digest(Array("sound\n".utf8) + SHA256.digest(bytes))
    return try sources.desk.input(key, for: part.field, isUnwanted: isUnwanted) { loan throws(APIError) in
      do throws(AudioError) {
        return try rules.passage(bytes, claim: loan.extend)
      } catch {
        if case .noMemory = error {
          throw .overloaded("'\(part.field)' was not read: \(error) at the moment.", param: part.field)
        }
        throw APIError(
          status: 400, code: "invalid_audio", param: part.field, message: "Invalid '\(part.field)': \(error)")
      }
    }
  }

  /// Base64, with or without the head of a data URL, or what is attached.
  private func bytes(of data: String, _ part: MediaPart) throws(APIError) -> [UInt8] {
    if let name = part.attachment { return try attachment(name, part) }
    guard let bytes = Base64.decode(DataURL(data)?.encoded ?? data) else {
      throw .invalidValue(part.field, "it is not base64")
    }
    return bytes
  }

  // MARK: Images

  private func image(
    _ bytes: [UInt8], _ tokens: Int, _ rules: any ImageProcessor, _ part: MediaPart
  ) throws(APIError) -> MediaPassage {
    let key = SHA256.digest(Array("image \(tokens)\n".utf8) + SHA256.digest(bytes))
    return try sources.desk.input(key, for: part.field, isUnwanted: isUnwanted) { loan throws(APIError) in
      do throws(MediaError) {
        let limits = ImageLimits(claim: loan.extend)
        let file = try PictureFile.decodable(bytes, limits: limits, isUnwanted: isUnwanted)
        return try rules.passage(file, tokens: tokens, limits: limits)
      } catch {
        if case .noMemory = error {
          throw .overloaded("'\(part.field)' was not read: \(error) at the moment.", param: part.field)
        }
        throw .unusableMedia(part.field, "\(error)")
      }
    }
  }

  // MARK: Bytes

  /// The bytes that a URL stands for.
  private func bytes(at url: String, of part: MediaPart) throws(APIError) -> [UInt8] {
    func starts(_ scheme: String) -> Bool {
      String(decoding: url.utf8.prefix(scheme.utf8.count), as: UTF8.self).lowercased() == scheme
    }
    if starts("data:") {
      guard let data = DataURL("data:" + String(decoding: url.utf8.dropFirst(5), as: UTF8.self)),
        let bytes = Base64.decode(data.encoded)
      else { throw .invalidValue(part.field, "it is not a base64 data URL") }
      return bytes
    }
    if let name = part.attachment { return try attachment(name, part) }
    if starts("file:") { return try file(url, part) }
    if starts("http:") || starts("https:") { return try fetched(url, part) }
    throw .invalidValue(part.field, "expected a data URL: 'data:image/png;base64,...'")
  }

  private func attachment(_ name: String, _ part: MediaPart) throws(APIError) -> [UInt8] {
    guard let bytes = attachments[ByteKey(name)] else {
      throw .invalidValue(
        part.field, "the request has no part named '\(APIError.shortened(name))' (multipart/form-data)")
    }
    return bytes
  }

  private func fetched(_ url: String, _ part: MediaPart) throws(APIError) -> [UInt8] {
    guard let fetcher = sources.fetcher else {
      throw .unsupportedValue(
        part.field,
        "this server fetches nothing from the network (--allow-media-urls is not set); send the bytes in a data URL"
      )
    }
    do throws(FetchError) {
      return try fetcher.bytes(at: url, until: deadline, isUnwanted: isUnwanted)
    } catch {
      throw APIError(error, param: part.field)
    }
  }

  private func file(_ url: String, _ part: MediaPart) throws(APIError) -> [UInt8] {
    guard let root = sources.root else {
      throw .unsupportedValue(part.field, "this server reads no files (--media-root is not set)")
    }
    guard let path = Self.path(ofFileURL: url) else {
      throw .invalidValue(part.field, "expected 'file:///' and a path below the server's media folder")
    }
    do throws(PlatformError) {
      return try File.read(path, below: root, limit: Self.fileBytes)
    } catch {
      // Whether a file exists elsewhere is nobody's business: one answer for all reasons.
      throw .invalidValue(part.field, "there is no such file below the server's media folder")
    }
  }

  private static let fileBytes = 64 << 20

  /// The components of `file:///a/b` or `file://localhost/a/b`, percent-decoded; nil for a URL of another shape.
  static func path(ofFileURL url: String) -> [String]? {
    var rest = Array(url.utf8.dropFirst(5))
    guard rest.starts(with: "//".utf8) else { return nil }
    rest.removeFirst(2)
    guard let slash = rest.firstIndex(of: UInt8(ascii: "/")) else { return nil }
    let host = String(decoding: rest[..<slash], as: UTF8.self).lowercased()
    guard host.isEmpty || host == "localhost" else { return nil }
    var components: [String] = []
    for piece in rest[(slash + 1)...].split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: true) {
      guard let bytes = RequestTarget.percentDecoded(piece),
        let name = String(validating: bytes, as: UTF8.self)
      else {
        return nil
      }
      components.append(name)
    }
    return components.isEmpty ? nil : components
  }
}

extension ImageBudgets {
  /// The budget of soft tokens that stands for a level of detail.
  func tokens(for detail: ImageDetail) -> Int {
    switch detail {
    case .auto: usual
    case .low: low
    case .high: high
    case .original: most
    }
  }
}

extension APIError {
  fileprivate init(_ error: FetchError, param: String) {
    switch error {
    case .unwanted: self = APIError(AnswerFailure.clientGone, param: param)
    case .busy:
      self = .overloaded(
        "'\(param)' was not fetched: this server fetches too many other images at the moment.", param: param)
    case .noProgram:
      self = .unsupportedValue(
        param, "this server cannot fetch it: \(error); send the bytes in a data URL")
    case .unlistedHost(let host):
      self = .unsupportedValue(param, "this server fetches nothing from '\(host)' (--media-url-host)")
    default:
      self.init(
        status: 400, code: "invalid_image_url", param: param, message: "Invalid '\(param)': \(error).")
    }
  }

  /// A part of the request had no turn in time.
  static func overloaded(_ message: String, param: String) -> APIError {
    APIError(
      status: 503, type: "server_error", code: "overloaded", param: param, message: message, retryAfter: 5)
  }

  static func unusableMedia(_ param: String, _ problem: String) -> APIError {
    APIError(status: 400, code: "invalid_image", param: param, message: "Invalid '\(param)': \(problem).")
  }
}
