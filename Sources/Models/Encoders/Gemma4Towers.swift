// The encoders of a Gemma 4 checkpoint, and what config.json says about their place in a prompt.

import Media

enum Gemma4Towers {
  static func towers(_ source: TowerSource) throws(ModelError) -> MediaTowers {
    let (weights, hidden) = (source.weights, try source.hidden())
    var towers = MediaTowers()
    let visionTower = ["vision_tower", "model.vision_tower"].first {
      weights.has($0 + ".patch_embedder.input_proj.weight")
    }
    if !source.options.vision {
      if visionTower != nil { towers.rules.switchedOff.insert(.image) }
    } else if let tower = visionTower, let fields = try source.config.object("vision_config") {
      let vision = try Gemma4Vision(
        fields, tower: weights.at(tower),
        projection: weights.at(tower.hasPrefix("model.") ? "model.embed_vision" : "embed_vision"),
        output: hidden)
      towers.rules.images = GridImages(
        marks: try source.config.marks(opening: "boi", soft: "image", closing: "eoi"), grid: vision.grid)
      towers.images = vision
    }
    let audioTower = ["audio_tower", "model.audio_tower"].first {
      weights.has($0 + ".subsample_conv_projection.input_proj_linear.weight")
    }
    if !source.options.audio {
      if audioTower != nil { towers.rules.switchedOff.insert(.audio) }
    } else if let tower = audioTower, let fields = try source.config.object("audio_config") {
      let audio = try Gemma4Audio(
        Gemma4AudioConfig(fields), settings: MelSettings(source.processor), tower: weights.at(tower),
        projection: weights.at(tower.hasPrefix("model.") ? "model.embed_audio" : "embed_audio"),
        output: hidden)
      towers.rules.audio = MediaRules.Audio(
        marks: try source.config.marks(opening: "boa", soft: "audio", closing: "eoa"), mel: audio.settings)
      towers.audio = audio
    }
    return towers
  }
}
