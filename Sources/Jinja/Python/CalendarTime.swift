// A date and time of day for `strftime_now`, without a calendar library.

/// Local time, to the second.
package struct CalendarTime: Sendable, Equatable {
  package let year: Int
  /// 1 to 12.
  package let month: Int
  /// 1 to 31.
  package let day: Int
  package let hour: Int
  package let minute: Int
  package let second: Int
  /// Seconds east of Greenwich.
  package let utcOffset: Int
  private let daysSince1970: Int

  /// - Parameters:
  ///   - seconds: since 1970-01-01 00:00:00 UTC.
  ///   - utcOffset: seconds east of Greenwich of the local time.
  package init(secondsSince1970 seconds: Int, utcOffset: Int = 0) {
    // Times beyond the year 9999 (or before year 1) are clamped: they only label prompts.
    let range = -62_135_596_800...253_402_300_799
    let local = min(
      max(
        min(max(seconds, range.lowerBound), range.upperBound) + min(max(utcOffset, -86_400), 86_400),
        range.lowerBound), range.upperBound)
    let days = local >= 0 ? local / 86_400 : -((86_399 - local) / 86_400)
    let secondOfDay = local - days * 86_400
    // Civil date from a day count: years begin in March, so that the leap day is the last.
    let shifted = days + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let marchMonth = (5 * dayOfYear + 2) / 153
    day = dayOfYear - (153 * marchMonth + 2) / 5 + 1
    month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
    year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    hour = secondOfDay / 3600
    minute = secondOfDay / 60 % 60
    second = secondOfDay % 60
    self.utcOffset = utcOffset
    daysSince1970 = days
  }

  /// 0 is Sunday.
  private var weekday: Int { ((daysSince1970 + 4) % 7 + 7) % 7 }

  /// 1 is the first of January.
  private var dayOfYear: Int {
    let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][month - 1]
    return before + day + (isLeap && month > 2 ? 1 : 0)
  }

  private static let days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
  private static let months = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November",
    "December",
  ]

  /// `strftime` in the C locale; unknown directives stay as they are.
  package func formatted(_ format: String) -> String {
    var out = ""
    var rest = Array(format.unicodeScalars)[...]
    while let scalar = rest.popFirst() {
      guard scalar == "%", var directive = rest.popFirst() else {
        out.unicodeScalars.append(scalar)
        continue
      }
      let isUnpadded = directive == "-" && !rest.isEmpty
      if isUnpadded, let next = rest.popFirst() { directive = next }
      out += field(directive, isUnpadded) ?? "%" + (isUnpadded ? "-" : "") + String(directive)
    }
    return out
  }

  private func field(_ directive: Unicode.Scalar, _ isUnpadded: Bool) -> String? {
    func number(_ value: Int, _ width: Int = 2, _ fill: String = "0") -> String {
      let text = String(value)
      return isUnpadded ? text : String(repeating: fill, count: max(0, width - text.utf8.count)) + text
    }
    let hour12 = hour % 12 == 0 ? 12 : hour % 12
    switch directive {
    case "Y": return String(year)
    case "y": return number(year % 100)
    case "C": return number(year / 100)
    case "m": return number(month)
    case "d": return number(day)
    case "e": return number(day, 2, " ")
    case "H": return number(hour)
    case "I": return number(hour12)
    case "M": return number(minute)
    case "S": return number(second)
    case "f": return "000000"
    case "p": return hour < 12 ? "AM" : "PM"
    case "j": return number(dayOfYear, 3)
    case "A": return Self.days[weekday]
    case "a": return String(Self.days[weekday].unicodeScalars.prefix(3))
    case "B": return Self.months[month - 1]
    case "b", "h": return String(Self.months[month - 1].unicodeScalars.prefix(3))
    case "w": return String(weekday)
    case "u": return String(weekday == 0 ? 7 : weekday)
    case "U": return number((dayOfYear + 6 - weekday) / 7)
    case "W": return number((dayOfYear + 6 - (weekday + 6) % 7) / 7)
    case "z": return zone
    case "Z": return utcOffset == 0 ? "UTC" : ""
    case "s": return String(daysSince1970 * 86_400 + hour * 3600 + minute * 60 + second - utcOffset)
    case "c": return formatted("%a %b %e %H:%M:%S %Y")
    case "D", "x": return formatted("%m/%d/%y")
    case "F": return formatted("%Y-%m-%d")
    case "R": return formatted("%H:%M")
    case "T", "X": return formatted("%H:%M:%S")
    case "r": return formatted("%I:%M:%S %p")
    case "n": return "\n"
    case "t": return "\t"
    case "%": return "%"
    default: return nil
    }
  }

  private var zone: String {
    let size = abs(utcOffset) / 60
    func two(_ value: Int) -> String { value < 10 ? "0\(value)" : "\(value)" }
    return (utcOffset < 0 ? "-" : "+") + two(size / 60) + two(size % 60)
  }
}
