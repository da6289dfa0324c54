// Rotary frequencies from config.json: both generations of keys, all scaling types of the supported families.
//
// Old: top-level `rope_theta`, `rope_scaling` {type | rope_type, ...}, `partial_rotary_factor`. New
// (transformers 5): `rope_parameters` with everything inside, flat or keyed by layer type.
// llama3 and yarn follow their papers' formulas (arXiv:2407.21783 §3.4.1; arXiv:2309.00071 §3); longrope is
// arXiv:2402.13753.

import Compute
import Platform

/// The frequencies a config describes, with the rule that picks among them.
struct RoPEScaling {
  /// One table, or short and long for longrope.
  let variants: [RoPEFrequencies]
  /// The longest sequence, in tokens, that uses variant 0: longer ones use variant 1. Nil with one variant.
  let shortLimit: Int?
  /// Whether the pairs that turn are neighbours, (2i, 2i + 1), and not of two halves.
  private(set) var isInterleaved = false
  /// Which of time, row and column turns each pair; empty in models that know no rows and columns of images.
  private(set) var axes: [Int] = []

  /// For the rows of a step.
  var rope: RoPE { RoPE(variants: variants, interleaved: isInterleaved, axes: axes) }

  func variant(forTokens tokens: Int) -> Int {
    guard let shortLimit else { return 0 }
    return tokens <= shortLimit ? 0 : 1
  }

  /// - Parameters:
  ///   - sizes: the head size and the context length.
  ///   - headDim: the head size where it is not that of `sizes`.
  ///   - interleaved: how the family pairs elements; `rope_traditional` decides where config.json has it.
  ///   - share: the part of a head that turns where config.json does not say it.
  ///   - rotated: the rotated width where a key of the family's own gives it.
  ///   - layerType: the key into `rope_parameters` where that has one object per type of layers.
  init(
    _ config: ConfigFields, sizes: DecoderSizes, theta fallback: Double, headDim: Int? = nil,
    interleaved: Bool = false, share: Double = 1, rotated: Int? = nil,
    layerType: String = "full_attention"
  ) throws(ModelError) {
    try self.init(
      config, sizes: sizes, theta: fallback, headDim: headDim ?? sizes.headDim, share: share,
      rotated: rotated, layerType: layerType)
    isInterleaved = try config.bool("rope_traditional", default: interleaved)
    for key in ["rope_parameters", "rope_scaling"] where axes.isEmpty {
      guard let scaling = try config.object(key), scaling.has("mrope_section") else { continue }
      axes = try Self.axes(scaling, pairs: variants[0].inverse.count)
    }
  }

  /// Sections say how many pairs turn by time, row and column: one section after the other, or in turns of three as long as
  /// there are rows and columns left (Qwen3-VL).
  private static func axes(_ scaling: ConfigFields, pairs: Int) throws(ModelError) -> [Int] {
    let sections = try scaling.ints("mrope_section", in: 0...pairs)
    guard sections.count == 3, sections.reduce(0, +) == pairs else {
      throw .invalidValue(
        key: scaling.name(of: "mrope_section"), found: "\(sections)",
        expected: "three numbers whose sum is the \(pairs) pairs of a head")
    }
    guard try scaling.bool("mrope_interleaved", default: false) else {
      return sections.enumerated().flatMap { [Int](repeating: $0.offset, count: $0.element) }
    }
    return (0..<pairs).map { $0 % 3 > 0 && $0 < 3 * sections[$0 % 3] ? $0 % 3 : 0 }
  }

  private init(
    _ config: ConfigFields, sizes: DecoderSizes, theta fallback: Double, headDim: Int, share usual: Double,
    rotated: Int?, layerType: String
  ) throws(ModelError) {
    var parameters = try config.object("rope_parameters")
    let keyed = try parameters?.object(layerType)
    if let keyed { parameters = keyed }
    var scaling = parameters
    if scaling == nil { scaling = try config.object("rope_scaling") }
    // What stands beside an object per type of layers belongs to none of them.
    let places = keyed.map { [$0] } ?? [parameters, config].compactMap { $0 }

    let theta = try Self.first(places, "rope_theta").double("rope_theta", in: 2...1e15, default: fallback)
    let share = try Self.first(places, "partial_rotary_factor")
      .double("partial_rotary_factor", in: 0...1, default: usual)
    var type = try scaling?.string("rope_type")
    if type == nil { type = try scaling?.string("type") }
    if type == "proportional", let scaling {
      self.init(try Self.proportional(scaling, headDim: headDim, share: share, theta: theta))
      return
    }
    let rotated = rotated ?? Int(Double(headDim) * share)
    guard rotated >= 2, rotated % 2 == 0, rotated <= headDim else {
      throw .invalidValue(
        key: "partial_rotary_factor", found: "\(share)", expected: "an even rotated width of at least 2")
    }
    let base = Self.powers(of: theta, width: rotated)
    switch (type ?? "default", scaling) {
    case ("linear", let scaling?):
      let factor = try scaling.double("factor", in: 1e-3...1e6)
      self.init(base.map { $0 / factor })
    case ("llama3", let scaling?):
      self.init(try Self.llama3(base, scaling))
    case ("yarn", let scaling?):
      self.init(variants: [try Self.yarn(base, scaling, theta: theta, sizes: sizes)], shortLimit: nil)
    case ("longrope", let scaling?), ("su", let scaling?):
      self = try Self.long(base, scaling, config, sizes: sizes)
    case ("dynamic", let scaling?) where scaling.has("alpha"):
      // Hunyuan: the base is raised once, for all lengths.
      let (alpha, width) = (try scaling.double("alpha", in: 1e-3...1e9), Double(rotated))
      guard width > 2 else {
        throw .invalidValue(
          key: "head_dim", found: "\(headDim)", expected: "more than 2, as rope_scaling has alpha")
      }
      self.init(Self.powers(of: theta * pow(alpha, width / (width - 2)), width: rotated))
    case ("dynamic", let scaling?):
      // Sequences longer than max_position_embeddings raise the base (InternLM3); here the context ends there.
      _ = try scaling.double("factor", in: 1...1e6)
      self.init(base)
    case ("default", _), ("none", _), ("mrope", _):
      self.init(base)
    default:
      throw .unsupportedSetting(
        key: "rope_scaling type", value: type ?? "",
        supported: "default, linear, llama3, yarn, longrope, su, proportional, dynamic")
    }
  }

  /// The frequencies before any scaling: those of OLMo 3's sliding layers.
  static func unscaled(
    _ config: ConfigFields, sizes: DecoderSizes, theta fallback: Double
  ) throws(ModelError) -> RoPEScaling {
    let places = [try config.object("rope_parameters"), config].compactMap { $0 }
    let theta = try first(places, "rope_theta").double("rope_theta", in: 2...1e15, default: fallback)
    return RoPEScaling(theta: theta, headDim: sizes.headDim)
  }

  /// Unscaled frequencies of heads that rotate as a whole.
  init(theta: Double, headDim: Int) { self.init(Self.powers(of: theta, width: headDim)) }

  private init(_ inverse: [Double]) {
    self.init(variants: [RoPEFrequencies(inverse: inverse)], shortLimit: nil)
  }

  private static func powers(of theta: Double, width: Int) -> [Double] {
    (0..<width / 2).map { pow(theta, -2 * Double($0) / Double(width)) }
  }

  /// Exponents over the whole head, of which only the first share of the pairs turns (Gemma 4).
  private static func proportional(
    _ scaling: ConfigFields, headDim: Int, share: Double, theta: Double
  ) throws(ModelError) -> [Double] {
    let factor = try scaling.double("factor", in: 1e-3...1e6, default: 1)
    let turning = Int(share * Double(headDim) / 2)
    return powers(of: theta, width: headDim).enumerated().map { $0 < turning ? $1 / factor : 0 }
  }

  private init(variants: [RoPEFrequencies], shortLimit: Int?) {
    (self.variants, self.shortLimit) = (variants, shortLimit)
  }

  /// The first place that has `key`, or the last one, whose reader then reports it missing.
  private static func first(_ places: [ConfigFields], _ key: String) throws(ModelError) -> ConfigFields {
    guard let place = places.first(where: { $0.has(key) }) ?? places.last else { throw .missingKey(key) }
    return place
  }

  /// Wavelengths beyond the original context are stretched, short ones kept, those between blended.
  private static func llama3(_ base: [Double], _ scaling: ConfigFields) throws(ModelError) -> [Double] {
    let factor = try scaling.double("factor", in: 1e-3...1e6)
    let low = try scaling.double("low_freq_factor", in: 1e-3...1e6, default: 1)
    let high = try scaling.double("high_freq_factor", in: 1e-3...1e6, default: 4)
    let original = try scaling.double("original_max_position_embeddings", in: 1...1e9, default: 8192)
    guard high > low else {
      throw .invalidValue(
        key: "rope_scaling.high_freq_factor", found: "\(high)", expected: "more than low_freq_factor = \(low)"
      )
    }
    return base.map { inverse in
      let wavelength = 2 * Double.pi / inverse
      if wavelength > original / low { return inverse / factor }
      if wavelength < original / high { return inverse }
      let blend = (original / wavelength - low) / (high - low)
      return (1 - blend) * inverse / factor + blend * inverse
    }
  }

  private static func yarn(
    _ base: [Double], _ scaling: ConfigFields, theta: Double, sizes: DecoderSizes
  ) throws(ModelError) -> RoPEFrequencies {
    let factor = try scaling.double("factor", in: 1...1e6)
    let original = try scaling.double(
      "original_max_position_embeddings", in: 1...1e9, default: Double(sizes.contextLength) / factor)
    let fast = try scaling.double("beta_fast", in: 1e-3...1e6, default: 32)
    let slow = try scaling.double("beta_slow", in: 1e-3...1e6, default: 1)
    let width = Double(2 * base.count)
    /// The pair that turns `turns` times over the original context.
    func pair(_ turns: Double) -> Double {
      width * log(original / (2 * .pi * turns)) / (2 * log(theta))
    }
    // gpt-oss does not round the border to whole pairs.
    let truncates = try scaling.bool("truncate", default: true)
    let low = max(truncates ? pair(fast).rounded(.down) : pair(fast), 0)
    var high = min(truncates ? pair(slow).rounded(.up) : pair(slow), width - 1)
    if high <= low { high = low + 0.001 }

    func attenuation(_ mscale: Double) -> Double { Self.attenuation(factor, mscale: mscale) }
    let mscale = try scaling.double("mscale", in: 0...1e3, default: 1)
    let mscaleAll = try scaling.double("mscale_all_dim", in: 0...1e3, default: 0)
    let magnitude = try scaling.double(
      "attention_factor", in: 1e-3...1e3, default: attenuation(mscale) / attenuation(mscaleAll))
    let inverse = base.enumerated().map { index, inverse in
      let ramp = min(max((Double(index) - low) / (high - low), 0), 1)
      return (1 - ramp) * inverse + ramp * inverse / factor
    }
    return RoPEFrequencies(inverse: inverse, magnitude: magnitude)
  }

  /// YaRN's factor of what is rotated by frequencies that were stretched.
  static func attenuation(_ factor: Double, mscale: Double) -> Double {
    factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1
  }

  /// Per-pair factors, one list for sequences within the original context and one for longer ones.
  private static func long(
    _ base: [Double], _ scaling: ConfigFields, _ config: ConfigFields, sizes: DecoderSizes
  ) throws(ModelError) -> RoPEScaling {
    let key = "original_max_position_embeddings"
    let original = try first([scaling, config], key).int(key, in: 2...1 << 27)
    let stretch = Double(sizes.contextLength) / Double(original)
    let usual = stretch > 1 ? (1 + log(stretch) / log(Double(original))).squareRoot() : 1
    let magnitude = try scaling.double("attention_factor", in: 1e-3...1e3, default: usual)
    var variants: [RoPEFrequencies] = []
    for (list, scale) in [("short_factor", "short_mscale"), ("long_factor", "long_mscale")] {
      let factors = try scaling.doubles(list, count: base.count, in: 1e-6...1e9)
      variants.append(
        RoPEFrequencies(
          inverse: zip(base, factors).map { $0 / $1 },
          magnitude: try scaling.double(scale, in: 1e-3...1e3, default: magnitude)))
    }
    return RoPEScaling(variants: variants, shortLimit: original)
  }
}
