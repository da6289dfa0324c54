// Names of models, folders that come and go, aliases.

import Platform
import Server
import Testing

/// A folder of model folders, removed with everything in it.
final class ModelsFolder {
  let path: String

  init(_ models: [String] = []) throws {
    var template = Array("/tmp/mlxserve-models-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw PlatformError.system(action: "make a folder", code: errno) }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    for model in models { add(model) }
  }

  /// A folder with a file in it.
  func add(_ name: String, file: String = "config.json") {
    mkdir(path + "/" + name, 0o700)
    close(open(path + "/" + name + "/" + file, O_WRONLY | O_CREAT, 0o600))
  }

  func remove(_ name: String) { Self.remove(path + "/" + name) }

  deinit { Self.remove(path) }

  private static func remove(_ path: String) {
    for name in (try? File.names(in: path)) ?? [] { remove(path + "/" + name) }
    if rmdir(path) != 0 { unlink(path) }
  }
}

struct ModelCatalogTests {
  private let a = ModelSource(id: "a", path: "/a")
  private let b = ModelSource(id: "org/b", path: "/b")

  @Test func `named models come in their order and are found by their bytes`() throws {
    let catalog = try ModelCatalog(named: [b, a])
    #expect(catalog.sources == [b, a])
    #expect(catalog.resolve("org/b") == b)
    #expect(catalog.resolve("A") == nil)
    // The same characters in other bytes are another name.
    let accented = try ModelCatalog(named: [ModelSource(id: "caf\u{E9}", path: "/c")])
    #expect(accented.resolve("caf\u{E9}") != nil)
    #expect(accented.resolve("cafe\u{301}") == nil)
  }

  @Test func `an alias stands for a model, and a model's own name comes first`() throws {
    let catalog = try ModelCatalog(named: [a, b], aliases: [.init(name: "gpt-4o", model: "org/b")])
    #expect(catalog.resolve("gpt-4o") == b)
    #expect(catalog.aliases(of: "org/b") == ["gpt-4o"])
    #expect(catalog.aliases(of: "a") == [])
  }

  @Test func `a star stands for every other name`() throws {
    let catalog = try ModelCatalog(
      named: [a, b], aliases: [.init(name: "*", model: "org/b"), .init(name: "x", model: "a")])
    #expect(catalog.resolve("gpt-anything")?.id == "org/b")
    #expect(catalog.resolve("a")?.id == "a" && catalog.resolve("x")?.id == "a")
  }

  @Test func `what cannot be meant is refused`() {
    #expect(throws: ModelCatalog.Problem.nothing) { try ModelCatalog(named: []) }
    #expect(throws: ModelCatalog.Problem.duplicate("a")) { try ModelCatalog(named: [a, b, a]) }
    #expect(throws: ModelCatalog.Problem.duplicate("a")) {
      try ModelCatalog(named: [a, b], aliases: [.init(name: "a", model: "org/b")])
    }
    #expect(throws: ModelCatalog.Problem.aliasOfNothing(alias: "x", model: "y")) {
      try ModelCatalog(named: [a], aliases: [.init(name: "x", model: "y")])
    }
    // Aliases are no models.
    #expect(throws: ModelCatalog.Problem.aliasOfNothing(alias: "y", model: "x")) {
      try ModelCatalog(named: [a], aliases: [.init(name: "x", model: "a"), .init(name: "y", model: "x")])
    }
    #expect(throws: ModelCatalog.Problem.badName("")) {
      try ModelCatalog(named: [ModelSource(id: "", path: "/a")])
    }
    #expect(throws: ModelCatalog.Problem.badName("a\nb")) {
      try ModelCatalog(named: [ModelSource(id: "a\nb", path: "/a")])
    }
    #expect(throws: ModelCatalog.Problem.noFolder("/none/such")) {
      try ModelCatalog(named: [], folder: "/none/such")
    }
  }

  @Test func `folders are models as long as they hold a config`() throws {
    let folder = try ModelsFolder(["beta", "alpha", ".hidden"])
    folder.add("empty", file: "readme")
    let catalog = try ModelCatalog(
      named: [ModelSource(id: "beta", path: "/elsewhere")], folder: folder.path,
      aliases: [.init(name: "later", model: "gamma")])
    let alpha = ModelSource(id: "alpha", path: folder.path + "/alpha")
    #expect(catalog.sources == [ModelSource(id: "beta", path: "/elsewhere"), alpha])
    #expect(catalog.resolve("later") == nil)
    folder.add("gamma")
    #expect(catalog.resolve("later")?.path == folder.path + "/gamma")
    folder.remove("alpha")
    #expect(catalog.sources.map(\.id) == ["beta", "gamma"])
  }

  @Test(arguments: [
    "..", ".", "../x", "x/../alpha", "/etc", "", ".hidden", "alpha\u{0}", "alpha/", "alpha/.",
  ])
  func `a name never leads out of the folder`(name: String) throws {
    let folder = try ModelsFolder(["alpha", ".hidden"])
    close(open(folder.path + "/config.json", O_WRONLY | O_CREAT, 0o600))
    let catalog = try ModelCatalog(named: [], folder: folder.path)
    #expect(catalog.resolve("alpha") != nil)
    #expect(catalog.resolve(name) == nil)
  }
}
