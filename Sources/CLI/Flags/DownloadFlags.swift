// The flags of the commands that deal with the hub and its cache.

import Hub
import Platform

extension Flags {
  /// Where models are kept.
  static let cache = FlagGroup(
    "Cache",
    Flag(
      .cacheDir, "DIR",
      default: "MLXSERVE_CACHE, HF_HUB_CACHE, HF_HOME/hub or ~/.cache/huggingface/hub",
      "folder for downloaded models, shared with the hub's own tools"))

  /// Of a server.
  static let servedHub = FlagGroup(
    "Hub",
    of: [
      Flag(
        .allowPull,
        "let clients download models (POST /models/pull) and use those of the cache by name")
    ] + cache.flags)

  static let pull = FlagGroup(
    "Download",
    Flag(.revision, "R", default: "main", "branch, tag or commit, like NAME@R"),
    Flag(
      .include, "GLOB", "only files that match; '*' also matches '/'; may be repeated",
      isRepeatable: true),
    Flag(.exclude, "GLOB", "no files that match; may be repeated", isRepeatable: true),
    Flag(.allFiles, "also files that a server does not need"),
    Flag(.to, "DIR", default: "the cache", "a plain folder, with SHA256SUMS"),
    Flag(.jobs, "N", 1...32, default: "4", "files to fetch at the same time"),
    Flag(.limitRate, "SIZE", "limit in bytes per second, such as 5M"),
    Flag(.dryRun, "say what would be fetched, and stop"),
    Flag(.force, "fetch even what this program cannot serve or this machine cannot hold"),
    Flag(.json, "print every event as a line of JSON on standard output"),
    Flag(.quiet, "print only errors"),
    tokenFile)

  private static let tokenFile = Flag(
    .tokenFile, "FILE", default: "HF_TOKEN, or the file of the hub's own login",
    "token of your account at the hub, for gated and private models")

  /// Those of every command.
  static let configuration = FlagGroup(
    "Configuration",
    Flag(
      .config, "FILE", default: "~/.config/mlxserve/config, else /etc/mlxserve/config",
      "read flags from this file, one line 'name = value' each"),
    Flag(.noConfig, "read no configuration file"))

  static let report = FlagGroup("Report", Flag(.json, "print one JSON object"))

  static let config = FlagGroup(
    "Configuration",
    Flag(.show, "also flags at their default"),
    Flag(.json, "print one JSON array"))

  /// Where a server listens.
  static let place = FlagGroup(
    "Server", of: serve.flags.filter { ["host", "port"].contains($0.name) })

  static let health = FlagGroup(
    "Health",
    Flag(.timeout, "SECONDS", 0.1...600, default: "3", "how long to wait for an answer"))

  static let launch = FlagGroup(
    "Launch",
    Flag(.model, "ID", default: "the first that is loaded", "the model, as the server names it"),
    Flag(.apiKey, "KEY", "key that the server wants; better in the variable MLXSERVE_API_KEY"),
    Flag(.print, "only show what the agent has to know"),
    Flag(.write, "write settings into files without asking; what was there is kept beside them"),
    Flag(.noStart, "do not start the agent"))

  static let knownModels = FlagGroup("Models", Flag(.json, "print one JSON array"))

  static let list = FlagGroup(
    "List",
    Flag(.modelsDir, "DIR", "list the models of this folder too"),
    Flag(.all, "also repositories without a model for this program"),
    Flag(.names, "print only names, one per line, for scripts and shells"),
    Flag(.json, "print one JSON array"))

  static let show = FlagGroup(
    "Show",
    Flag(.remote, "ask the hub, and download only config.json"),
    Flag(.revision, "R", default: "main", "branch, tag or commit"),
    Flag(.json, "print one JSON object"),
    tokenFile)

  static let remove = FlagGroup(
    "Remove",
    of: [Flag(.yes, "do not ask")])
}

extension ParsedFlags {
  /// Where the hub and the cache are.
  func hubSettings() throws(HubError) -> HubSettings {
    try HubSettings(
      cache: self[.cacheDir], tokenFile: self[.tokenFile], version: Version.text)
  }

  /// The bytes of a flag such as `--limit-rate`.
  func size(_ flag: TextFlag) throws(UsageError) -> Int? {
    guard let text = self[flag] else { return nil }
    guard !text.hasSuffix("%"), let bytes = MemoryLimit.parse(text, of: 0) else {
      throw .badValue(flag: flag.name, value: text, expected: "a size such as 800K or 5M")
    }
    return bytes
  }
}
