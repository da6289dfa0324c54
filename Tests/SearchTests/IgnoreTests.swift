// Files that are left out are those that git leaves out.

import Platform
import Support
import Testing

@testable import Search

@Suite struct IgnoreTests {
  @Test func `patterns of a .gitignore decide`() {
    var rules = IgnoreRules()
    rules.add(Array("# comment\n*.log\n/build\nlogs/\n!keep.log\ndoc/**/x.txt\na?c\n".utf8), folder: "")
    rules.add(Array("own.txt\n".utf8), folder: "sub")
    for (path, isFolder, expected) in [
      ("a.log", false, true), ("d/a.log", false, true), ("keep.log", false, false), ("build", true, true),
      ("d/build", true, false), ("logs", true, true), ("logs", false, false), ("doc/x.txt", false, true),
      ("doc/a/b/x.txt", false, true), ("abc", false, true), ("abbc", false, false),
      ("sub/own.txt", false, true),
      ("own.txt", false, false),
    ] { #expect(rules.ignores(path, isFolder: isFolder) == expected, "\(path)") }
    var hostile = IgnoreRules()
    hostile.add(Array((String(repeating: "*a", count: 200) + "\n").utf8), folder: "")
    #expect(!hostile.ignores(String(repeating: "a", count: 199) + "b", isFolder: false))
    hostile.add(Array((String(repeating: "**/a/", count: 20) + "x\n").utf8), folder: "")
    let deep = String(repeating: "a/", count: 60)
    #expect(!hostile.ignores(deep + "b", isFolder: false) && hostile.ignores(deep + "x", isFolder: false))
  }

  @Test(arguments: [
    ("[a-c]x", "bx", true), ("[a-c]x", "dx", false), ("[!a-c]x", "dx", true), ("[^a-c]x", "bx", false),
    ("[]-]", "]", true), ("[]-]", "-", true), ("[[:digit:]]x", "7x", true), ("[[:digit:]]x", "ax", false),
    ("[[:nothing:]]", "n", false), ("[a", "a", false), ("[a", "[a", false), ("\\*.md", "*.md", true),
    ("\\*.md", "a.md", false), ("\\#a", "#a", true), ("#a", "#a", false), ("\\!a", "!a", true),
    ("a\\", "a", false),
    ("a  ", "a", true), ("a\\ ", "a ", true), (" a", " a", true), (" a", "a", false), ("a\r", "a", true),
    ("\u{FEFF}a", "a", true), ("?", "é", false), ("??", "é", true), ("**", "a/b", true),
    ("a/**", "a/b/c", true),
    ("a/**", "a", false), ("**/b", "a/c/b", true), ("a/**/b", "a/b", true), ("a**b", "a/b", false),
    ("a**/b", "ac/b", true), ("/a*/b", "ac/b", true), ("/a*/b", "ac/d/b", false), ("a/?", "a/b", true),
    ("a?b", "a/b", false),
    ("/*", "a", true), ("/*", "a/b", false), ("*/b", "a/b", true), ("//a", "a", false),
  ])
  func `patterns have the meaning that git gives them`(pattern: String, path: String, isIgnored: Bool) {
    var rules = IgnoreRules()
    rules.add(Array(pattern.utf8), folder: "")
    #expect(rules.ignores(path, isFolder: false) == isIgnored, "\(pattern) and \(path)")
  }

  @Test func `what is above the folder holds for it within a repository, and only there`() throws {
    let folder = "/tmp/mlxserve-above-\(getpid())"
    defer { try? File.removeAll(folder) }
    let notes = folder + "/a/notes"
    try File.makeFolders(notes)
    func write(_ path: String, _ text: String) throws {
      try File.replace(folder + "/" + path, with: Array(text.utf8))
    }
    try write(".gitignore", "*.tmp\n/a/notes/top.md\nown.md\n/low.md\n")
    try write("a/.gitignore", "notes/middle.md\n!keep.tmp\n")
    try write("a/notes/.gitignore", "!own.md\n")
    let names = ["x.tmp", "keep.tmp", "top.md", "middle.md", "own.md", "low.md", "excluded.md"]
    func ignored() -> [String] {
      let rules = IgnoreRules(for: notes)
      return names.filter { rules.ignores($0, isFolder: false) }
    }
    #expect(ignored() == [])
    try File.makeFolders(folder + "/.git/info")
    try write(".git/info/exclude", "excluded.md\nkeep.tmp\n")
    #expect(ignored() == ["x.tmp", "top.md", "middle.md", "excluded.md"])
    // Another working tree names the repository in a file.
    try File.makeFolders(folder + "/main/.git/worktrees/a")
    try File.makeFolders(folder + "/main/.git/info")
    try write("main/.git/worktrees/a/commondir", "../..\n")
    try write("main/.git/info/exclude", "low.md\n")
    try File.removeAll(folder + "/.git")
    try write(".git", "gitdir: \(folder)/main/.git/worktrees/a\n")
    #expect(ignored() == ["x.tmp", "top.md", "middle.md", "low.md"])
  }
}

/// What `git check-ignore` says is what the rules say, for patterns and paths by chance. Skipped where there is no git.
@Suite(.enabled(if: ChildProcess.find("git") != nil)) struct GitTests {
  private static let pieces = [
    "a", "b", "c", "ab", ".", "*", "**", "?", "/", "//", "\\", "\\*", "\\a", " ", "[ab]", "[!a]", "[^b]",
    "[a-c]", "[]a]", "[[:alpha:]]",
    "[[:digit:]b]", "[a", "[b-]", "[\\]]", "é", "#", "!", "-", "]", "**/", "/**", "/**/", "*/", "/*", "\r",
    "\t", "[c-a]", "[[:x:]]", "[[:]",
  ]
  private static let names = [
    "a", "b", "c", "ab", "abc", "ba", "a.b", "é", "#a", "!b", "a b", "a ", "[a", "*", "\\", "-", "]", "1",
    "ac", "bb", "A",
  ]

  @Test func `the rules are those of git`() throws {
    let git = try #require(ChildProcess.find("git"))
    let folder = "/tmp/mlxserve-git-\(getpid())"
    defer { try? File.removeAll(folder) }
    try File.makeFolders(folder)
    var random = SeededGenerator(seed: 11)
    func pick<Element>(_ list: [Element]) throws -> Element {
      try #require(list.randomElement(using: &random))
    }
    // One tree for all: files and folders with names that patterns like.
    var paths: [(path: String, isFolder: Bool)] = []
    func fill(_ place: String, depth: Int) throws {
      for name in Set((0..<5).map { _ in Self.names.randomElement(using: &random) ?? "a" }).sorted() {
        let path = place.isEmpty ? name : place + "/" + name
        let isFolder = depth < 3 && Bool.random(using: &random)
        paths.append((path, isFolder))
        if isFolder {
          try File.makeFolders(folder + "/" + path)
          try fill(path, depth: depth + 1)
        } else {
          try File.replace(folder + "/" + path, with: [])
        }
      }
    }
    try fill("", depth: 0)
    let list = folder + "-paths"
    defer { try? File.removeAll(list) }
    try File.replace(list, with: Array(paths.map { $0.path + "\0" }.joined().utf8))
    func run(_ words: String) throws -> [UInt8] {
      let settings = "-c core.excludesFile=/dev/null -c core.ignoreCase=false"
      return try ChildProcess.run(
        "/bin/sh", ["-c", "exec \(git) -C \(folder) \(settings) \(words) < \(list)"],
        bounds: ChildProcess.Bounds(memory: 1 << 30, seconds: 60), outputLimit: 1 << 24,
        until: Instant.now.adding(seconds: 60)
      ).output
    }
    _ = try run("init -q")
    let folders = [""] + paths.filter(\.isFolder).map(\.path)
    var compared = 0
    for round in 0..<200 {
      var texts: [String: String] = [:]
      for place in [""] + (0..<3).map({ _ in folders.randomElement(using: &random) ?? "" }) {
        let lines = try (0..<Int.random(in: 1...6, using: &random)).map { _ in
          let pattern = try (0..<Int.random(in: 1...5, using: &random)).map { _ in try pick(Self.pieces) }
            .joined()
          return (Int.random(in: 0..<5, using: &random) == 0 ? "!" : "") + pattern
        }
        texts[place] =
          (round % 7 == 0 ? "\u{FEFF}" : "") + lines.joined(separator: "\n") + (round % 2 == 0 ? "\n" : "")
      }
      for (place, text) in texts {
        try File.replace(folder + "/" + place + "/.gitignore", with: Array(text.utf8))
      }
      defer { for place in texts.keys { try? File.removeAll(folder + "/" + place + "/.gitignore") } }
      let output = try run("check-ignore --no-index -z --stdin")
      let expected = Set(output.split(separator: 0).map { String(decoding: $0, as: UTF8.self) })
      // A folder that is left out is not entered.
      var rules = IgnoreRules()
      rules.addFile(of: folder, folder: "")
      var closed: [String] = []
      for (path, isFolder) in paths {
        let isIgnored =
          closed.contains { path.hasPrefix($0 + "/") } || rules.ignores(path, isFolder: isFolder)
        if isIgnored {
          closed.append(path)
        } else if isFolder {
          rules.addFile(of: folder + "/" + path, folder: path)
        }
        compared += 1
        if isIgnored != expected.contains(path) {
          Issue.record("\(path) is \(isIgnored ? "" : "not ")left out by \(texts)")
        }
      }
    }
    #expect(compared > 10_000)
  }
}
