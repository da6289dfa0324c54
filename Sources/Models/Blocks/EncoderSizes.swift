// The config keys that encoders of texts share, validated.

import Compute
import JSON

/// Sizes of an encoder as config.json states them.
struct EncoderSizes {
  let hidden: Int
  let layers: Int
  let heads: Int
  let headDim: Int
  let intermediate: Int
  let vocabulary: Int
  let epsilon: Float

  /// What the keys are called.
  struct Keys {
    var hidden = "hidden_size"
    var layers = "num_hidden_layers"
    var heads = "num_attention_heads"
    var intermediate = "intermediate_size"
    var epsilon = "layer_norm_eps"
    var activation = "hidden_act"
    /// The first is what an absent key means.
    var activations = ["gelu"]
  }

  private let keys: Keys

  /// - Parameter epsilon: what an absent key means.
  init(_ config: ConfigFields, keys: Keys = Keys(), epsilon fallback: Double) throws(ModelError) {
    hidden = try config.int(keys.hidden, in: 1...1 << 16)
    layers = try config.int(keys.layers, in: 1...1024)
    heads = try config.int(keys.heads, in: 1...4096)
    guard hidden % heads == 0 else {
      throw .invalidValue(
        key: keys.heads, found: "\(heads)", expected: "a divisor of \(keys.hidden) = \(hidden)")
    }
    headDim = hidden / heads
    intermediate = try config.int(keys.intermediate, in: 1...1 << 20)
    vocabulary = try config.int("vocab_size", in: 1...1 << 24)
    epsilon = Float(try config.double(keys.epsilon, in: 0...1, default: fallback))
    if let activation = try config.string(keys.activation), !keys.activations.contains(activation) {
      throw .unsupportedSetting(
        key: keys.activation, value: activation, supported: keys.activations.joined(separator: ", "))
    }
    self.keys = keys
  }

  /// The sizes that shapes of tensors follow from, by their keys in config.json.
  var named: KeyValuePairs<String, Int> {
    // Keys differ between families: the pairs cannot be a literal of constants.
    let (hiddenKey, innerKey, headsKey) = (keys.hidden, keys.intermediate, keys.heads)
    return [hiddenKey: hidden, innerKey: intermediate, headsKey: heads, "vocab_size": vocabulary]
  }

  /// Full attention, scores scaled by headDim^-0.5.
  var attention: AttentionShape {
    AttentionShape(heads: heads, kvHeads: heads, headDim: headDim, scale: 1 / Float(headDim).squareRoot())
  }
}
