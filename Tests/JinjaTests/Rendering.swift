// What the template tests share: rendering a source, and the fixed clock of the goldens.

import JSON
import Jinja

/// 2025-01-02 03:04:05, when the goldens were rendered.
let goldenClock: @Sendable () -> CalendarTime = { CalendarTime(secondsSince1970: 1_735_787_045) }

func render(
  _ source: String, _ variables: JSONValue = [:], limits: JinjaLimits = JinjaLimits()
) throws(JinjaError) -> String {
  let template = try JinjaTemplate(source: source, limits: limits)
  return try template.render(variables.objectValue ?? JSONObject(), clock: goldenClock)
}

/// The error of loading or rendering, or nil.
func failure(
  _ source: String, _ variables: JSONValue = [:], limits: JinjaLimits = JinjaLimits()
) -> JinjaError? {
  do throws(JinjaError) {
    _ = try render(source, variables, limits: limits)
    return nil
  } catch {
    return error
  }
}
