// A value with the mutex that guards it and the condition that announces its changes.

/// The one locking primitive of the project.
///
/// `@unchecked Sendable`: `value` is only touched inside `withLock`, `update` and `wait`, all of which
/// hold the mutex; the mutex and condition are allocated once and never move.
///
/// One that guards no value has a `Bool`: a value without size would have the address of `mutex`, which is read outside
/// the lock, and the thread sanitizer would call that a race.
package final class Monitor<Value>: @unchecked Sendable {
  private var value: Value
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>

  package init(_ value: sending Value) {
    self.value = value
    mutex = .allocate(capacity: 1)
    condition = .allocate(capacity: 1)
    mutex.initialize(to: pthread_mutex_t())
    condition.initialize(to: pthread_cond_t())
    pthread_mutex_init(mutex, nil)
    #if canImport(Darwin)
      pthread_cond_init(condition, nil)
    #else
      var attributes = pthread_condattr_t()
      pthread_condattr_init(&attributes)
      pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
      pthread_cond_init(condition, &attributes)
      pthread_condattr_destroy(&attributes)
    #endif
  }

  deinit {
    pthread_cond_destroy(condition)
    pthread_mutex_destroy(mutex)
    condition.deallocate()
    mutex.deallocate()
  }

  /// Runs `body` with the lock held. Nothing that blocks belongs in it.
  package func withLock<Result, Failure: Error>(
    _ body: (inout Value) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    lock()
    defer { unlock() }
    return try body(&value)
  }

  /// Runs `body` with the lock held, then wakes all waiters.
  package func update<Result, Failure: Error>(
    _ body: (inout Value) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    lock()
    // In this order: a waiter that is woken while the lock is held goes back to sleep until it is not.
    defer {
      unlock()
      pthread_cond_broadcast(condition)
      #if DEBUG
        Turns.current?.wake(ObjectIdentifier(self))
      #endif
    }
    return try body(&value)
  }

  /// Waits until `body` returns a result, testing it now and after every `update`.
  ///
  /// - Parameter deadline: nil waits without limit.
  /// - Returns: nil when the deadline passed first.
  package func wait<Result>(
    until deadline: Instant? = nil, _ body: (inout Value) -> sending Result?
  ) -> sending Result? {
    lock()
    defer { unlock() }
    while true {
      if let result = body(&value) { return result }
      #if DEBUG
        if let member = Turns.current {
          pthread_mutex_unlock(mutex)
          let isOver = member.sleep(ObjectIdentifier(self), until: deadline)
          pthread_mutex_lock(mutex)
          if isOver { return body(&value) }
          continue
        }
      #endif
      guard let deadline else {
        pthread_cond_wait(condition, mutex)
        continue
      }
      if Instant.now >= deadline { return nil }
      waitOnce(until: deadline)
    }
  }

  private func lock() {
    #if DEBUG
      Turns.current?.take(ObjectIdentifier(self))
    #endif
    pthread_mutex_lock(mutex)
  }

  private func unlock() {
    pthread_mutex_unlock(mutex)
    #if DEBUG
      Turns.current?.give(ObjectIdentifier(self))
    #endif
  }

  private func waitOnce(until deadline: Instant) {
    #if canImport(Darwin)
      let left = max(0, deadline.nanoseconds - Instant.now.nanoseconds)
      var time = timespec(tv_sec: Int(left / 1_000_000_000), tv_nsec: Int(left % 1_000_000_000))
      pthread_cond_timedwait_relative_np(condition, mutex, &time)
    #else
      let at = deadline.nanoseconds
      var time = timespec(tv_sec: Int(at / 1_000_000_000), tv_nsec: Int(at % 1_000_000_000))
      pthread_cond_timedwait(condition, mutex, &time)
    #endif
  }
}
