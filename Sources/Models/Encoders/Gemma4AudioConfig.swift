// What a checkpoint says about its audio tower and the audio that goes into it, checked.

import Compute
import Media

/// Sizes of Gemma 4's audio tower; defaults are those of the released models.
struct Gemma4AudioConfig {
  let hidden, layers, heads: Int
  /// Channels of the two convolutions that come first.
  let channels: [Int]
  let taps: Int
  let output: Int
  /// How far back a row sees, itself included.
  let distances: Int
  let cap: Float
  /// What of a feed-forward block's result is added.
  let residualWeight: Float
  let epsilon: Float

  /// - Parameter distances: instead of what `attention_context_left` means to transformers and llama.cpp, which is one
  ///   less: mlx-vlm sees one row more.
  init(_ config: ConfigFields, distances: Int? = nil) throws(ModelError) {
    hidden = try config.int("hidden_size", in: 4...1 << 14, default: 1024)
    layers = try config.int("num_hidden_layers", in: 1...256, default: 12)
    heads = try config.int("num_attention_heads", in: 1...256, default: 8)
    guard hidden % heads == 0, hidden % 2 == 0 else {
      throw .invalidValue(
        key: "audio_config.num_attention_heads", found: "\(heads)",
        expected: "a divisor of hidden_size = \(hidden), which is even")
    }
    if config.has("subsampling_conv_channels") {
      channels = try config.doubles("subsampling_conv_channels", count: 2, in: 1...4096).map { Int($0) }
    } else {
      channels = [128, 32]
    }
    taps = try config.int("conv_kernel_size", in: 1...64, default: 5)
    output = try config.int("output_proj_dims", in: 1...1 << 16, default: 1536)
    let left = try config.int(
      "attention_context_left", in: 2...ComputeContext.mostDistances, default: 13)
    self.distances = distances ?? left - 1
    cap = Float(try config.double("attention_logit_cap", in: 1e-3...1e6, default: 50))
    residualWeight = Float(try config.double("residual_weight", in: 0...16, default: 0.5))
    epsilon = Float(try config.double("rms_norm_eps", in: 0...1, default: 1e-6))
    let right = try config.int("attention_context_right", in: 0...1 << 20, default: 0)
    guard right == 0 else {
      throw .unsupportedSetting(
        key: "audio_config.attention_context_right", value: "\(right)", supported: "0")
    }
    if let activation = try config.string("hidden_act"), activation != "silu" {
      throw .unsupportedSetting(key: "audio_config.hidden_act", value: activation, supported: "silu")
    }
  }

  var headDim: Int { hidden / heads }

  /// The sizes that shapes of tensors follow from, by their keys in config.json.
  var named: KeyValuePairs<String, Int> {
    [
      "audio_config.hidden_size": hidden, "audio_config.num_attention_heads": heads,
      "audio_config.subsampling_conv_channels[0]": channels[0],
      "audio_config.subsampling_conv_channels[1]": channels[1], "audio_config.conv_kernel_size": taps,
      "audio_config.output_proj_dims": output,
    ]
  }
}

extension MelSettings {
  /// The extractor's settings in processor_config.json (`feature_extractor`) or preprocessor_config.json; Gemma 4's
  /// where they are silent.
  init(_ processor: ConfigFields?) throws(ModelError) {
    self.init()
    guard let processor else { return }
    let nested = try processor.object("feature_extractor") ?? processor
    // Image processors have files of the same name.
    guard nested.has("sampling_rate") else { return }
    rate = try nested.int("sampling_rate", in: 8000...48_000, default: rate)
    transformLength = try nested.int("fft_length", in: 16...1 << 14, default: transformLength)
    guard transformLength & (transformLength - 1) == 0 else {
      throw .invalidValue(key: "fft_length", found: "\(transformLength)", expected: "a power of two")
    }
    frameLength = try nested.int("frame_length", in: 16...transformLength, default: frameLength)
    hop = try nested.int("hop_length", in: 1...frameLength, default: hop)
    bands = try nested.int("feature_size", in: 4...1024, default: bands)
    let half = Double(rate) / 2
    highest = try nested.double("max_frequency", in: 1...half, default: min(highest, half))
    lowest = try nested.double("min_frequency", in: 0...highest - 1, default: lowest)
    floor = try nested.double("mel_floor", in: 1e-30...1, default: floor)
    for (key, neutral) in [("preemphasis", 0.0), ("dither", 0), ("input_scale_factor", 1)] {
      let value = try nested.double(key, in: -1e9...1e9, default: neutral)
      guard value == neutral else {
        throw .unsupportedSetting(key: key, value: "\(value)", supported: "\(neutral)")
      }
    }
    for key in ["per_bin_mean", "per_bin_stddev"] where nested.has(key) {
      throw .unsupportedSetting(key: key, value: "a list", supported: "null")
    }
  }
}
