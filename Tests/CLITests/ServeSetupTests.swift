// Flags of the server that decide who may come in and how much is too much.

import Fetch
import HTTP
import Media
import Platform
import Server
import Testing

@testable import CLI

@Suite struct ServeSetupTests {
  private func parse(_ arguments: String...) throws -> ParsedFlags {
    try ParsedFlags(arguments, flags: Command.all[0].flags)
  }

  private func refusal(_ arguments: String...) throws -> String? {
    let flags = try ParsedFlags(arguments, flags: Command.all[0].flags)
    do {
      _ = try ServeSetup.access(flags)
      _ = try ServeSetup.place(flags)
      return nil
    } catch let error as UsageError {
      return error.description
    }
  }

  @Test func `other machines are let in with a key or on purpose`() throws {
    for host in ["0.0.0.0", "::", "192.168.1.5", "box.example"] {
      let message = try #require(try refusal("--host", host))
      #expect(message.hasPrefix("--host \(host) lets other machines in"))
      #expect(message.contains("--api-key-file") && message.contains("--allow-anonymous"))
      #expect(try refusal("--host", host, "--api-key", "k") == nil)
      #expect(try refusal("--host", host, "--allow-anonymous") == nil)
    }
    for host in ["127.0.0.1", "localhost", "::1", "[::1]"] { #expect(try refusal("--host", host) == nil) }
    #expect(try refusal("--host", "[::]")?.hasPrefix("--host :: lets other machines in") == true)
    #expect(try refusal("--unix", "/tmp/s") == nil)
  }

  @Test func `a model in the Hub's cache is called by its repository, whichever folder is named`() throws {
    var template = Array("/tmp/mlxserve-hub-XXXXXX".utf8CString)
    let made = template.withUnsafeMutableBufferPointer { $0.baseAddress.flatMap(mkdtemp) }
    let root = String(cString: try #require(made))
    let repository = root + "/models--owner--Tiny-4bit"
    let snapshot = repository + "/snapshots/0123abcd"
    let folders = [repository, repository + "/refs", repository + "/snapshots", snapshot]
    defer {
      unlink(repository + "/refs/main")
      for folder in folders.reversed() + [root] { rmdir(folder) }
    }
    for folder in folders { try #require(mkdir(folder, 0o700) == 0) }
    try SystemFiles().writeDurably(Array("0123abcd".utf8), folder: repository + "/refs", name: "main")
    for path in [repository, snapshot] {
      #expect(try FleetFlags(parse("--model", path)).catalog.sources.map(\.id) == ["Tiny-4bit"])
    }
  }

  @Test func `a Unix socket stands alone unless TCP is asked for`() throws {
    #expect(ServeSetup.listensOnTCP(try parse()))
    #expect(!ServeSetup.listensOnTCP(try parse("--unix", "/s")))
    #expect(ServeSetup.listensOnTCP(try parse("--unix", "/s", "--port", "0")))
    #expect(ServeSetup.listensOnTCP(try parse("--unix", "/s", "--host", "::1")))
  }

  @Test func `values that cannot be meant are refused`() throws {
    #expect(try refusal("--unix", "/s", "--unix-mode", "0o600")?.contains("octal") == true)
    #expect(try refusal("--unix", "/s", "--unix-mode", "1000")?.contains("octal") == true)
    #expect(try refusal("--unix", "/s", "--unix-mode", "660") == nil)
    #expect(try refusal("--unix-mode", "600") == "--unix-mode needs --unix")
    #expect(try refusal("--allow-host", "a:80")?.contains("without a port") == true)
    #expect(try refusal("--allow-host", "a b")?.contains("without a port") == true)
    for name in ["*", "box.example", "fe80::1", "[fe80::1]"] {
      #expect(try refusal("--allow-host", name) == nil, "\(name)")
    }
    for origin in ["https://a.example/", "a.example", "https://", "https:/a"] {
      #expect(try refusal("--allow-origin", origin)?.contains("as browsers send them") == true, "\(origin)")
    }
    for origin in ["*", "null", "https://a.example:8443", "tauri://localhost"] {
      #expect(try refusal("--allow-origin", origin) == nil, "\(origin)")
    }
  }

  @Test func `URLs of images are off unless allowed, and hosts can be named`() throws {
    #expect(try ServeSetup.mediaURLs(try parse())?.hosts == nil)
    #expect(try ServeSetup.mediaURLs(try parse("--allow-media-urls"))?.hosts == [])
    let named = try parse(
      "--allow-media-urls", "--media-url-host", "Store:9000", "--media-url-host", "[::1]")
    #expect(
      try ServeSetup.mediaURLs(named)?.hosts == [
        FetchRules.Host(name: "store", port: 9000), FetchRules.Host(name: "::1", port: nil),
      ])
    for wrong in [["--media-url-host", "a"], ["--allow-media-urls", "--media-url-host", "http://a/"]] {
      let flags = try ParsedFlags(wrong, flags: Command.all[0].flags)
      #expect(throws: UsageError.self) { try ServeSetup.mediaURLs(flags) }
    }
  }

  @Test func `how requests are read is as it was unless a flag says otherwise`() throws {
    let usual = try ServeSetup.settings(try parse())
    #expect(!usual.strictParameters && !usual.isHistoryStrict && !usual.refusesHostedTools)
    #expect(usual.maxAnswer == 32_768)
    #expect(try ServeSetup.settings(try parse("--max-answer", "9")).maxAnswer == 9)
    #expect(try ServeSetup.settings(try parse("--max-answer", "0")).maxAnswer == .max)
    #expect(try ServeSetup.settings(try parse("--strict-history")).isHistoryStrict)
    #expect(usual.keptLines.isEmpty)
    let kept = try ServeSetup.settings(try parse("--keep-lines", "goose", "--keep-lines", "claude-code"))
      .keptLines
    #expect(Set(kept.map { "\($0)" }) == ["goose", "claudeCode"])
    #expect(try !ServeSetup.settings(try parse("--strict-params")).isHistoryStrict)
  }

  @Test func `encoders are read when they are needed, or at the start`() throws {
    let usual = Loading.mediaOptions(try parse())
    #expect(usual.isLazy && usual.vision && usual.audio)
    let eager = Loading.mediaOptions(try parse("--no-lazy-encoders", "--no-vision"))
    #expect(!eager.isLazy && !eager.vision && eager.audio)
  }

  @Test(arguments: [
    ("[::1]", "::1"), ("::1", "::1"), ("[FE80::1]", "fe80::1"), ("[::1]:80", "[::1]:80"), ("[box]", "[box]"),
    ("0.0.0.0", "0.0.0.0"),
  ])
  func `an IPv6 address may stand in brackets`(given: String, host: String) throws {
    #expect(ServeSetup.host(try parse("--host", given)) == host)
  }

  @Test func `there are no more connections than descriptors`() throws {
    #expect(ServeSetup.limits(try parse(), descriptors: 65_536).connections == 1024)
    #expect(ServeSetup.limits(try parse(), descriptors: 1024).connections == 768)
    #expect(ServeSetup.limits(try parse("--max-connections", "5000"), descriptors: 4096).connections == 3840)
  }

  @Test func `the doctor says how many connections there can be`() {
    let enough = DoctorCommand.descriptors(524_288)
    #expect(enough.status == .ok && enough.detail == "524288 at once, enough for 1024 connections")
    let few = DoctorCommand.descriptors(1024)
    #expect(few.status == .note && few.detail == "1024 at once, enough for 768 connections")
    #expect(few.advice?.contains("ulimit -Hn") == true)
  }

  @Test func `limits are taken from flags`() throws {
    let limits = ServeSetup.limits(
      try parse(
        "--max-body", "512", "--header-timeout", "1.5", "--body-timeout", "2", "--idle-timeout", "3",
        "--max-connections", "7"))
    #expect(limits.bodyBytes == 512 << 20)
    #expect(limits.bufferedBodyBytes == 512 << 20)
    #expect(limits.headSeconds == 1.5 && limits.bodyWindowSeconds == 2 && limits.idleSeconds == 3)
    #expect(limits.connections == 7)
    #expect(ServeSetup.limits(try parse("--model", "/nonexistent")).bodyBytes == 8 << 20)
    // A model of the cache may take images.
    #expect(ServeSetup.limits(try parse()).bodyBytes == 48 << 20)
  }
}
