// Which adapter a request is computed with: a part of what its keys and values are known by.

/// The adapter that a request wants, and how much of it.
package struct AdapterChoice: Sendable, Hashable {
  package let digest: String
  /// A factor of what it adds.
  package let strength: Float

  package init(digest: String, strength: Float = 1) { (self.digest, self.strength) = (digest, strength) }
}
