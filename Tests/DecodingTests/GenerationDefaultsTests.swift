// The recommendations of generation_config.json.

import Decoding
import JSON
import Sampling
import Testing

private func recommended(_ config: JSONValue?) throws(SamplingError) -> SamplingOverrides {
  try SamplingOverrides(generationConfig: config)
}

@Suite struct GenerationDefaultsTests {
  @Test func `a model without a file, or with an empty one, recommends nothing`() throws {
    #expect(try recommended(nil) == [:])
    #expect(try recommended([:]) == [:])
    #expect(try recommended(["temperature": nil, "top_k": nil]) == [:])
    #expect(SamplingParameters([:]) == SamplingParameters())
  }

  @Test func `the settings of a real file are read`() throws {
    let found = try recommended([
      "bos_token_id": 151643, "do_sample": true, "eos_token_id": [151645, 151643], "pad_token_id": 151643,
      "repetition_penalty": 1.05, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "min_p": 0,
    ])
    #expect(
      found == [.temperature: 0.7, .topP: 0.8, .topK: 20, .minP: 0, .repetitionPenalty: 1.05])
    var expected = SamplingParameters()
    expected.temperature = 0.7
    expected.topP = 0.8
    expected.topK = 20
    expected.repetitionPenalty = 1.05
    #expect(SamplingParameters(found) == expected)
  }

  @Test func `what is not a recommendation of authors is not read`() throws {
    #expect(try recommended(["presence_penalty": 1.5, "frequency_penalty": 1]) == [:])
  }

  @Test func `do_sample false means greedy, whatever the temperature`() throws {
    #expect(try recommended(["do_sample": false]) == [.temperature: 0])
    #expect(try recommended(["do_sample": false, "temperature": 0.6]) == [.temperature: 0])
    #expect(try recommended(["temperature": 0.6]) == [.temperature: 0.6])
  }

  @Test func `top_k minus one means all`() throws {
    #expect(try recommended(["top_k": -1]) == [.topK: 0])
    #expect(try recommended(["top_k": 40.0]) == [.topK: 40])
    #expect(try SamplingParameters(recommended(["top_k": .int(.max)])).topK == Int(Int32.max))
  }

  @Test(
    arguments: [
      (["temperature": "hot"], "generation_config.json: temperature is a string, expected a number"),
      (["top_k": 1.5], "generation_config.json: top_k is a number, expected an integer"),
      (["top_p": 2], "top_p is 2.0, expected a number from 0 to 1"),
      (["temperature": 1e300], "temperature is inf, expected a number from 0"),
      (["repetition_penalty": 0], "repetition_penalty is 0.0, expected a number above 0"),
    ] as [(JSONValue, String)])
  func `settings without meaning are named`(config: JSONValue, words: String) {
    #expect {
      try recommended(config)
    } throws: { error in
      "\(error)" == words
    }
  }
}
