// Settings of a sampler: the ranges in which they have a meaning, and the table of those that are one number.

import Sampling
import Testing

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

@Suite struct SamplingFieldTests {
  @Test func `every field sets a parameter of its own`() {
    for field in SamplingField.allCases {
      var overrides: SamplingOverrides = [:]
      switch field.row.setting {
      case .number(_, let range): overrides[field] = range.contains(0.5) ? 0.5 : range.upperBound
      case .count(_, let range): overrides[field] = Double(min(range.upperBound, 5))
      }
      let parameters = SamplingParameters(overrides)
      #expect(parameters[field] == overrides[field])
      for other in SamplingField.allCases where other != field {
        #expect(parameters[other] == SamplingParameters()[other], "\(field) sets \(other)")
      }
    }
  }

  @Test(arguments: SamplingField.allCases)
  func `whatever a request may say has a meaning`(field: SamplingField) throws {
    var values = [SamplingParameters()[field]]
    switch field.row.setting {
    case .number(_, let range): values += [range.lowerBound, range.upperBound]
    case .count(_, let range): values += [Double(range.lowerBound), Double(range.upperBound)]
    }
    for value in values {
      var overrides: SamplingOverrides = [:]
      overrides[field] = value
      try SamplingParameters(overrides).check()
    }
  }

  @Test func `what is said last holds, what nobody says is the default`() {
    let model: SamplingOverrides = [.temperature: 0.7, .topP: 0.8]
    let both = model.merging([.topP: 0.9, .topK: 5])
    #expect(both == [.temperature: 0.7, .topP: 0.9, .topK: 5])
    #expect(both.effective(.temperature) == 0.7)
    #expect(both.effective(.minP) == 0)
    #expect(SamplingParameters(both).text(of: .temperature) == "0.7")
    #expect(SamplingParameters(both).text(of: .topK) == "5")
  }

  @Test func `a count stays within what an integer holds`() {
    #expect(SamplingParameters([.topK: -1]).topK == 0)
    #expect(SamplingParameters([.topK: 1e300]).topK == Int(Int32.max))
    #expect(SamplingParameters([.topK: .nan]).topK == 0)
    #expect(SamplingParameters([.dryPenaltyLastN: -1]).dryPenaltyLastN == -1)
    #expect(SamplingParameters([.dryPenaltyLastN: -9]).dryPenaltyLastN == -1)
  }

  @Test func `names and aliases are all different`() {
    let names = SamplingField.allCases.flatMap { [$0.name] + $0.aliases }
    #expect(Set(names).count == names.count)
  }
}
