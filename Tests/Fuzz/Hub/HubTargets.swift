// Answers of the hub, and the names that it is asked for.

import Driver
import JSON
import Platform

@testable import Fetch
@testable import Hub

@_cdecl("fuzz_hub_main")
public func main(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) -> CInt {
  Fuzz.run(count, arguments, ["hub": HubTargets.hub])
}

enum HubTargets {
  /// The first byte chooses what the rest is.
  static func hub(_ bytes: [UInt8]) {
    let rest = Array(bytes.dropFirst())
    let text = String(decoding: rest, as: UTF8.self)
    switch bytes.first ?? 0 {
    case 0:
      let entries = (try? JSONValue(parsing: rest))?.arrayValue ?? []
      let files = entries.compactMap { (try? RepositoryFile.read($0)) ?? nil }
      for file in files { check(!file.parts.contains(".."), "a file of a repository stays below it") }
      _ = files.reduce(0) { $0 + $1.bytes }
      _ = FileSelection.problem(with: files)
    case 1:
      let head = Curl.parse(rest[...])
      var patience = Patience()
      _ = patience.pause(after: head)
      _ = Patience.resetSeconds(head["ratelimit"])
    case 2:
      guard let reference = try? ModelReference(text, host: "hub.example") else { return }
      check(!reference.repository.folder.contains("/"), "a repository has one folder")
    case 3:
      guard let name = try? RepositoryName("owner/name") else { return }
      _ = try? FileSelection().files(of: [], index: try? JSONValue(parsing: rest), name)
    default:
      _ = File.matches("model-00001-of-00002.safetensors", pattern: text)
    }
  }
}
