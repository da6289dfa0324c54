// Instants: arithmetic that cannot trap.

import Testing

@testable import Platform

@Suite struct InstantTests {
  @Test func `the clock does not run backwards`() {
    let first = Instant.now
    #expect(Instant.now >= first)
  }

  @Test func `seconds are added and measured`() {
    let start = Instant(nanoseconds: 1_000_000_000)
    #expect(start.adding(seconds: 1.5).nanoseconds == 2_500_000_000)
    #expect(start.adding(seconds: -2).nanoseconds == -1_000_000_000)
    #expect(start.adding(seconds: 1.5).seconds(since: start) == 1.5)
    #expect(start.seconds(since: start.adding(seconds: 1)) == -1)
  }

  @Test(arguments: [Double.infinity, .nan, 1e30, 9.3e9, .greatestFiniteMagnitude])
  func `what lies beyond the end of time is the end of time`(seconds: Double) {
    #expect(Instant(nanoseconds: 5).adding(seconds: seconds).nanoseconds == .max)
  }

  @Test(arguments: [
    (-1e300, "1970-01-01T00:00:00.000Z"), (.nan, "1970-01-01T00:00:00.000Z"),
    (0.25, "1970-01-01T00:00:00.250Z"),
    (9.3e18, "9999-12-31T23:59:59.000Z"), (.infinity, "9999-12-31T23:59:59.000Z"),
  ])
  func `a date is one of four digits of years, whatever a file says`(seconds: Double, text: String) {
    #expect(Timestamp.text(seconds: seconds) == text)
  }

  @Test func `sizes of files add up to the largest number at most`() {
    #expect([1, 2, 3].sumOfSizes == 6 && [Int]().sumOfSizes == 0)
    #expect([Int.max, 1].sumOfSizes == .max && [.max / 2, .max / 2, 5].sumOfSizes == .max)
  }

  @Test func `the far past is the far past`() {
    #expect(Instant(nanoseconds: -5).adding(seconds: -.infinity).nanoseconds == .min)
    #expect(Instant(nanoseconds: .max).seconds(since: Instant(nanoseconds: .min)) > 1e10)
  }

  @Test func `the wall clock is past the year 2024`() { #expect(Instant.wallSeconds > 1.7e9) }
}
