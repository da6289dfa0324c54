// How the engines of decoders and of encoders start: on a thread of their own, where the model stays.

import Platform

enum EngineThread {
  /// Returns when the thread has loaded what then runs on it.
  ///
  /// - Parameter load: on that thread; what others may know of the engine, and the engine's work.
  /// - Throws: what `load` throws; the thread has ended then.
  static func start<Facts: Sendable>(
    _ name: String, stackBytes: Int,
    _ load: @escaping @Sendable () throws(InferenceError) -> (facts: Facts, run: () -> Void)
  ) throws -> (facts: Facts, thread: Thread) {
    let outcome = Monitor<Result<Facts, InferenceError>?>(nil)
    let thread = try Thread(name: name, stackBytes: stackBytes) {
      do throws(InferenceError) {
        let (facts, run) = try load()
        outcome.update { $0 = .success(facts) }
        run()
      } catch {
        outcome.update { $0 = .failure(error) }
      }
    }
    let result: Result<Facts, InferenceError>? = outcome.wait { $0 }
    switch result {
    case .success(let facts): return (facts, thread)
    case .failure(let error):
      thread.join()
      throw error
    case nil: throw InferenceError.draining
    }
  }
}
