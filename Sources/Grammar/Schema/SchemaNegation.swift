// What violates the keywords that combine schemas.

import JSON

extension SchemaNormalizer {
  // MARK: Keywords that do not hold

  mutating func negative(
    _ keyword: String, _ members: JSONObject, _ literal: SchemaLiteral
  ) throws(GrammarError) -> [SchemaAtom] {
    switch keyword {
    case "$ref", "$dynamicRef", "$recursiveRef":
      return try atoms(try target(keyword, members, literal).negated)
    case "allOf":
      var out: [SchemaAtom] = []
      for branch in try branches(keyword, members, literal) { out += try atoms(branch.negated) }
      return out
    case "anyOf":
      var out = SchemaAtom.everything
      for branch in try branches(keyword, members, literal) where !out.isEmpty {
        out = try excluding(branch, from: out)
      }
      return out
    case "oneOf":
      let list: [SchemaLiteral] = try branches(keyword, members, literal)
      var out = SchemaAtom.everything
      for branch in list where !out.isEmpty { out = try excluding(branch, from: out) }
      for (index, first) in list.enumerated() {
        for second in list[(index + 1)...] { out += try product(try atoms(first), try atoms(second)) }
      }
      return out
    case "not": return try atoms(try child(literal, SchemaStep("not"), members["not"] ?? true))
    case "if":
      let (test, then, other) = try conditional(members, literal)
      return try product(try atoms(test), try atoms(then.negated))
        + (try product(try atoms(test.negated), try atoms(other.negated)))
    case "dependentSchemas", "dependencies":
      var out: [SchemaAtom] = []
      for (key, schema, keys) in try dependents(keyword, members, literal) {
        let with = ObjectAtom(required: [key])
        if let schema {
          out += try product([.object(with)], try atoms(schema.negated))
        } else {
          for needed in keys { if let atom = with.and(without(needed)) { out.append(.object(atom)) } }
        }
      }
      return out
    case "unevaluatedProperties", "unevaluatedItems":
      isRestricted = true
      return []
    default: return try violation(keyword, members, literal)
    }
  }
}
