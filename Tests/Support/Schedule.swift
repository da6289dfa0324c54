// Threads that run one at a time: at each lock a seed chooses which goes on, so that a test finds what only some
// orders show, and a failure is repeated by its seed.

#if DEBUG
  package import Platform

  /// Threads that take turns at the locks of `Monitor`. Those that they start belong to it too.
  ///
  /// Their clocks stand still until nobody can go on, and are at the earliest deadline of those who wait then.
  ///
  /// `@unchecked Sendable`: what changes is only touched with `mutex` held.
  package final class Schedule: @unchecked Sendable {
    fileprivate enum State {
      /// Waits for its turn, with a lock if it wants one.
      case ready(ObjectIdentifier?)
      /// Waits for an update.
      case asleep(ObjectIdentifier, until: Instant?)
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
      var now: Instant { schedule.locked { schedule.clock } }

      func take(_ lock: ObjectIdentifier) { schedule.locked { schedule.yield(self, .ready(lock)) } }

      func give(_ lock: ObjectIdentifier) { schedule.locked { schedule.holders[lock] = nil } }

      func wake(_ lock: ObjectIdentifier) {
        schedule.locked {
          for member in schedule.members {
            if case .asleep(lock, _) = member.state { member.state = .ready(lock) }
          }
        }
      }

      func sleep(_ lock: ObjectIdentifier, until deadline: Instant?) -> Bool {
        schedule.locked {
          schedule.holders[lock] = nil
          hasTimedOut = false
          schedule.yield(self, .asleep(lock, until: deadline))
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

      fileprivate var deadline: Instant? {
        if case .asleep(_, let deadline) = state { deadline } else { nil }
      }
      fileprivate var isOver: Bool { if case .over = state { true } else { false } }
    }

    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let quiet: UnsafeMutablePointer<pthread_cond_t>
    private var random: UInt64
    /// One in so many locks lets another thread go on.
    private let rarity: UInt64
    /// Of every two schedules one holds a client back, and then gives it each turn that it can take, so that all of what it does
    /// comes between two locks of the others.
    private let holdsBack: Bool
    private var held: Member?
    /// How many turns it is held back for.
    private var heldTurns = 0
    private let isSlow: Bool
    /// How often the clocks are put forward for clients, and seconds that it goes on for once they are over.
    private static let (patience, rest) = (1_000, 3.0)
    fileprivate var members: [Member] = []
    private var turn: Member?
    fileprivate var holders: [ObjectIdentifier: Member] = [:]
    fileprivate var isFree = false
    /// Whether its clients are all over and nobody else has anything to do, or nobody can go on.
    private var isQuiet = true
    private var clock = Instant(nanoseconds: 0)
    /// When it ends by the clocks, once its clients are over.
    private var end: Instant?
    private var timeouts = 0
    /// Of who went on, in order: two that are the same have the same.
    private var digest: UInt64 = 0
    private var turns = 0

    /// - Parameter isSlow: whether real time passes now and then, as on a busy machine; nothing else comes of it.
    package init(seed: UInt64, isSlow: Bool = false) {
      random = seed
      self.isSlow = isSlow
      (rarity, holdsBack) = ([2, 6, 20][Int(seed % 3)], seed / 3 % 2 == 1)
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
      locked { (isQuiet, end, timeouts) = (false, nil, 0) }
      for client in clients {
        let member = enrol(isClient: true)
        threads.append(try Thread(name: "client") { member.run(client) })
      }
      let isOver = locked {
        if holdsBack {
          held = members[members.count - 1 - Int(draw() % UInt64(max(1, clients.count)))]
          heldTurns = Int(draw() % (16 << (draw() % 6)))
        }
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
      // Whoever only pauses goes on too once the clients are over: some seconds are enough for that.
      if end == nil, !members.contains(where: { $0.isClient && !$0.isOver }) {
        end = clock.adding(seconds: Self.rest)
      }
      while ready.isEmpty, let next = members.compactMap(\.deadline).min(),
        end.map({ next <= $0 }) ?? (timeouts < Self.patience)
      {
        (clock, timeouts) = (max(clock, next), timeouts + 1)
        for member in members {
          guard case .asleep(let lock, until: let deadline?) = member.state, deadline <= clock else {
            continue
          }
          (member.state, member.hasTimedOut) = (.ready(lock), true)
        }
        ready = members.filter(canRun)
      }
      guard !ready.isEmpty else {
        (turn, isQuiet) = (nil, true)
        pthread_cond_signal(quiet)
        return
      }
      heldTurns -= 1
      if let held, ready.count > 1, ready.contains(where: { $0 === held }) {
        ready.removeAll { ($0 === held) == (heldTurns > 0) }
      }
      let staying = draw() % rarity != 0 ? ready.first { $0 === last } : nil
      let next = staying ?? ready[Int(draw() % UInt64(ready.count))]
      digest = (digest ^ UInt64(next.number)) &* 0x100_0000_01B3
      turns += 1
      if isSlow, turns % 100 == 0 { usleep(1_000) }
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
