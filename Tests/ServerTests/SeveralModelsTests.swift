// Requests that name one of several models.

import JSON
import Platform
import Testing

@testable import Server

@Suite struct SeveralModelsTests {
  private func app(_ garage: Garage = Garage()) throws -> (App, ModelFleet) {
    let fleet = try garage.fleet(["m", "org/n"], aliases: [.init(name: "gpt-4o", model: "org/n")])
    var settings = ServerSettings()
    settings.makeID = { "ID" }
    settings.started = 3
    return (App(fleet, settings: settings), fleet)
  }

  @Test(arguments: [("m", "m"), ("org/n", "org/n"), ("gpt-4o", "org/n")])
  func `every wire answers with the model that was asked for, by its own name`(name: String, id: String)
    throws
  {
    let (app, fleet) = try app()
    defer { fleet.stop() }
    let message = #""messages":[{"role":"user","content":"hi"}]"#
    for (path, members) in [
      ("/v1/chat/completions", message), ("/v1/completions", #""prompt":"x""#),
      ("/v1/responses", #""input":"x""#), ("/v1/messages", #""max_tokens":99,"# + message),
    ] {
      let answer = try app.send("POST", path, body: #"{"model":"\#(name)",\#(members)}"#)
      #expect(answer.status == 200, "\(path): \(answer.text)")
      #expect(answer.json["model"]?.stringValue == id, "\(path)")
      #expect(answer.text.contains("I am \(id)."), "\(path): \(answer.text)")
    }
  }

  @Test func `models are listed with what is known of them`() throws {
    let (app, fleet) = try app()
    defer { fleet.stop() }
    let unloaded =
      #"{"id":"org/n","object":"model","created":3,"owned_by":"mlxserve","context_length":null,"#
      + #""input_modalities":null,"task":null,"embedding":null,"size_bytes":null,"aliases":["gpt-4o"],"pinned":false,"status":{"value":"unloaded"}}"#
    #expect(try app.send("GET", "/v1/models/org%2Fn").text == unloaded)
    #expect(try app.send("GET", "/v1/models/org/n").text == unloaded)
    #expect(try app.send("GET", "/v1/models/gpt-4o").text == unloaded)
    try fleet.use("org/n")
    let list = try app.send("GET", "/v1/models").json["data"]?.arrayValue ?? []
    #expect(list.map { $0["id"] } == ["m", "org/n"])
    #expect(list.map { $0["status"]?["value"] } == ["unloaded", "loaded"])
    #expect(list.last?["context_length"] == 400)
    #expect(list.last?["size_bytes"] == 10)
    #expect(try app.send("GET", "/models").json["data"]?.arrayValue == list)
  }

  @Test func `an unknown model is told what there is`() throws {
    let (app, fleet) = try app()
    defer { fleet.stop() }
    for path in ["/v1/chat/completions", "/v1/responses", "/tokenize", "/models/load", "/models/unload"] {
      let answer = try app.send("POST", path, body: #"{"model":"nope"}"#)
      #expect(answer.refusal == "404 model_not_found model", "\(path)")
      #expect(
        answer.json["error"]?["message"]
          == "The model 'nope' does not exist. This server has 'm', 'org/n', 'gpt-4o'.")
    }
  }

  @Test func `the first model is meant where a name is optional`() throws {
    let (app, fleet) = try app()
    defer { fleet.stop() }
    #expect(try app.send("POST", "/tokenize", body: #"{"content":"x"}"#).status == 200)
    #expect(try fleet.value("m") == "loaded")
    #expect(try fleet.value("org/n") == "unloaded")
    #expect(try app.send("POST", "/tokenize", body: #"{"content":"x","model":"gpt-4o"}"#).status == 200)
    #expect(try fleet.value("org/n") == "loaded")
    // As lists of Ollama's API have the names.
    for name in ["m:latest", "gpt-4o:latest"] {
      let body = #"{"content":"x","model":"\#(name)"}"#
      #expect(try app.send("POST", "/tokenize", body: body).status == 200, "\(name)")
    }
    #expect(try app.send("POST", "/tokenize", body: #"{"content":"x","model":"m:other"}"#).status == 404)
  }

  @Test func `who follows the models is told what happens to them, in order`() throws {
    let garage = Garage()
    let fleet = try garage.fleet(["m", "broken"])
    defer { fleet.stop() }
    #expect(fleet.changes(since: 0, seconds: 0)?.changes == [])
    try fleet.use("m")
    #expect(throws: (any Error).self) { try fleet.use("broken") }
    #expect(try fleet.beginUnloading("m", seconds: 20))
    fleet.noteDownload(of: "o/n", [ModelChange.File(path: "a.bin", done: 3, total: 4)])
    let (changes, count) = try #require(fleet.changes(since: 0, seconds: 20))
    #expect(
      changes.map(\.json.text) == [
        #"{"model":"m","event":"model_status","data":{"status":"loading"}}"#,
        #"{"model":"m","event":"model_status","data":{"status":"loaded"}}"#,
        #"{"model":"broken","event":"model_status","data":{"status":"loading"}}"#,
        #"{"model":"broken","event":"model_status","data":{"status":"unloaded","exit_code":1}}"#,
        #"{"model":"m","event":"model_status","data":{"status":"unloaded"}}"#,
        #"{"model":"o/n","event":"download_progress","data":{"a.bin":{"done":3,"total":4}}}"#,
      ])
    #expect(count == 6)
    #expect(fleet.changes(since: 4, seconds: 0)?.changes == Array(changes.suffix(2)))
    #expect(fleet.changes(since: count, seconds: 0)?.changes == [])
    // Who comes late gets what is still known.
    for _ in 0..<300 { fleet.noteDownload(of: "o/n", []) }
    #expect(fleet.changes(since: 0, seconds: 0)?.changes.count == 256)
    fleet.drain()
    #expect(fleet.changes(since: 0, seconds: 20) == nil)
    let answer = try App(fleet).send("GET", "/models/sse")
    #expect(answer.status == 200)
    #expect(answer.text == ": keep-alive\n\n")
  }

  @Test func `models are loaded and unloaded by request`() throws {
    let (app, fleet) = try app()
    defer { fleet.stop() }
    func send(_ path: String, _ name: String) throws -> Answer {
      try app.send("POST", path, body: #"{"model":"\#(name)"}"#)
    }
    #expect(try send("/models/load", "gpt-4o").status == 202)
    #expect(try fleet.wait("org/n", "loaded"))
    let again = try send("/models/load", "org/n")
    #expect(again.status == 200)
    #expect(again.text == #"{"success":true,"model":"org/n","status":{"value":"loaded"}}"#)
    let gone = try send("/models/unload", "org/n")
    #expect(gone.status == 200)
    #expect(gone.json["status"]?["value"] == "unloaded")
    #expect(try send("/models/unload", "org/n").status == 200)
    #expect(
      try app.send("POST", "/models/load", body: "{}").refusal == "400 missing_required_parameter model")
  }

  @Test func `responses are shared by all models`() throws {
    let (app, fleet) = try app()
    defer { fleet.stop() }
    #expect(try app.send("POST", "/v1/responses", body: #"{"model":"m","input":"x"}"#).status == 200)
    let next = #"{"model":"gpt-4o","input":"y","previous_response_id":"resp_ID","store":false}"#
    #expect(try app.send("POST", "/v1/responses", body: next).status == 200)
  }

  @Test func `what can be asked is told of the models that are loaded`() throws {
    let (app, fleet) = try app()
    defer { fleet.stop() }
    #expect(try app.send("GET", "/v1/capabilities").json["data"] == [])
    try fleet.use("org/n")
    let data = try app.send("GET", "/v1/capabilities").json["data"]?.arrayValue
    #expect(data?.map { $0["id"] } == ["org/n"])
  }

  @Test func `a stream holds its model until it has ended`() throws {
    let garage = Garage()
    let (app, fleet) = try app(garage)
    defer { fleet.stop() }
    do {
      let answer = try app.chat(#""stream":true"#)
      #expect(answer.events.last == "[DONE]")
    }
    #expect(try app.send("POST", "/models/unload", body: #"{"model":"m"}"#).status == 200)
    #expect(garage.stops == ["m"])
  }
}
