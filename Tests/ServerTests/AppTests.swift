// The small routes, and what is answered where no route is.

import HTTP
import Inference
import JSON
import Server
import Testing

struct AppTests {
  private let app = makeApp(FakeService("x"), id: "org/m")

  @Test func `health is ok`() throws {
    for path in ["/health", "/ready", "/readyz", "/livez"] {
      #expect(try app.send("GET", path).text == #"{"status":"ok"}"#)
    }
  }

  @Test func `models are listed and found by their escaped id`() throws {
    let model =
      #"{"id":"org/m","object":"model","created":5,"owned_by":"mlxserve","context_length":400,"#
      + #""input_modalities":["text"],"task":"chat","embedding":null,"size_bytes":0,"#
      + #""aliases":[],"pinned":false,"status":{"value":"loaded"}}"#
    #expect(try app.send("GET", "/v1/models").text == #"{"object":"list","data":[\#(model)]}"#)
    #expect(try app.send("GET", "/v1/models/org%2Fm").text == model)
    #expect(try app.send("GET", "/v1/models/nope").refusal == "404 model_not_found model")
  }

  @Test func `the state is shown only where the hooks are on`() throws {
    #expect(try app.send("GET", "/debug/state").refusal == "404 unknown_url null")
    let watched = makeApp(FakeService("x")) { settings in
      settings.engineStatistics = {
        var state = EngineStatistics()
        state.running = 2
        state.maxSequences = 8
        state.waiting = 3
        state.kvBlocksUsed = 5
        state.kvBlocksCached = 4
        state.steps = 7
        return state
      }
    }
    let shown = try watched.send("GET", "/debug/state").json
    #expect(shown["slots_busy"] == 2)
    #expect(shown["slots_total"] == 8)
    #expect(shown["queue_len"] == 3)
    #expect(shown["kv_pages_used"] == 5)
    #expect(shown["kv_pages_cached"] == 4)
    #expect(shown["decode_steps_total"] == 7)
    #expect((shown["fds"]?.intValue ?? 0) > 2)
    #expect((shown["threads"]?.intValue ?? 0) > 0)
  }

  @Test func `unknown paths and methods are errors of the API`() throws {
    #expect(try app.send("GET", "/v1/nope").refusal == "404 unknown_url null")
    let answer = try app.send("GET", "/v1/completions")
    #expect(answer.status == 405)
    #expect(answer.headers["allow"] == "POST, OPTIONS")
    #expect(answer.json["error"]?["type"] == "invalid_request_error")
  }

  @Test func `requests without a route are refused before their body is read`() throws {
    let door = try makeDoor(app)
    #expect(try door.screen("POST", "/v1/nope")?.status == 404)
    #expect(try door.screen("POST", "/v1/completions") == nil)
  }
}
