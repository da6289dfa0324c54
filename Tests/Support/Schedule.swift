// Threads that run one at a time: at each lock a seed chooses which goes on, so that a test finds what only some
// orders show, and a failure is repeated by its seed.

#if DEBUG
  package import Platform

  /// Threads that take turns at the locks of `Monitor`. Those that they start belong to it too.
  ///
  /// Time stands still: a wait with a deadline ends by it only where nobody else can go on.
  ///
  /// `@unchecked Sendable`: what changes is only touched with `mutex` held.
  package final class Schedule: @unchecked Sendable {
    fileprivate enum State {
      /// Waits for its turn, with a lock if it wants one.
      case ready(ObjectIdentifier?)
      /// Waits for an update.
      case asleep(ObjectIdentifier, isTimed: Bool)
      case over
    }

    /// `@unchecked Sendable`: the same.
    final class Member: ThreadTurns, @unchecked Sendable {
      fileprivate let schedule: Schedule
      fileprivate let number: Int
      fileprivate let isClient: Bool
      fileprivate var state = State.ready(nil)
      fileprivate var hasTimedOut = false
      fileprivate let condition: UnsafeMutablePointer<pthread_cond_t>

      fileprivate init(_ schedule: Schedule, _ number: Int, isClient: Bool) {
        (self.schedule, self.number, self.isClient) = (schedule, number, isClient)
        condition = .allocate(capacity: 1)
        condition.initialize(to: pthread_cond_t())
        pthread_cond_init(condition, nil)
      }

      deinit {
        pthread_cond_destroy(condition)
        condition.deallocate()
      }

      var isOn: Bool { schedule.locked { !schedule.isFree } }

      func take(_ lock: ObjectIdentifier) { schedule.locked { schedule.yield(self, .ready(lock)) } }

      func give(_ lock: ObjectIdentifier) { schedule.locked { schedule.holders[lock] = nil } }

      func wake(_ lock: ObjectIdentifier) {
        schedule.locked {
          for member in schedule.members {
            if case .asleep(lock, _) = member.state { member.state = .ready(lock) }
          }
        }
      }

      func sleep(_ lock: ObjectIdentifier, isTimed: Bool) -> Bool {
        schedule.locked {
          schedule.holders[lock] = nil
          hasTimedOut = false
          schedule.yield(self, .asleep(lock, isTimed: isTimed))
          return hasTimedOut
        }
      }

      func child() -> any ThreadTurns { schedule.enrol(isClient: false) }

      func run(_ body: () -> Void) {
        schedule.locked { schedule.stay(self) }
        Turns.take(self, body)
        schedule.locked {
          state = .over
          if !schedule.isFree { schedule.pass(from: nil) }
        }
      }

      fileprivate var isOver: Bool { if case .over = state { true } else { false } }
    }

    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let quiet: UnsafeMutablePointer<pthread_cond_t>
    private var random: UInt64
    /// One in so many locks lets another thread go on.
    private let rarity: UInt64
    fileprivate var members: [Member] = []
    private var turn: Member?
    fileprivate var holders: [ObjectIdentifier: Member] = [:]
    fileprivate var isFree = false
    /// Whether its clients are all over and nobody else has anything to do, or nobody can go on.
    private var isQuiet = true
    private var timeouts = 0
    /// Of who went on, in order: two that are the same have the same.
    private var digest: UInt64 = 0

    package init(seed: UInt64) {
      random = seed
      rarity = [2, 6, 20][Int(seed % 3)]
      mutex = .allocate(capacity: 1)
      mutex.initialize(to: pthread_mutex_t())
      pthread_mutex_init(mutex, nil)
      quiet = .allocate(capacity: 1)
      quiet.initialize(to: pthread_cond_t())
      pthread_cond_init(quiet, nil)
    }

    deinit {
      pthread_mutex_destroy(mutex)
      mutex.deallocate()
      pthread_cond_destroy(quiet)
      quiet.deallocate()
    }

    package var trace: UInt64 { locked { digest } }

    fileprivate func locked<Result>(_ body: () -> Result) -> Result {
      pthread_mutex_lock(mutex)
      defer { pthread_mutex_unlock(mutex) }
      return body()
    }

    /// Runs these at once, and whatever else has something to do, until nobody has.
    ///
    /// - Returns: false where some can never go on: each waits for what another has.
    package func run(_ clients: [@Sendable () -> Void]) throws(PlatformError) -> Bool {
      var threads: [Thread] = []
      locked { (isQuiet, timeouts) = (false, 0) }
      for client in clients {
        let member = enrol(isClient: true)
        threads.append(try Thread(name: "client") { member.run(client) })
      }
      let isOver = locked {
        pass(from: nil)
        while !isQuiet { pthread_cond_wait(quiet, mutex) }
        return members.allSatisfy { $0.isOver || !$0.isClient }
      }
      for thread in threads { if isOver { thread.join() } else { thread.detach() } }
      return isOver
    }

    /// Lets all go on as the system has it.
    package func free() {
      locked {
        isFree = true
        for member in members { pthread_cond_signal(member.condition) }
      }
    }

    fileprivate func enrol(isClient: Bool) -> Member {
      locked {
        let member = Member(self, members.count, isClient: isClient)
        members.append(member)
        return member
      }
    }

    // MARK: Turns, with `mutex` held

    fileprivate func yield(_ member: Member, _ state: State) {
      guard !isFree else { return }
      member.state = state
      pass(from: member)
      stay(member)
    }

    fileprivate func stay(_ member: Member) {
      while turn !== member, !isFree { pthread_cond_wait(member.condition, mutex) }
      if case .ready(let lock?) = member.state { holders[lock] = member }
    }

    /// - Parameter last: who ran until now.
    fileprivate func pass(from last: Member?) {
      var ready = members.filter(canRun)
      // Whoever only pauses goes on too once the clients are over: some rounds of time are enough for that.
      let isWanted = members.contains { $0.isClient && !$0.isOver }
      if ready.isEmpty, timeouts < (isWanted ? 1_000 : 3) {
        timeouts += 1
        for member in members {
          guard case .asleep(let lock, isTimed: true) = member.state else { continue }
          (member.state, member.hasTimedOut) = (.ready(lock), true)
        }
        ready = members.filter(canRun)
      }
      guard let first = ready.first else {
        (turn, isQuiet) = (nil, true)
        pthread_cond_signal(quiet)
        return
      }
      var next = first
      if let last, draw() % rarity != 0, ready.contains(where: { $0 === last }) {
        next = last
      } else {
        next = ready[Int(draw() % UInt64(ready.count))]
      }
      digest = (digest ^ UInt64(next.number)) &* 0x100_0000_01B3
      turn = next
      if next !== last { pthread_cond_signal(next.condition) }
    }

    private func canRun(_ member: Member) -> Bool {
      guard case .ready(let lock) = member.state else { return false }
      return lock.flatMap { holders[$0] } == nil
    }

    /// Splitmix64.
    private func draw() -> UInt64 {
      random &+= 0x9E37_79B9_7F4A_7C15
      var mixed = (random ^ random >> 30) &* 0xBF58_476D_1CE4_E5B9
      mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
      return mixed ^ mixed >> 31
    }
  }
#endif
