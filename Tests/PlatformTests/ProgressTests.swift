// The part of a long piece of work that is done.

import Platform
import Testing

struct ProgressTests {
  @Test func the_part_grows_from_0_to_1_and_no_further() {
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

  @Test func work_that_begins_again_begins_at_0() {
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
