// Names of repositories on the hub as people type them: `owner/name`, with a revision after `@` or `:`.

/// A repository with a model, `owner/name`; a few old ones have no owner.
package struct RepositoryName: Sendable, Hashable {
  /// As the hub has it.
  package let text: String

  package static func == (a: Self, b: Self) -> Bool { a.text.utf8.elementsEqual(b.text.utf8) }

  package func hash(into hasher: inout Hasher) { for byte in text.utf8 { hasher.combine(byte) } }

  private static let lengthLimit = 96

  /// - Throws: `badName` with the rule that the text breaks.
  package init(_ text: String) throws(HubError) {
    func check(_ isRight: Bool, _ problem: String) throws(HubError) {
      guard isRight else { throw .badName(text, problem: problem) }
    }
    let bytes = Array(text.utf8)
    try check(
      (1...Self.lengthLimit).contains(bytes.count), "it has no letters, or more than \(Self.lengthLimit)")
    let parts = bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
    try check(parts.count <= 2, "it is 'owner/name'")
    for part in parts {
      try check(
        !part.isEmpty && part.allSatisfy(Self.isNameByte),
        "it has letters, digits, '-', '_' and '.', as 'owner/name'")
      let ends = [part.first, part.last]
      try check(
        !ends.contains(UInt8(ascii: "-")) && !ends.contains(UInt8(ascii: ".")),
        "no part begins or ends with '-' or '.'")
    }
    for (first, second) in zip(bytes, bytes.dropFirst()) where first == second {
      try check(first != UInt8(ascii: "-") && first != UInt8(ascii: "."), "it holds '--' or '..'")
    }
    try check(!text.lowercased().hasSuffix(".git"), "it ends with '.git'")
    self.text = text
  }

  /// Without the owner.
  package var name: String { text.split(separator: "/").last.map(String.init) ?? text }

  /// The name of its folder in the cache.
  package var folder: String { "models--" + text.split(separator: "/").joined(separator: "--") }

  /// From the name of a folder in the cache; nil for any other folder.
  package init?(folder: String) {
    guard folder.hasPrefix("models--") else { return nil }
    let rest = Array(folder.utf8.dropFirst(8))
    guard let name = try? RepositoryName(Self.joined(rest)) else { return nil }
    self = name
  }

  /// The first `--` stands for the slash.
  private static func joined(_ bytes: [UInt8]) -> String {
    let dash = UInt8(ascii: "-")
    for index in bytes.indices.dropLast() where bytes[index] == dash && bytes[index + 1] == dash {
      return String(decoding: bytes[..<index], as: UTF8.self) + "/"
        + String(decoding: bytes[(index + 2)...], as: UTF8.self)
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  private static func isNameByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
      true
    default: false
    }
  }
}

/// A repository, and which of its states is meant.
package struct ModelReference: Sendable, Hashable {
  package let repository: RepositoryName
  /// A branch, a tag or a commit; nil when none was named.
  package var revision: String?
  /// Which of its GGUF files is meant, such as `Q4_K_M`; nil for a model in safetensors.
  package var quantization: String?

  package init(_ repository: RepositoryName, revision: String? = nil, quantization: String? = nil) {
    (self.repository, self.revision, self.quantization) = (repository, revision, quantization)
  }

  /// What is meant where nothing is said.
  package static let usualRevision = "main"
  package var revisionName: String { revision ?? Self.usualRevision }

  /// Reads a short name of `KnownModels`, with the tags that Ollama's have, `owner/name`, `owner/name@revision`,
  /// `owner/name:revision`, `owner/name:Q4_K_M` for one of its GGUF files, `hf://owner/name`, or the address of the model's page at the hub, also without its scheme.
  ///
  /// - Parameter host: of the hub.
  package init(_ text: String, host: String) throws(HubError) {
    if let known = KnownModels.find(text) {
      self.init(try RepositoryName(known.repository))
      return
    }
    var rest = text
    var revision: String?
    var quantization: String?
    if let page = try Self.page(text, host: host) {
      (rest, revision) = page
    } else {
      for prefix in ["hf://", host + "/", Self.shortHost(of: host) + "/"] where rest.hasPrefix(prefix) {
        rest = String(rest.dropFirst(prefix.count))
        break
      }
      let marks = [UInt8(ascii: "@"), UInt8(ascii: ":")]
      if let mark = rest.utf8.firstIndex(where: { marks.contains($0) }) {
        revision = String(rest[rest.index(after: mark)...])
        rest = String(rest[..<mark])
      }
      // How Ollama's clients and llama.cpp's name a model's usual state, and one of its files.
      if revision?.lowercased() == "latest" { revision = nil }
      if let tag = revision, QuantizedFiles.isTag(tag) { (revision, quantization) = (nil, tag.uppercased()) }
    }
    let repository = try RepositoryName(rest)
    if let revision { try Self.check(revision, of: text) }
    self.init(repository, revision: revision, quantization: quantization)
  }

  /// The name that the hub's addresses have in short.
  private static func shortHost(of host: String) -> String { host == "huggingface.co" ? "hf.co" : host }

  /// - Throws: when it cannot be a branch, a tag or a commit.
  package static func check(_ revision: String, of text: String) throws(HubError) {
    let bytes = Array(revision.utf8)
    let parts = bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
    let isPlain =
      (1...200).contains(bytes.count)
      && bytes.allSatisfy { $0 > 0x20 && $0 != 0x7F && $0 != UInt8(ascii: "\\") }
      && parts.allSatisfy { !$0.isEmpty && $0.first != UInt8(ascii: ".") }
    guard isPlain else { throw .badName(text, problem: "its revision is not a branch, tag or commit") }
  }

  /// A pasted address: what follows the name says `tree/REVISION`, `blob/REVISION/FILE` or something else.
  private static func page(_ text: String, host: String) throws(HubError) -> (String, String?)? {
    let scheme = ["https://", "http://"].first { text.hasPrefix($0) }
    guard let scheme else { return nil }
    let parts =
      text.dropFirst(scheme.utf8.count).split { $0 == "?" || $0 == "#" }.first?
      .split(separator: "/").map(String.init) ?? []
    guard let first = parts.first?.lowercased(), [host, shortHost(of: host)].contains(first) else {
      throw .badName(text, problem: "it is an address at another place than the hub, \(host)")
    }
    guard parts.count >= 3 else { throw .badName(text, problem: "the address is not that of a model's page") }
    let hasRevision = parts.count >= 5 && ["tree", "blob", "resolve"].contains(parts[3])
    return (parts[1] + "/" + parts[2], hasRevision ? parts[4] : nil)
  }
}
