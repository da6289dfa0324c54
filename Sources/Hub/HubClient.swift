// The hub's API, as far as a download needs it: which commit a revision is, which files it has, and their bytes.

import Fetch
import JSON
import Platform

/// What surrounds a request.
struct HubSession: Sendable {
  /// Asked many times a second.
  let isUnwanted: @Sendable () -> Bool
  /// Tells a person something.
  let note: @Sendable (String) -> Void
}

/// Facts about a repository at one commit.
struct RepositoryInfo: Sendable {
  let commit: String
  /// Whether its terms must be accepted.
  let isGated: Bool
  let licence: String?
}

struct HubClient: Sendable {
  let settings: HubSettings
  private let curl: Curl
  private let session: HubSession
  /// Warnings of the hub that have been told.
  private let told = Monitor<Set<String>>([])

  private static let answerLimit = 8 << 20
  private static let redirectLimit = 5
  private static let pageLimit = 1000
  private static let fileLimit = 200_000

  init(_ settings: HubSettings, session: HubSession) throws(HubError) {
    (self.settings, self.session) = (settings, session)
    curl = Curl(program: try HubSettings.curl.get(), ledger: settings.ledger)
  }

  // MARK: Questions

  /// The commit that a revision is now, and what is known of the repository.
  func info(_ repository: RepositoryName, revision: String) throws(HubError) -> RepositoryInfo {
    let path = "/api/models/\(repository.text)/revision/\(Self.encoded(revision, keeps: ""))"
    let (answer, _) = try document(path, repository, revision: revision)
    guard let commit = answer["sha"]?.stringValue, FileDigest.isHexadecimal(commit, count: 40) else {
      throw .notTheHub(host: settings.host, problem: "its answer names no commit")
    }
    if answer["disabled"]?.boolValue == true { throw .disabled(repository, message: nil) }
    let gated = answer["gated"]
    return RepositoryInfo(
      commit: commit, isGated: gated?.stringValue != nil || gated?.boolValue == true,
      licence: answer["cardData"]?["license"]?.stringValue)
  }

  /// All files of a commit.
  func files(_ repository: RepositoryName, commit: String) throws(HubError) -> [RepositoryFile] {
    var files: [RepositoryFile] = []
    var path: String? = "/api/models/\(repository.text)/tree/\(commit)?recursive=true&expand=false"
    for _ in 0..<Self.pageLimit {
      guard let page = path else { return files }
      let (answer, head) = try document(page, repository, revision: commit)
      guard let entries = answer.arrayValue else {
        throw .notTheHub(host: settings.host, problem: "its list of files is \(answer.kind)")
      }
      for entry in entries {
        if let file = try RepositoryFile.read(entry) { files.append(file) }
      }
      guard files.count <= Self.fileLimit else { break }
      path = try nextPage(head)
    }
    throw .badAnswer(what: repository.text, problem: "it has more than \(Self.fileLimit) files")
  }

  /// Names of branches and tags; none when they cannot be had.
  private func revisions(_ repository: RepositoryName) -> [String] {
    guard let answer = try? document("/api/models/\(repository.text)/refs", repository, revision: "").0 else {
      return []
    }
    return ["branches", "tags"].flatMap { answer[$0]?.arrayValue ?? [] }.prefix(10).compactMap {
      $0["name"]?.stringValue
    }
  }

  /// What `Link: <url>; rel="next"` says. Mirrors pass on the hub's own address: only what follows the host is taken.
  private func nextPage(_ head: Curl.Head) throws(HubError) -> String? {
    for link in head["link"]?.split(separator: ",") ?? [] {
      guard link.contains("rel=\"next\""), let start = link.firstIndex(of: "<"),
        let end = link[start...].firstIndex(of: ">")
      else { continue }
      let text = String(link[link.index(after: start)..<end])
      guard let url = try? settings.place.target(of: text) else {
        throw .badRedirect("its next page is not an address")
      }
      // Below the endpoint's own path, if it has one.
      let prefix = base.dropFirst(settings.place.origin.utf8.count)
      return url.target.hasPrefix(prefix) ? String(url.target.dropFirst(prefix.utf8.count)) : url.target
    }
    return nil
  }

  /// A JSON document of the API, asked for again while the hub has passing troubles.
  private func document(
    _ path: String, _ repository: RepositoryName, revision: String
  ) throws(HubError) -> (JSONValue, Curl.Head) {
    var patience = Patience()
    var url = try address(path)
    var hops = 0
    while true {
      var found: Curl.Head?
      var body: [UInt8] = []
      let ending = try send(
        request(url, bytes: Self.answerLimit),
        head: { head in
          found = head
          return true
        },
        body: { bytes in
          body += bytes
          return body.count <= Self.answerLimit
        })
      if ending == .cancelled { throw .cancelled }
      guard let head = found, ending == .complete else {
        try wait(&patience, after: found, ending, url)
        continue
      }
      warn(head)
      switch head.status {
      case 200:
        do {
          return (try JSONValue(parsing: body, maxValues: 400_000), head)
        } catch {
          throw .notTheHub(host: settings.host, problem: "its answer is not JSON")
        }
      case 301, 302, 303, 307, 308:
        hops += 1
        url = try moved(url, head, hops: hops)
      case let status where Patience.isPassing(status):
        try wait(&patience, after: head, .complete, url)
      default: throw refusal(head, repository, revision: revision, path: nil)
      }
    }
  }

  // MARK: Bytes

  /// Fetches what a partial file lacks; goes on where a broken transfer ended.
  ///
  /// - Returns: when the file has all its bytes, or more are sent than it may have. Whether they are right, its digest says.
  func load(
    _ partial: PartialFile, of repository: RepositoryName, commit: String, rateLimit: Int?
  ) throws(HubError) {
    let path = Self.encoded(partial.file.path, keeps: "/")
    let first = try address("/\(repository.text)/resolve/\(commit)/\(path)")
    var patience = Patience()
    while partial.missingBytes > 0 {
      let before = partial.missingBytes
      // A signed address lives for an hour: each try begins at the hub.
      let (head, ending) = try transfer(partial, of: repository, commit, from: first, rateLimit: rateLimit)
      if before - partial.missingBytes >= Patience.progressBytes { patience.reset() }
      guard !partial.isTooLong else { return }
      switch (head?.status, ending) {
      case (200, .complete), (206, .complete):
        // Where all that the server has is here, another try would bring the same: the list is wrong, or the file.
        guard partial.missingBytes > 0, head.flatMap(Self.total) != partial.count else { return }
        try wait(&patience, after: nil, .failed(Curl.Failure("the answer ended early")), first)
      case (416, _):
        try partial.restart()
        try wait(
          &patience, after: nil, .failed(Curl.Failure("it has fewer bytes than its list of files says")),
          first)
      case (200, _), (206, _), (nil, _): try wait(&patience, after: nil, ending, first)
      case (_, _): try wait(&patience, after: head, .complete, first)
      }
    }
  }

  /// One try, through all redirects.
  ///
  /// - Returns: the last head, of a body or of a passing trouble; nil when none came.
  private func transfer(
    _ partial: PartialFile, of repository: RepositoryName, _ commit: String, from first: WebURL,
    rateLimit: Int?
  ) throws(HubError) -> (Curl.Head?, Curl.Ending) {
    var url = first
    var hops = 0
    while true {
      var found: Curl.Head?
      var failure: HubError?
      let start = partial.count
      var request = request(url, bytes: partial.missingBytes)
      (request.start, request.rateLimit) = (start, rateLimit)
      // The hub is to count a download.
      if hops == 0 { request.fields.append("X-HF-Download-Counter: 1") }
      func isTaken(_ step: () throws(HubError) -> Bool) -> Bool {
        do throws(HubError) {
          return try step()
        } catch {
          failure = error
          return false
        }
      }
      let ending = try send(
        request,
        head: { head in
          found = head
          guard head.status == 200 || head.status == 206 else { return false }
          return isTaken { () throws(HubError) in
            guard start > 0, !Self.begins(head, at: start) else { return true }
            try partial.restart()
            // The first bytes of a whole answer are those that are missing now.
            return head.status == 200
          }
        },
        body: { bytes in isTaken { () throws(HubError) in try partial.append(bytes) } })
      if let failure { throw failure }
      guard ending != .cancelled else { throw .cancelled }
      guard let head = found else { return (nil, ending) }
      warn(head)
      if hops == 0, (200..<400).contains(head.status), head["x-repo-commit"] == nil {
        throw .notTheHub(host: settings.host, problem: "its answer for a file names no commit")
      }
      switch head.status {
      case 301, 302, 303, 307, 308:
        hops += 1
        url = try moved(url, head, hops: hops)
      case 200, 206, 416: return (head, ending)
      // The signature of its address has expired.
      case 401 where hops > 0, 403 where hops > 0: return (Curl.Head(status: 503, fields: []), .complete)
      case let status where Patience.isPassing(status): return (head, .complete)
      default: throw refusal(head, repository, revision: commit, path: partial.file.path)
      }
    }
  }

  /// Bytes of the whole file, as an answer with a part of it or with all of it says.
  private static func total(_ head: Curl.Head) -> Int? {
    let said =
      head.status == 206 ? head["content-range"]?.split(separator: "/").last : head["content-length"]?[...]
    return said.flatMap { Int($0) }
  }

  /// Whether a partial answer begins where it was asked to (RFC 9110 section 14.4).
  private static func begins(_ head: Curl.Head, at start: Int) -> Bool {
    guard head.status == 206, let range = head["content-range"] else {
      return head.status == 206 && start == 0
    }
    let digits = range.lowercased().drop { !$0.isNumber }.prefix { $0.isNumber }
    return Int(digits) == start
  }

  // MARK: Places

  private var base: String {
    settings.place.origin + (settings.place.target == "/" ? "" : settings.place.target)
  }

  private func address(_ path: String) throws(HubError) -> WebURL {
    do {
      return try WebURL(base + path)
    } catch {
      throw .badSetting(name: "HF_ENDPOINT", problem: "cannot be used: \(error)")
    }
  }

  /// The token is for the hub alone.
  private func request(_ url: WebURL, bytes: Int) -> Curl.Request {
    var request = Curl.Request(url: url, bytes: bytes)
    request.userAgent = settings.userAgent
    (request.connectSeconds, request.stallSeconds) = (settings.connectSeconds, settings.stallSeconds)
    if url.origin.utf8.elementsEqual(settings.place.origin.utf8), let token = settings.token?.value {
      request.fields.append("Authorization: Bearer \(token)")
    }
    return request
  }

  private func send(
    _ request: Curl.Request, head: (Curl.Head) -> Bool, body: (ArraySlice<UInt8>) -> Bool
  ) throws(HubError) -> Curl.Ending {
    do throws(FetchError) {
      return try curl.send(request, isUnwanted: session.isUnwanted, head: head, body: body)
    } catch .badURL(let problem) {
      throw .badRedirect("the address cannot be used: \(problem)")
    } catch {
      throw .noProgram("\(curl.program) cannot be started")
    }
  }

  private func moved(_ url: WebURL, _ head: Curl.Head, hops: Int) throws(HubError) -> WebURL {
    guard hops <= Self.redirectLimit else {
      throw .badRedirect("to more than \(Self.redirectLimit) places in a row")
    }
    guard let location = head["location"], let target = try? url.target(of: location) else {
      throw .badRedirect("to what is not an http or https address")
    }
    guard target.isSecure || !settings.place.isSecure else {
      throw .badRedirect("from https to http, at \(target.host)")
    }
    guard !target.isLoopback || settings.place.isLoopback else {
      throw .badRedirect("to this machine itself")
    }
    return target
  }

  /// Percent-encodes all but unreserved characters (RFC 3986) and those of `keeps`.
  static func encoded(_ text: String, keeps: String) -> String {
    var out: [UInt8] = []
    for byte in text.utf8 {
      let isPlain =
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20) && byte < 0x80
        || "-._~".utf8.contains(byte) || keeps.utf8.contains(byte)
      if isPlain {
        out.append(byte)
      } else {
        let digits = String(byte, radix: 16, uppercase: true)
        out += Array((digits.utf8.count == 1 ? "%0" : "%").utf8) + Array(digits.utf8)
      }
    }
    return String(decoding: out, as: UTF8.self)
  }

  // MARK: Troubles

  /// Waits before another try.
  ///
  /// - Throws: when there have been enough of them.
  private func wait(
    _ patience: inout Patience, after head: Curl.Head?, _ ending: Curl.Ending, _ url: WebURL
  ) throws(HubError) {
    let problem: String
    switch ending {
    case .cancelled: throw .cancelled
    case .failed(let failure) where failure.isLasting:
      throw .unreachable(host: url.host, problem: failure.words)
    case .failed(let failure): problem = failure.words
    case .complete, .refused: problem = "status \(head?.status ?? 0)"
    }
    guard let seconds = patience.pause(after: ending == .complete ? head : nil) else {
      if let head, ending == .complete {
        throw .status(head.status, what: "a request", message: Self.message(head))
      }
      throw .unreachable(host: url.host, problem: problem)
    }
    let tenths = Int(seconds * 10)
    let words = tenths % 10 == 0 ? "\(tenths / 10)" : "\(tenths / 10).\(tenths % 10)"
    session.note(
      head?.status == 429
        ? "rate limited, waiting \(words) s" : "\(url.host): \(problem); again in \(words) s")
    let until = Instant.now.adding(seconds: seconds)
    while Instant.now < until {
      if session.isUnwanted() { throw .cancelled }
      usleep(20_000)
    }
  }

  /// Tells a warning of the hub, `topic; text`, once for each topic.
  private func warn(_ head: Curl.Head) {
    for field in head.fields where field.name.utf8.elementsEqual("x-hf-warning".utf8) {
      let parts = field.value.split(separator: ";", maxSplits: 1)
      let topic = String(parts.first ?? "")
      guard told.withLock({ $0.insert(topic).inserted }) else { continue }
      session.note("the hub warns: \(HubError.plain(String(parts.last ?? "").trimmingSpaces))")
    }
  }

  private static func message(_ head: Curl.Head) -> String? {
    var words = head["x-error-message"].map { HubError.plain($0) }
    for name in ["x-request-id", "x-amzn-trace-id", "x-amz-cf-id"] {
      guard let id = head[name], words != nil else { continue }
      words? += ", request \(HubError.plain(id))"
      break
    }
    return words
  }

  /// What a final status means. A missing repository is 401 to strangers, who are not to learn which exist.
  private func refusal(
    _ head: Curl.Head, _ repository: RepositoryName, revision: String, path: String?
  ) -> HubError {
    let message = Self.message(head)
    let page = settings.endpoint + "/" + repository.text
    let source = settings.token?.source
    let said = head["x-error-message"]?.lowercased() ?? ""
    switch (head.status, head["x-error-code"]) {
    case (_, "GatedRepo"):
      return .gated(repository, page: page, hasToken: head.status == 403 || source != nil)
    case (404, "RevisionNotFound"): return .noRevision(revision, repository, known: revisions(repository))
    case (404, "EntryNotFound"): return .noFile(path ?? "", repository)
    case (401, _) where source != nil && said.contains("invalid credentials"):
      return .badToken(source: source ?? "")
    case (401, _) where source != nil && said.contains("invalid username"):
      return .badToken(source: source ?? "")
    case (401, _), (404, _): return .notFound(repository, hasToken: source != nil, message: message)
    case (403, _) where said.contains("disabled"): return .disabled(repository, message: message)
    case (403, _): return .forbidden(repository, message: message)
    case (let status, _): return .status(status, what: path ?? repository.text, message: message)
    }
  }
}

extension String {
  /// Without spaces at both ends.
  fileprivate var trimmingSpaces: String {
    var text = self[...]
    while text.first == " " { text.removeFirst() }
    while text.last == " " { text.removeLast() }
    return String(text)
  }
}
