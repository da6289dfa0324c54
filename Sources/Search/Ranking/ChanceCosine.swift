// How near a model holds texts that have nothing to do with each other: 0.0 for some, 0.7 for others.

import Platform
import Vectors

/// What is taken off cosines before they are added to scores of words, so that these count as much beside every model.
///
/// It is the model's and not an index's: passages of a hundred bills are near each other, and questions are not nearer to them.
enum ChanceCosine {
  private static let known = Monitor<[String: Float]>([:])
  private static let most: Float = 0.95
  /// Models that are remembered.
  private static let mostModels = 64

  private static let questions = [
    "when was the roof repaired", "recipe for bread", "speed of light in water", "who wrote the letter",
  ]
  private static let passages = [
    "The committee met on Tuesday and elected a new treasurer.",
    "Whales breathe air and feed their young with milk.",
    "Two goals in the last minute decided the match.",
    "The parser reads one byte at a time and keeps a stack.",
    "Her violin was made in Cremona three hundred years ago.",
    "Prices of copper fell after the mine opened again.",
  ]

  /// The mean cosine of questions and passages about other things, 0 or more.
  static func of(_ encoder: any PassageEncoder, isUnwanted: () -> Bool) throws(SearchError) -> Float {
    let name = encoder.fingerprint
    if let chance = known.withLock({ $0[name] }) { return chance }
    var mean: Float = 0
    do throws(SearchError) {
      let asked = try encoder.encode(questions, as: .query, isUnwanted: isUnwanted)
      let found = try encoder.encode(passages, as: .passage, isUnwanted: isUnwanted)
      let cosines = asked.flatMap { one in found.map { ExactScore.dot(one, $0) } }
      mean = cosines.reduce(0, +) / Float(max(1, cosines.count))
    } catch .encoder {
      // A model that takes fewer tokens than these texts have: nothing is taken off.
    }
    let chance = min(max(0, mean), most)
    known.withLock { known in
      if known.count >= mostModels { known = [:] }
      known[name] = chance
    }
    return chance
  }
}
