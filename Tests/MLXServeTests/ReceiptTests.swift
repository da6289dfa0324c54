// Receipts of answers, checked by a Swift program that holds the model.

import JSON
import Support
import Testing

@testable import MLXServe

@Suite struct ReceiptTests {
  @Test func `an answer with its receipt checks, a changed one does not, and other texts are refused`()
    async throws
  {
    let model = try Model(folder: TestData.fixtures + "/models/demo", options: ModelOptions(maxContext: 512))
    defer { model.unload() }
    var answer: [UInt8] = []
    let asked =
      #"{"model":"demo","messages":[{"role":"user","content":"Hi"}],"max_tokens":8,"seed":5,"receipt":true}"#
    _ = try model.hosted.answer("POST", "/v1/chat/completions", body: Array(asked.utf8)) {
      answer += $0
      return true
    }
    let text = String(decoding: answer, as: UTF8.self)
    let found = try await model.check(receipt: text)
    #expect(found.isSame && found.differsAt == nil && found.words == "all \(found.tokens) tokens as said")
    let receipt = try #require(try JSONValue(parsing: answer)["choices"]?.arrayValue?.first?["receipt"])
    var changed = try #require(receipt.objectValue)
    var tokens = try #require(receipt["answer"]?.arrayValue)
    tokens[2] = .int((tokens[2].intValue ?? 0) == 40 ? 41 : 40)
    changed["answer"] = .array(tokens)
    let other = try await model.check(receipt: JSONValue.object(changed).text)
    #expect(!other.isSame && other.differsAt == 2 && other.words.hasPrefix("differs at token 3: "))
    for none in ["", "no JSON", "{}"] {
      let error = await #expect(throws: MLXServeError.self) { try await model.check(receipt: none) }
      #expect(error?.code == .invalidArgument)
    }
  }
}
