// Settings: ranges, and the recommendations of generation_config.json.

import JSON
import Testing

@testable import Decoding

private func fault(_ change: (inout SamplingParameters) -> Void) -> String {
  var parameters = SamplingParameters()
  change(&parameters)
  do {
    try parameters.check()
    return "no error"
  } catch {
    return error.description
  }
}

@Suite struct SamplingParametersTests {
  @Test func `the defaults and the edges of the ranges are fine`() {
    #expect(fault { _ in } == "no error")
    #expect(
      fault {
        $0.temperature = 0
        $0.topP = 0
        $0.minP = 1
        $0.logitBias = [3: -.infinity]
      } == "no error")
  }

  @Test func `values without meaning are named`() {
    #expect(fault { $0.temperature = -1 } == "temperature is -1.0, expected a number from 0")
    #expect(fault { $0.temperature = .nan } == "temperature is nan, expected a number from 0")
    #expect(fault { $0.topK = -1 } == "top_k is -1, expected an integer from 0")
    #expect(fault { $0.topP = 1.5 } == "top_p is 1.5, expected a number from 0 to 1")
    #expect(fault { $0.minP = -0.5 } == "min_p is -0.5, expected a number from 0 to 1")
    #expect(fault { $0.repetitionPenalty = 0 } == "repetition_penalty is 0.0, expected a number above 0")
    #expect(fault { $0.presencePenalty = .infinity } == "presence_penalty is inf, expected a finite number")
    #expect(fault { $0.frequencyPenalty = .nan } == "frequency_penalty is nan, expected a finite number")
    #expect(fault { $0.minTokens = -1 } == "min_tokens is -1, expected an integer from 0")
    #expect(fault { $0.logitBias = [5: .nan] } == "logit_bias of token 5 is nan, expected a finite number")
  }
}

@Suite struct GenerationDefaultsTests {
  @Test func `a model without a file, or with an empty one, recommends nothing`() throws {
    #expect(try GenerationDefaults(nil) == GenerationDefaults())
    #expect(try GenerationDefaults([:]) == GenerationDefaults())
    #expect(try GenerationDefaults(["temperature": nil, "top_k": nil]) == GenerationDefaults())
    #expect(GenerationDefaults().parameters == SamplingParameters())
  }

  @Test func `the settings of a real file are read`() throws {
    let defaults = try GenerationDefaults([
      "bos_token_id": 151643, "do_sample": true, "eos_token_id": [151645, 151643], "pad_token_id": 151643,
      "repetition_penalty": 1.05, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "min_p": 0,
    ])
    #expect(defaults.temperature == 0.7)
    #expect(defaults.topP == 0.8)
    #expect(defaults.topK == 20)
    #expect(defaults.minP == 0)
    #expect(defaults.repetitionPenalty == 1.05)
    var expected = SamplingParameters()
    expected.temperature = 0.7
    expected.topP = 0.8
    expected.topK = 20
    expected.repetitionPenalty = 1.05
    #expect(defaults.parameters == expected)
  }

  @Test func `do_sample false means greedy, whatever the temperature`() throws {
    #expect(try GenerationDefaults(["do_sample": false]).temperature == 0)
    #expect(try GenerationDefaults(["do_sample": false, "temperature": 0.6]).temperature == 0)
    #expect(try GenerationDefaults(["temperature": 0.6]).temperature == 0.6)
  }

  @Test func `top_k minus one means all`() throws {
    #expect(try GenerationDefaults(["top_k": -1]).topK == 0)
    #expect(try GenerationDefaults(["top_k": 40.0]).topK == 40)
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
      try GenerationDefaults(config)
    } throws: { error in
      "\(error)" == words
    }
  }
}
