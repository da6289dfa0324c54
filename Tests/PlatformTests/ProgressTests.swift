// The part of a long piece of work that is done.

import Platform
import Testing

@Suite struct ProgressTests {
  @Test func `the part grows from 0 to 1 and no further`() {
    let progress = Progress()
    progress.add(5)
    #expect(progress.part == nil)
    progress.begin(8)
    #expect(progress.part == 0)
    progress.add(2)
    #expect(progress.part == 0.25)
    progress.add(-3)
    #expect(progress.part == 0.25)
    progress.add(.max)
    #expect(progress.part == 1)
  }

  @Test func `work that begins again begins at 0`() {
    let progress = Progress()
    progress.begin(4)
    progress.add(3)
    progress.begin(2)
    #expect(progress.part == 0)
    progress.add(1)
    #expect(progress.part == 0.5)
    progress.begin(-1)
    #expect(progress.part == nil)
  }
}
