// What `mlxserve eval` has found: a table, JSON, and a chart.

import Hub
import JSON

struct EvalReport {
  let models: [ModelScores]

  var json: JSONValue {
    .array(
      models.map { model in
        var fields: [(String, JSONValue)] = [
          ("model", .string(model.name)), ("weight_bytes", .int(model.bytes)),
        ]
        if let perplexity = model.perplexity { fields.append(("perplexity", .double(perplexity))) }
        if let divergence = model.divergence {
          fields += [
            ("mean_kl", .double(divergence.mean)), ("max_kl", .double(divergence.largest)),
            ("same_top_token_share", .double(divergence.same)),
          ]
        }
        let scores = [
          ("choices", model.choices), ("choices_by_length", model.evenChoices), ("tasks", model.tasks),
        ]
        fields += scores.compactMap { name, score in score.map { (name, $0.json) } }
        if let tools = model.tools { fields.append(("tools", tools.json)) }
        return .object(JSONObject(fields))
      })
  }

  // MARK: Table

  private struct Column: Sendable {
    let title: String
    let text: @Sendable (ModelScores) -> String?
  }

  private static let columns: [Column] = [
    Column(title: "size") { model in Size.words(model.bytes) },
    Column(title: "perplexity") { model in model.perplexity.map { fixed($0, 3) } },
    Column(title: "KL, nats") { model in model.divergence.map { fixed($0.mean, 5) } },
    Column(title: "largest") { model in model.divergence.map { fixed($0.largest, 3) } },
    Column(title: "same likeliest") { model in model.divergence.map { fixed(100 * $0.same) + " %" } },
    Column(title: "choices") { $0.choices?.words },
    Column(title: "by length") { $0.evenChoices?.words },
    Column(title: "tasks") { $0.tasks?.words },
    Column(title: "right tool") { $0.tools?.tools.words },
    Column(title: "and arguments") { $0.tools?.arguments.words },
  ]

  /// A line for each model, or a few where there is no room for that.
  func lines(width: Int?) -> [String] {
    let shown = Self.columns.filter { column in models.contains { column.text($0) != nil } }
    let rows = models.map { model in [model.name] + shown.map { $0.text(model) ?? "-" } }
    let table = Table.lines(["model"] + shown.map(\.title), rows)
    guard let width, table.contains(where: { TextWidth.of($0) > width }) else { return table }
    return models.flatMap { model in
      [model.name] + shown.compactMap { column in column.text(model).map { "  \(column.title): \($0)" } }
    }
  }

  // MARK: Chart

  private static let (nameWidth, barWidth, rowHeight) = (220, 360, 22)

  private struct Chart: Sendable {
    let title: String
    let value: @Sendable (ModelScores) -> Double?
    let digits: Int
  }

  private static let charts: [Chart] = [
    Chart(title: "Perplexity (less is better)", value: { $0.perplexity }, digits: 3),
    Chart(
      title: "KL to the first, nats per token (less is better)", value: { $0.divergence?.mean }, digits: 5),
    Chart(title: "Choices, % right", value: { model in model.choices.map { 100 * $0.share } }, digits: 1),
    Chart(
      title: "Tools and arguments, % right", value: { model in model.tools.map { 100 * $0.arguments.share } },
      digits: 1),
    Chart(title: "Tasks, % right", value: { model in model.tasks.map { 100 * $0.share } }, digits: 1),
  ]

  /// Bars as SVG, a group for each measure.
  var chart: String {
    var (body, y) = ("", 10)
    for chart in Self.charts where models.contains(where: { chart.value($0) != nil }) {
      body += "<text x=\"10\" y=\"\(y + 16)\" font-weight=\"bold\">\(chart.title)</text>\n"
      y += Self.rowHeight + 4
      let most = max(models.compactMap(chart.value).max() ?? 1, 1e-12)
      for model in models {
        guard let value = chart.value(model) else { continue }
        let length = Int(Double(Self.barWidth) * min(1, max(0, value / most)))
        let name = String(model.name.suffix(32))
        body +=
          "<text x=\"10\" y=\"\(y + 15)\">\(Self.escaped(name))</text>"
          + "<rect x=\"\(Self.nameWidth + 10)\" y=\"\(y + 3)\" width=\"\(length)\" height=\"\(Self.rowHeight - 6)\" fill=\"#4477aa\"/>"
          + "<text x=\"\(Self.nameWidth + 16 + length)\" y=\"\(y + 15)\">\(fixed(value, chart.digits))</text>\n"
        y += Self.rowHeight
      }
      y += 14
    }
    let width = Self.nameWidth + Self.barWidth + 110
    return
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"\(width)\" height=\"\(y)\" viewBox=\"0 0 \(width) \(y)\" "
      + "font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\(body)</svg>\n"
  }

  private static func escaped(_ text: String) -> String {
    Terminal.safe(text).replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(
      ">", with: "&gt;")
  }
}
