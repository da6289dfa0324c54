// The encoders of a checkpoint, and what its files say about their place in a prompt.

import Media

/// Encoders that exist in the checkpoint and are wanted; conversions for text have none.
struct MediaTowers {
  var rules = MediaRules()
  var images: (any MediaEncoder)?
  var audio: (any MediaEncoder)?
  /// Whether the positions of an image see each other in both directions.
  var areImagesWhole = false
  /// After how many of the first layers soft tokens add to the residual stream; fewer than there are layers.
  var depth = 0

  func encoder(for kind: MediaKind) -> (any MediaEncoder)? {
    switch kind {
    case .image: images
    case .audio: audio
    }
  }
}

/// What towers are made from.
struct TowerSource {
  let type: String
  /// The whole of config.json.
  let config: ConfigFields
  /// processor_config.json or preprocessor_config.json.
  let processor: ConfigFields?
  /// What one of them says about images.
  let imageProcessor: ConfigFields
  let options: MediaOptions
  /// Of encoders, whose matrices stay in the file.
  let weights: LayerLoader

  func vision() throws(ModelError) -> ConfigFields {
    guard let fields = try config.object("vision_config") else { throw .missingKey("vision_config") }
    return fields
  }

  /// Elements of a soft token.
  func hidden() throws(ModelError) -> Int {
    try (config.object("text_config") ?? config).int("hidden_size", in: 1...1 << 20)
  }
}

extension ConfigFields {
  /// A token that config.json gives by `<name>_token_id`, or `<name>_token_index` as older files call it.
  func token(_ name: String) throws(ModelError) -> Int32 {
    let index = name + "_token_index"
    let key = has(index) && !has(name + "_token_id") ? index : name + "_token_id"
    return Int32(try int(key, in: 0...Int(Int32.max)))
  }

  func marks(opening: String, soft: String, closing: String) throws(ModelError) -> MediaMarks {
    MediaMarks(opening: try token(opening), soft: try token(soft), closing: try token(closing))
  }
}
