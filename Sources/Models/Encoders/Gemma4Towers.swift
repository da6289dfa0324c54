// The encoders of a Gemma 4 checkpoint, and what config.json says about their place in a prompt.

import Media

/// Encoders that exist in the checkpoint and are wanted; conversions for text have none.
final class Gemma4Towers {
  private(set) var rules = MediaRules()
  private(set) var vision: Gemma4Vision?
  private(set) var audio: Gemma4Audio?

  /// - Parameters:
  ///   - config: the whole of config.json.
  ///   - processor: processor_config.json or preprocessor_config.json.
  init(
    _ config: ConfigFields, processor: ConfigFields?, options: MediaOptions, _ weights: LayerLoader
  ) throws(ModelError) {
    let text = try config.object("text_config") ?? config
    let hidden = try text.int("hidden_size", in: 1...1 << 20)
    let visionTower = ["vision_tower", "model.vision_tower"].first {
      weights.has($0 + ".patch_embedder.input_proj.weight")
    }
    if !options.vision {
      if visionTower != nil { rules.switchedOff.insert(.image) }
    } else if let tower = visionTower, let fields = try config.object("vision_config") {
      let vision = try Gemma4Vision(
        fields, tower: weights.at(tower),
        projection: weights.at(tower.hasPrefix("model.") ? "model.embed_vision" : "embed_vision"),
        output: hidden)
      rules.images = MediaRules.Images(
        marks: try Self.marks("image", "boi", "eoi", config), grid: vision.grid)
      self.vision = vision
      if !options.isLazy { try vision.readWeights() }
    }
    let audioTower = ["audio_tower", "model.audio_tower"].first {
      weights.has($0 + ".subsample_conv_projection.input_proj_linear.weight")
    }
    if !options.audio {
      if audioTower != nil { rules.switchedOff.insert(.audio) }
    } else if let tower = audioTower, let fields = try config.object("audio_config") {
      let audio = try Gemma4Audio(
        Gemma4AudioConfig(fields), settings: MelSettings(processor), tower: weights.at(tower),
        projection: weights.at(tower.hasPrefix("model.") ? "model.embed_audio" : "embed_audio"),
        output: hidden)
      rules.audio = MediaRules.Audio(
        marks: try Self.marks("audio", "boa", "eoa", config), mel: audio.settings)
      self.audio = audio
      if !options.isLazy { audio.readWeights() }
    }
  }

  func encoder(for kind: MediaKind) -> (any MediaEncoder)? {
    switch kind {
    case .image: vision
    case .audio: audio
    }
  }

  /// The ids that config.json gives: `image_token_id`, `boi_token_id`, `eoi_token_id`; some are called `_index`.
  static func marks(
    _ soft: String, _ opening: String, _ closing: String, _ config: ConfigFields
  ) throws(ModelError) -> MediaMarks {
    func id(_ name: String) throws(ModelError) -> Int32 {
      let index = name + "_token_index"
      let key = config.has(index) && !config.has(name + "_token_id") ? index : name + "_token_id"
      return Int32(try config.int(key, in: 0...Int(Int32.max)))
    }
    return MediaMarks(opening: try id(opening), soft: try id(soft), closing: try id(closing))
  }
}
