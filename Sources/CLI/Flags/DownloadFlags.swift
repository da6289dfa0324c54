// The flags of the commands that deal with the hub and its cache.

import Hub
import Platform

extension Flags {
  /// Where models are kept.
  static let cache = FlagGroup(
    title: "Cache",
    flags: [
      Flag(
        name: "cache-dir", kind: .text, placeholder: "DIR",
        defaultText: "MLXSERVE_CACHE, HF_HUB_CACHE, HF_HOME/hub or ~/.cache/huggingface/hub",
        help: "folder for downloaded models, shared with the hub's own tools")
    ])

  /// Of a server.
  static let servedHub = FlagGroup(
    title: "Hub",
    flags: [
      Flag(
        name: "allow-pull", kind: .toggle,
        help:
          "let clients download models (POST /models/pull) and use those of the cache by name")
    ] + cache.flags)

  static let pull = FlagGroup(
    title: "Download",
    flags: [
      Flag(
        name: "revision", kind: .text, placeholder: "R", defaultText: "main",
        help: "branch, tag or commit, like NAME@R"),
      Flag(
        name: "include", kind: .text, placeholder: "GLOB",
        help: "only files that match; '*' also matches '/'; may be repeated", isRepeatable: true),
      Flag(
        name: "exclude", kind: .text, placeholder: "GLOB", help: "no files that match; may be repeated",
        isRepeatable: true),
      Flag(name: "all-files", kind: .toggle, help: "also files that a server does not need"),
      Flag(
        name: "to", kind: .text, placeholder: "DIR", defaultText: "the cache",
        help: "a plain folder, with SHA256SUMS"),
      Flag(
        name: "jobs", kind: .integer(1...32), placeholder: "N", defaultText: "4",
        help: "files to fetch at the same time"),
      Flag(
        name: "limit-rate", kind: .text, placeholder: "SIZE", help: "limit in bytes per second, such as 5M"),
      Flag(name: "dry-run", kind: .toggle, help: "say what would be fetched, and stop"),
      Flag(
        name: "force", kind: .toggle,
        help: "fetch even what this program cannot serve or this machine cannot hold"),
      Flag(name: "json", kind: .toggle, help: "print every event as a line of JSON on standard output"),
      Flag(name: "quiet", kind: .toggle, help: "print only errors"),
      tokenFile,
    ])

  private static let tokenFile = Flag(
    name: "token-file", kind: .text, placeholder: "FILE",
    defaultText: "HF_TOKEN, or the file of the hub's own login",
    help: "token of your account at the hub, for gated and private models")

  /// Those of every command.
  static let configuration = FlagGroup(
    title: "Configuration",
    flags: [
      Flag(
        name: "config", kind: .text, placeholder: "FILE",
        defaultText: "~/.config/mlxserve/config, else /etc/mlxserve/config",
        help: "read flags from this file, one line 'name = value' each"),
      Flag(name: "no-config", kind: .toggle, help: "read no configuration file"),
    ])

  static let report = FlagGroup(
    title: "Report", flags: [Flag(name: "json", kind: .toggle, help: "print one JSON object")])

  static let config = FlagGroup(
    title: "Configuration",
    flags: [
      Flag(name: "show", kind: .toggle, help: "also flags at their default"),
      Flag(name: "json", kind: .toggle, help: "print one JSON array"),
    ])

  /// Where a server listens.
  static let place = FlagGroup(
    title: "Server", flags: serve.flags.filter { ["host", "port"].contains($0.name) })

  static let health = FlagGroup(
    title: "Health",
    flags: [
      Flag(
        name: "timeout", kind: .decimal(0.1...600), placeholder: "SECONDS", defaultText: "3",
        help: "how long to wait for an answer")
    ])

  static let knownModels = FlagGroup(
    title: "Models", flags: [Flag(name: "json", kind: .toggle, help: "print one JSON array")])

  static let list = FlagGroup(
    title: "List",
    flags: [
      Flag(name: "models-dir", kind: .text, placeholder: "DIR", help: "list the models of this folder too"),
      Flag(name: "all", kind: .toggle, help: "also repositories without a model for this program"),
      Flag(name: "names", kind: .toggle, help: "print only names, one per line, for scripts and shells"),
      Flag(name: "json", kind: .toggle, help: "print one JSON array"),
    ])

  static let show = FlagGroup(
    title: "Show",
    flags: [
      Flag(name: "remote", kind: .toggle, help: "ask the hub, and download only config.json"),
      Flag(
        name: "revision", kind: .text, placeholder: "R", defaultText: "main", help: "branch, tag or commit"),
      Flag(name: "json", kind: .toggle, help: "print one JSON object"),
      tokenFile,
    ])

  static let remove = FlagGroup(
    title: "Remove",
    flags: [Flag(name: "yes", kind: .toggle, help: "do not ask")])
}

extension ParsedFlags {
  /// Where the hub and the cache are.
  func hubSettings() throws(HubError) -> HubSettings {
    try HubSettings(
      cache: text("cache-dir"), tokenFile: text("token-file"), version: Version.text)
  }

  /// The bytes of a flag such as `--limit-rate`.
  func size(_ name: String) throws(UsageError) -> Int? {
    guard let text = text(name) else { return nil }
    guard !text.hasSuffix("%"), let bytes = MemoryLimit.parse(text, of: 0) else {
      throw .badValue(flag: name, value: text, expected: "a size such as 800K or 5M")
    }
    return bytes
  }
}
