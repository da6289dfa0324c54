// What every command does first: flags to an engine configuration.

import Compute
import Inference
import Platform

enum Loading {
  static func engineConfiguration(_ flags: ParsedFlags) throws -> EngineConfiguration {
    let path = try flags.required("model", hint: "the folder that holds config.json and the weights")
    var configuration = EngineConfiguration(modelPath: path, threads: flags.integer("threads") ?? Machine.cores)
    configuration.isa = flags.text("isa").flatMap(ISA.init(rawValue:))
    configuration.useReference = flags.isSet("reference-kernels")
    configuration.maxContext = flags.integer("max-context")
    configuration.queueLimit = flags.integer("queue-limit") ?? configuration.queueLimit
    configuration.maxSequences = flags.integer("max-sequences") ?? configuration.maxSequences
    return configuration
  }
}
