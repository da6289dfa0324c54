// Cache sizes, buffers, worker pool and look-up.

import Platform
import Support
import Synchronization
import Testing

@testable import Compute

@Suite struct StorageTests {
  @Test func `a cache refuses sizes that make no sense or overflow`() {
    let good = [KVLayerShape(kvHeads: 8, headDim: 128)]
    #expect(throws: ComputeError.self) { try KVCache(shape: good, blockCount: 0) }
    #expect(throws: ComputeError.self) { try KVCache(shape: good, blockCount: .max) }
    #expect(throws: ComputeError.self) { try KVCache(shape: [], blockCount: 1) }
    #expect(throws: ComputeError.self) { try KVCache(shape: [.init(kvHeads: 0, headDim: 1)], blockCount: 1) }
    #expect(throws: ComputeError.self) { try KVCache(shape: [.init(kvHeads: 1, headDim: -1)], blockCount: 1) }
  }

  @Test func `a block of 28 layers with 8 heads of 128 takes 7 MiB`() throws {
    let shape = [KVLayerShape](repeating: KVLayerShape(kvHeads: 8, headDim: 128), count: 28)
    #expect(try KVCache.bytesPerBlock(shape) == 28 * 2 * 8 * 128 * 32 * 4)
    let cache = try KVCache(shape: shape, blockCount: 1000)
    #expect(cache.bytesPerBlock == 7_340_032 && cache.blockCount == 1000)
  }

  @Test func `an untouched cache costs no memory`() throws {
    let before = Machine.peakResidentBytes
    let shape = [KVLayerShape](repeating: KVLayerShape(kvHeads: 8, headDim: 128), count: 28)
    let cache = try KVCache(shape: shape, blockCount: 1 << 10)
    cache.layer(27).keys(block: 1023, head: 7).storeBytes(of: 1, as: Float.self)
    #expect(cache.layer(27).keys(block: 1023, head: 7).load(as: Float.self) == 1)
    #expect(Machine.peakResidentBytes - before < 1 << 30)
  }

  @Test(arguments: KVFormat.allCases)
  func `slots of layers, blocks and heads do not overlap`(format: KVFormat) throws {
    let shape = [KVLayerShape(kvHeads: 2, headDim: 3), KVLayerShape(kvHeads: 1, headDim: 5)]
    let cache = try KVCache(shape: shape, blockCount: 3, format: format)
    var starts: [(start: UnsafeMutableRawPointer, count: Int)] = []
    let bytes = 32 * format.elementBytes
    // Both heads are odd: integers are stored in pairs.
    for (index, layer) in shape.enumerated() {
      for block in 0..<3 {
        for head in 0..<layer.kvHeads {
          starts.append(
            (
              cache.layer(index).keys(block: block, head: head),
              (layer.headDim + (format == .f32 ? 0 : 1)) * bytes
            ))
          starts.append((cache.layer(index).values(block: block, head: head), layer.headDim * bytes))
          guard format != .f32 else { continue }
          starts.append((UnsafeMutableRawPointer(cache.layer(index).scales(block: block, head: head)), 256))
        }
      }
    }
    starts.sort { $0.start < $1.start }
    for (one, next) in zip(starts, starts.dropFirst()) { #expect(one.start + one.count == next.start) }
    #expect(starts.reduce(0) { $0 + $1.count } == cache.bytesPerBlock * 3)
  }

  @Test(arguments: [1, 2, 3, 8])
  func `every tile runs once and no worker runs two at a time`(threads: Int) {
    let pool = WorkerPool(threads: threads)
    let busy = Monitor([Bool](repeating: false, count: threads))
    for tiles in [0, 1, 2, 7, 100] {
      let runs = Monitor([Int](repeating: 0, count: tiles))
      pool.run(tiles: tiles) { tile, worker in
        busy.withLock { workers in
          #expect(!workers[worker])
          workers[worker] = true
        }
        runs.withLock { $0[tile] += 1 }
        busy.withLock { $0[worker] = false }
      }
      #expect(runs.withLock { $0 } == [Int](repeating: 1, count: tiles))
    }
  }

  @Test(arguments: [
    (1, [4], [0]), (4, [2, 2], [0, 0, 1, 1]), (3, [2, 2], [0, 1, 1]), (8, [2, 2], [0, 0, 0, 0, 1, 1, 1, 1]),
    (4, [1, 3], [0, 1, 1, 1]), (2, [8, 8, 8, 8], [1, 3]), (3, [], [0, 0, 0]),
  ])
  func `threads are spread over the nodes of memory by their processors`(
    threads: Int, processors: [Int], places: [Int]
  ) {
    #expect(WorkerPool.places(of: threads, on: processors) == places)
  }

  @Test func `what is placed is done on the node of its place, whoever comes first`() {
    // Two nodes with the same processors: what is asked of the system is possible on any machine.
    let processors = Topology.here.nodes[0]
    let pool = WorkerPool(threads: 4, nodes: [processors, processors])
    #expect(pool.nodes == 2)
    for tiles in [0..<80, 30..<62, 0..<3, 79..<80, 5..<5] {
      let workers = Monitor([Int?](repeating: nil, count: 80))
      pool.place(tiles, of: 0..<80) { tile, worker in
        workers.withLock {
          #expect($0[tile] == nil)
          $0[tile] = worker
        }
      }
      for (tile, worker) in workers.withLock({ $0 }).enumerated() {
        #expect(worker.map { $0 / 2 } == (tiles.contains(tile) ? tile / 40 : nil), "tile \(tile)")
      }
    }
  }

  @Test func `a thread that nobody stands in for comes to every fork`() {
    let processors = Topology.here.nodes[0]
    let pool = WorkerPool(threads: 6, nodes: [processors, processors, processors])
    let done = Atomic<Int>(0)
    for round in 0..<1000 {
      pool.place(0..<6, of: 0..<6) { _, _ in done.wrappingAdd(1, ordering: .relaxed) }
      // Between no time and longer than threads look out for the next fork before they sleep.
      usleep(UInt32(round % 8) * 60)
    }
    #expect(done.load(ordering: .relaxed) == 6000)
  }

  #if os(Linux)
    @Test func `threads stay on their node where there are several`() throws {
      let processor = try #require(Topology.here.nodes.first?.first)
      let others = Topology.here.nodes.joined().filter { $0 != processor }
      let nodes = [others.isEmpty ? [processor] : Array(others), [processor]]
      let pool = WorkerPool(threads: 2, nodes: nodes)
      let lists = Monitor(["", ""])
      pool.place(0..<2, of: 0..<2) { _, worker in
        let line = PseudoFile.lines("/proc/thread-self/status").first { $0.hasPrefix("Cpus_allowed_list:") }
        lists.withLock { $0[worker] = String(line ?? "") }
      }
      #expect(lists.withLock { $0[1] } == "Cpus_allowed_list:\t\(processor)")
    }
  #endif

  @Test func `gather reads dense and quantized rows`() throws {
    var random = SeededGenerator(seed: 11)
    let context = try ComputeContext(threads: 1)
    let packed = Bytes.random(5 * 32, using: &random)
    let scales = Bytes.floats(5, using: &random)
    let biases = Bytes.floats(5, using: &random)
    func view(_ bytes: Bytes, _ dtype: DType, _ shape: [Int]) -> TensorView {
      TensorView(
        name: "t", dtype: dtype, shape: shape,
        bytes: UnsafeRawBufferPointer(start: bytes.start, count: bytes.count),
        owner: bytes)
    }
    let matrix = try WeightStack([
      WeightTensors(
        weight: view(packed, .u32, [5, 8]), scales: view(scales, .f32, [5, 1]),
        biases: view(biases, .f32, [5, 1]),
        quantization: Quantization(bits: 8, groupSize: 32), rows: 5, columns: 32)
    ])
    let storage = ScratchBuffer()
    let out = storage.rows(2, 32)
    context.gather([4, 0], of: matrix, into: out)
    let first =
      Float(packed.start.load(fromByteOffset: 4 * 32, as: UInt8.self)) * scales.floats[4] + biases.floats[4]
    #expect(abs(out.values(ofRow: 0)[0] - first) < 1e-4)

    let dense = Bytes.floats(3 * 7, using: &random)
    let plain = try WeightStack([WeightTensors(dense: view(dense, .f32, [3, 7]))])
    let buffer = ScratchBuffer()
    let rows = buffer.rows(1, 7)
    context.gather([2], of: plain, into: rows)
    #expect(rows.values(ofRow: 0) == Array(dense.values(21)[14...]))
    withExtendedLifetime((storage, buffer)) {}
  }

  @Test func `weights without a kernel are refused with what would work`() {
    let bytes = Bytes(64)
    func tensors(_ mode: Quantization.Mode, bits: Int, group: Int, dtype: DType = .u32) -> WeightTensors {
      let view = TensorView(
        name: "w", dtype: dtype, shape: [1, 8], bytes: UnsafeRawBufferPointer(start: bytes.start, count: 32),
        owner: bytes)
      return WeightTensors(
        weight: view, scales: view, biases: view,
        quantization: Quantization(mode: mode, bits: bits, groupSize: group),
        rows: 1, columns: 64)
    }
    for bad in [
      tensors(.nvfp4, bits: 4, group: 16), tensors(.mxfp4, bits: 4, group: 64),
      tensors(.affine, bits: 7, group: 64),
      tensors(.affine, bits: 4, group: 16),
      tensors(.affine, bits: 4, group: 128), tensors(.affine, bits: 4, group: 64, dtype: .i64),
    ] {
      #expect(throws: ComputeError.self) { try WeightStack([bad]) }
    }
  }
}
