// README.md of a converted model: what it was made of and how, and what was measured.

import Checkpoint
import Conversion
import Hub
import Platform

struct ModelCard {
  let text: String

  init(_ conversion: Conversion, source: ModelFolder, measured: MeasuredConversion?, asked: String) {
    let plan = conversion.plan
    let name = File.name(of: conversion.output)
    var front = ["---", "library_name: mlx", "pipeline_tag: text-generation", "tags:", "- mlx"]
    if let license = source.license ?? ShowCommand.licence(source.place) {
      front.append("license: \(Self.line(license))")
    }
    var lines =
      front + [
        "---", "", "# \(Self.line(name))", "",
        "Converted from \(Self.line(source.name))\(source.isGGUF ? ".gguf" : "") with mlxserve \(Version.text): "
          + "`mlxserve convert MODEL --output \(Self.line(name))\(asked.isEmpty ? "" : " " + Self.line(asked))`.",
        "",
        "| | |", "|---|---|", "| Parameters | \(ShowCommand.parameters(plan.parameters)) |",
        "| Weights | \(plan.quantizationWords) |", "| Bits per weight | \(fixed(plan.bitsPerWeight, 2)) |",
        "| Size | \(Size.words(plan.bytes)) |",
      ]
    if let error = conversion.relativeError {
      lines.append(
        "| Change of the weights that were rounded (root mean square) | \(fixed(100 * error, 2)) % |")
    }
    lines.append("")
    if let measured { lines += ["Measured with exact activations \(Self.line(measured.words)).", ""] }
    lines += [
      "    mlxserve serve \(Self.line(name))",
      "    mlx_lm.generate --model \(Self.line(name)) --prompt \"Hello\"", "",
    ]
    text = lines.joined(separator: "\n")
  }

  /// A name or a path as part of a line, whatever it holds.
  private static func line(_ text: String) -> String {
    Terminal.safe(text).replacing("\n", with: " ").replacing("`", with: "'").replacing("|", with: "/")
  }
}
