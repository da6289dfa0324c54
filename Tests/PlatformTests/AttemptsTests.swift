// Work that a process did not come to the end of is tried again twice, alone among its like, and then given up.

import Support
import Testing

@testable import Platform

@Suite struct AttemptsTests {
  private func process(_ disk: SimulatedDisk) -> Attempts {
    disk.restart(losingPower: false)
    return Attempts(folder: "/attempts", files: disk)
  }

  @Test func `work is begun three times, and given up where three processes have died of it`() {
    let disk = SimulatedDisk()
    for _ in 0..<3 {
      #expect(process(disk).begin("work"))
      #expect(process(disk).begin("other") && disk.files.contains("/attempts/other"))
      process(disk).end("other")
    }
    let last = process(disk)
    #expect(!last.begin("work") && !last.begin("work"))
    // Whoever has written it down forgets it: asked for anew, it is tried.
    last.end("work")
    #expect(disk.files.isEmpty)
    #expect(last.begin("work") && process(disk).begin("work"))
  }

  @Test func `work that came to its end, or came on, does not count`() {
    let disk = SimulatedDisk()
    for _ in 0..<10 {
      let attempts = process(disk)
      #expect(attempts.begin("ended") && attempts.begin("moving"))
      attempts.end("ended")
      attempts.restart("moving")
    }
    #expect(disk.content("/attempts/moving") == [0x31] && disk.files == ["/attempts/moving"])
  }

  @Test func `what a process may have died of is at work alone`() throws {
    let disk = SimulatedDisk()
    do {
      let first = process(disk)
      for name in ["a", "b", "c"] { #expect(first.begin(name)) }
    }
    let attempts = process(disk)
    #expect(attempts.begin("a") && attempts.begin("new"))
    // Two that wait are left out where nobody wants them, and have their turn when the one before them has ended.
    #expect(attempts.begin("b", isUnwanted: { true }))
    let order = Monitor<[String]>([])
    let thread = try Thread(name: "attempt") {
      _ = attempts.begin("c")
      order.withLock { $0.append("c begins") }
      attempts.end("c")
    }
    order.withLock { $0.append("a ends") }
    attempts.end("a")
    thread.join()
    #expect(order.withLock { $0 } == ["a ends", "c begins"])
  }

  @Test func `a disk that takes no notes does not keep work from being done`() {
    let disk = SimulatedDisk()
    disk.follow(.init(.error(ENOSPC), at: 0, isLasting: true))
    let attempts = Attempts(folder: "/attempts", files: disk)
    #expect(attempts.begin("work"))
    attempts.end("work")
    #expect(Attempts(folder: nil).begin("work"))
  }

  @Test func `any content of a note counts as some attempts`() {
    let notes: [([UInt8], Bool)] = [
      ([], true), ([0x30], true), ([0x32], true), ([0x33], false), ([0xFF], true),
    ]
    for (content, isTried) in notes {
      let disk = SimulatedDisk()
      _ = disk.mkdir("/attempts")
      disk.put("/attempts/work", content)
      #expect(process(disk).begin("work") == isTried)
    }
  }
}
