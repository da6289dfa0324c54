// What is typed after a slash, what it sets, and files that a message names.

import Inference
import Media
import Platform
import Sampling
import Support
import Testing

@testable import CLI

struct ChatOrderTests {
  @Test func `orders begin with a slash, and other words are for the model`() {
    #expect(ChatOrder("/help") == .help && ChatOrder("/?") == .help)
    #expect(ChatOrder("/bye") == .leave && ChatOrder("/exit") == .leave && ChatOrder("quit") == .leave)
    #expect(ChatOrder("/regen") == .regenerate && ChatOrder("/undo") == .undo && ChatOrder("/edit") == .edit)
    #expect(ChatOrder("/system Be brief.") == .set(name: "system", value: "Be brief."))
    #expect(
      ChatOrder("/model qwen3:0.6b") == .model("qwen3:0.6b") && ChatOrder("/read a b.txt") == .read("a b.txt")
    )
    #expect(ChatOrder("/set temperature 0.5") == .set(name: "temperature", value: "0.5"))
    #expect(ChatOrder("/set system You are brief.") == .set(name: "system", value: "You are brief."))
    #expect(ChatOrder("/set") == .set(name: nil, value: ""))
    #expect(ChatOrder("/save a b.json") == .save("a b.json"))
    for message in ["hello", "exit now", "//comment", "/home/me/picture.png what is it?", "/help\nme"] {
      #expect(ChatOrder(message) == nil, "\(message)")
    }
    guard case .wrong(let words)? = ChatOrder("/hlep") else {
      Issue.record("it is an order")
      return
    }
    #expect(words.contains("/help"))
    if case .wrong? = ChatOrder("/save") {} else { Issue.record("it needs a file") }
  }

  @Test func `Tab completes orders, settings, models and files`() throws {
    let folder = "/tmp/mlxserve-complete-\(getpid())"
    try File.makeFolders(folder + "/notes")
    defer { try? File.removeAll(folder) }
    try File.replace(folder + "/note.txt", with: [])
    func found(_ text: String) -> [String] {
      ChatCompletion.completions(of: text, models: { ["a/one", "a/two", "b/x"] }).candidates
    }
    #expect(found("/s") == ["/save", "/set", "/show", "/system"])
    #expect(found("/set temp") == ["temperature"])
    #expect(found("/model a/") == ["a/one", "a/two"])
    #expect(found("see @\(folder)/no") == [folder + "/note.txt", folder + "/notes/"])
    #expect(found("/read \(folder)/note.") == [folder + "/note.txt"])
    #expect(found("hello") == [] && found("") == [] && found("/home/x") == [])
  }

  @Test func `settings are checked, and can be taken back`() {
    var preferences = ChatPreferences()
    let good = [
      ("temperature", "0.5"), ("top-k", "5"), ("min_p", "0.1"), ("min_p", "-"), ("seed", "7"),
      ("think", "off"),
      ("stop", "END"), ("max_tokens", "9"), ("max_tokens", "-"), ("system", "You are brief."),
    ]
    for (name, value) in good {
      let problem = preferences.set(name, to: value)
      #expect(problem == nil, "\(name)")
    }
    #expect(preferences.sampling == [.temperature: 0.5, .topK: 5])
    #expect(preferences.seed == 7 && !preferences.thinks && preferences.stops == ["END"])
    #expect(preferences.maxTokens == nil && preferences.system == "You are brief.")
    let before = preferences
    for (name, value) in [
      ("temperature", "hot"), ("temperature", "-1"), ("top_k", "1.5"), ("seed", "x"), ("max_tokens", "0"),
      ("wordwrap", "maybe"), ("nonsense", "1"), ("system", ""),
    ] {
      let problem = preferences.set(name, to: value)
      #expect(problem != nil, "\(name)")
    }
    #expect(preferences == before)
    let hint = preferences.set("temprature", to: "1")
    #expect(hint?.contains("did you mean temperature?") == true)
    let usual: SamplingOverrides = [.temperature: 0.8, .minP: 0.05]
    let lines = preferences.lines(beside: usual, from: "default").map {
      $0.split(separator: " ", maxSplits: 1)
    }
    let values = Dictionary(
      uniqueKeysWithValues: lines.filter { $0[0] != "stop" }.map { ($0[0], $0[1].drop { $0 == " " }) })
    #expect(values["seed"] == "7")
    #expect(values["temperature"] == "0.5 (yours)" && values["top_k"] == "5 (yours)")
    #expect(values["min_p"] == "0.05 (default)" && values["top_p"] == nil)
  }

  @Test func `files become part of the message`() throws {
    let folder = "/tmp/mlxserve-attached-\(getpid())"
    try File.makeFolders(folder)
    defer { try? File.removeAll(folder) }
    let path = folder + "/a note.txt"
    try File.replace(path, with: Array("line\n".utf8))
    func attached(_ text: String) throws -> AttachedFiles {
      try AttachedFiles(TypedText(typed: text), rules: MediaRules(), model: "m")
    }
    let escaped = path.replacing(" ", with: "\\ ")
    for word in ["@\(escaped)", "@'\(path)'", "@\"\(path)\""] {
      let files = try attached("sum up \(word) now")
      #expect(files.text == "sum up \n\n```a note.txt\nline\n\n```\n\n now", "\(word)")
      #expect(files.told == ["added a note.txt"] && files.notes.isEmpty)
    }
    let asked = try attached("@notes:\(folder) what is due? @notes:\(folder)")
    #expect(asked.notes == [File.resolved(folder)] && asked.told.isEmpty && !asked.text.contains("notes:"))
    // Without a mark only images and clips are taken, and only those that are there.
    for text in [
      "sum up \(escaped)", "what is in /nowhere/x.png ?", "a@b.example is it's \"quoted\" ", "two  spaces",
    ] {
      #expect(try attached(text).text == text)
    }
    // A sentence goes on behind a name.
    #expect(try attached("see @\(escaped), please").text == "see \n\n```a note.txt\nline\n\n```\n\n, please")
    #expect(throws: (any Error).self) { try attached("see \(TestData.fixtures)/media/png-flat.png") }
  }

  @Test(arguments: [
    "diff --git a/x b/x\n@@ -1,2 +1,2 @@ func f() {\n-a\n+b\n@@ -9 +9 @@\n",
    "From: Anna <anna@posteo.example>\nTo: @team, bob@example.org\n\n@Bob: see @/nowhere/notes.md. Regards, @anna",
    "@property\n@app.route(\"/x\")\n@functools.lru_cache(maxsize=None)\ndef f(): return a @ b",
    "@~/ @~/nowhere/at-all.txt @/ @. @.. @/etc @ @@ @' @\"",
  ])
  func `words with an at sign that name no file stay text`(text: String) throws {
    for message in [TypedText(typed: text), TypedText(data: text)] {
      let files = try AttachedFiles(message, rules: MediaRules(), model: "m")
      #expect(files.text == text && files.notes.isEmpty && files.media.isEmpty)
    }
  }

  @Test func `words that look like files and are none are told`() throws {
    func told(_ text: TypedText) throws -> String? {
      try AttachedFiles(text, rules: MediaRules(), model: "m").unknownWords
    }
    #expect(try told(TypedText(typed: "ask @alice")) == "@alice is not a file here, so it stays text")
    #expect(
      try told(TypedText(typed: "@a @b @c @d @@ -1 @@"))
        == "@a, @b, @c and others are not files here, so they stay text")
    #expect(try told(TypedText(typed: "@@ a@b.example @")) == nil)
    #expect(try told(TypedText(data: "@alice")) == nil)
  }

  @Test func `what was not typed names no file`() throws {
    let folder = "/tmp/mlxserve-typed-\(getpid())"
    try File.makeFolders(folder)
    defer { try? File.removeAll(folder) }
    let (secret, image) = (folder + "/secret.txt", "\(TestData.fixtures)/media/png-flat.png")
    try File.replace(secret, with: Array("secret\n".utf8))
    func text(_ message: TypedText) throws -> String {
      try AttachedFiles(message, rules: MediaRules(), model: "m").text
    }
    for data in ["Repeat this text: @\(secret)", "look at \(image)", "@'\(secret)'"] {
      #expect(try text(TypedText(data: data)) == data)
      var message = TypedText(data: data + "\n\n")
      message.add("What is in @\(secret)?", isTyped: true)
      #expect(
        try text(message) == data + "\n\nWhat is in \n\n```secret.txt\nsecret\n\n```\n\n?")
    }
    // A terminal writes the paths of files that are dropped on it.
    let quoted = "'\(image)' \(image.replacing(" ", with: "\\ "))"
    for dropped in [image, "'\(image)'", quoted + " "] {
      #expect(AttachedFiles.areDropped(dropped), "\(dropped)")
    }
    for other in [
      secret, "@\(image)", "see \(image)", image + "\n", "\(image)\n\(image)", "/nowhere/x.png", "x", "", " ",
    ] { #expect(!AttachedFiles.areDropped(other), "\(other)") }
  }

  @Test func `a long prompt says how long it is read, and a short one nothing`() {
    func words(_ seconds: Double, _ left: Double?) -> [String]? {
      AnswerPrinter.words(
        PromptProgress(total: 15_000, cached: 800, processed: 9_000, seconds: seconds, secondsLeft: left))
    }
    #expect(words(20, 30.4) == ["reading 14,200 tokens", "31 s left"])
    #expect(words(0.2, 0.7) == nil && words(20, nil) == nil && words(0, .infinity) == nil)
    #expect(
      ProgressBar.line(8_200, of: 14_200, words(20, 30.4) ?? [], columns: 80)
        == "[#################-------------]  57 %  reading 14,200 tokens, 31 s left")
    #expect(
      ProgressBar.line(8_200, of: 14_200, words(20, 30.4) ?? [], columns: 40)
        == " 57 %  reading 14,200 tokens, 31 s left")
    let counts = [0, 999, 1_000, -12_345, 1_234_567].map(grouped)
    #expect(counts == ["0", "999", "1,000", "-12,345", "1,234,567"])
  }
}
