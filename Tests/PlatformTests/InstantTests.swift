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

  @Test func `the far past is the far past`() {
    #expect(Instant(nanoseconds: -5).adding(seconds: -.infinity).nanoseconds == .min)
    #expect(Instant(nanoseconds: .max).seconds(since: Instant(nanoseconds: .min)) > 1e10)
  }

  @Test func `the wall clock is past the year 2024`() { #expect(Instant.wallSeconds > 1.7e9) }
}
