// Where the parts of a row of int8 activations are, at every level.

import KernelTypes

@inline(__always)
func paddedColumns(_ columns: Int) -> Int { (columns + 63) & ~63 }

@inline(__always)
func paddedBlocks(_ columns: Int, _ block: Int) -> Int { (columns / block + 15) & ~15 }

/// Elements with one scale, beside weights in groups of `group`.
@inline(__always)
func blockSize(_ group: Int) -> Int { min(group, Int8Block.limit) }

/// Bytes after a row's start where it has its scales, its sums times these, and on arm64 the sums.
@inline(__always)
func places(_ columns: Int, _ block: Int) -> (a: Int, c: Int, sums: Int) {
  let (a, blocks) = (paddedColumns(columns), 4 * paddedBlocks(columns, block))
  return (a, a + blocks, a + 2 * blocks)
}
