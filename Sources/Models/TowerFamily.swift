// From config.json's model_type to what a model sees and hears with.

import Media

/// The table of towers and processors, beside `ModelFamily`'s of decoders. docs/media.md lists the same for people.
package enum TowerFamily {
  private typealias Make = @Sendable (TowerSource) throws(ModelError) -> MediaTowers

  private static let table: [(types: [String], make: Make)] = [
    (["gemma4", "gemma4_text", "gemma4_unified"], Gemma4Towers.towers),
    (
      ["gemma3"],
      { source throws(ModelError) in
        try seeing(source, at: Gemma3Vision.places, PatchTransformer.firstTensor, Gemma3Vision.towers)
      }
    ),
    (
      ["idefics3", "smolvlm"],
      { source throws(ModelError) in
        try seeing(source, at: Idefics3Vision.places, PatchTransformer.firstTensor, Idefics3Vision.towers)
      }
    ),
    (
      ["qwen3_vl", "qwen3_vl_moe"],
      { source throws(ModelError) in
        try seeing(source, at: Qwen3VLVision.places, Qwen3VLVision.firstTensor, Qwen3VLVision.towers)
      }
    ),
  ]

  /// Every `model_type` that has a tower here.
  package static let supportedTypes = table.flatMap(\.types).sorted()

  /// The towers of a checkpoint; those that its weights lack or that nobody wants are left out.
  static func towers(_ source: TowerSource) throws(ModelError) -> MediaTowers {
    guard let make = table.first(where: { $0.types.contains(source.type) })?.make else {
      var towers = MediaTowers()
      if source.config.look("vision_config") != nil {
        towers.rules.absences[.image] = "towers of the type '\(source.type)' have no implementation here"
      }
      return towers
    }
    let towers = try make(source)
    if !source.options.isLazy {
      for encoder in [towers.images, towers.audio] { try encoder?.readWeights() }
    }
    return towers
  }

  /// The tower of a family that sees: where the first of `places` is that has its first tensor.
  private static func seeing(
    _ source: TowerSource, at places: [String], _ name: String,
    _ make: (TowerSource, _ tower: LayerLoader) throws(ModelError) -> MediaTowers
  ) throws(ModelError) -> MediaTowers {
    var none = MediaTowers()
    guard let place = places.first(where: { source.weights.has($0 + "." + name) }) else {
      none.rules.absences[.image] = "its files hold no vision tower"
      return none
    }
    guard source.options.vision else {
      none.rules.switchedOff.insert(.image)
      return none
    }
    return try make(source, source.weights.at(place))
  }
}
