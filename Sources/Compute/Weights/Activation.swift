// What stands between the linear maps of an MLP: the experts of a layer are stored for one of these.

import Platform

/// What stands between the two linear maps of an MLP.
package enum Activation: Sendable {
  /// Of a gate, which multiplies what comes up beside it: silu(g) · u, and gelu(g) · u with gelu's tanh form.
  case silu, gelu
  /// gpt-oss: g · sigmoid(1.702 g) · (u + 1), g at most `limit` and u within ±limit.
  case clippedSilu(limit: Float)
  /// Without a gate: max(u, 0)², gelu(u), and Apertus' xIELU (`xIELU`).
  case squaredReLU
  case geluAlone
  case xIELU(XIELU)

  /// Whether it takes `[gate | up]`, twice as wide as what it gives.
  var isGated: Bool {
    switch self {
    case .silu, .gelu, .clippedSilu: true
    case .squaredReLU, .geluAlone, .xIELU: false
    }
  }
}

/// arXiv:2411.13010: `x > 0: p x² + b x`, else `(e^min(x, ε) - 1 - x) n + b x`.
package struct XIELU: Sendable {
  package let positive, negative, beta, epsilon: Float

  /// - Parameters: as stored, before softplus; `beta` is added to the negative one.
  package init(alphaP: Float, alphaN: Float, beta: Float, epsilon: Float) {
    func softplus(_ x: Float) -> Double { Double(max(x, 0)) + log1p(exp(-Double(x.magnitude))) }
    positive = Float(softplus(alphaP))
    negative = Float(Double(beta) + softplus(alphaN))
    (self.beta, self.epsilon) = (beta, epsilon)
  }

  func callAsFunction(_ x: Float) -> Float {
    x > 0
      ? positive * x * x + beta * x
      : (Float(expm1(Double(min(x, epsilon)))) - x) * negative + beta * x
  }
}
