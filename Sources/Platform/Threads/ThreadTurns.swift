// The place where a test comes between threads and the locks of `Monitor`; in debug builds alone.

#if DEBUG
  /// A thread that waits for its turn at each lock: who goes on is chosen elsewhere (`Schedule` of the tests).
  package protocol ThreadTurns: AnyObject, Sendable {
    /// Whether turns are taken still.
    var isOn: Bool { get }
    /// What its clocks say.
    var now: Instant { get }
    /// Waits for its turn, and for a lock that no other of its kind has then.
    func take(_ lock: ObjectIdentifier)
    func give(_ lock: ObjectIdentifier)
    /// Those that wait for an update look again.
    func wake(_ lock: ObjectIdentifier)
    /// Gives a lock back until an update.
    ///
    /// - Returns: whether the time is over instead.
    func sleep(_ lock: ObjectIdentifier, until deadline: Instant?) -> Bool
    /// A thread that this one starts.
    func child() -> any ThreadTurns
    /// What it does, from its first turn to its end.
    func run(_ body: () -> Void)
  }

  /// Which threads have turns.
  package enum Turns {
    private final class Box {
      let turns: any ThreadTurns
      init(_ turns: any ThreadTurns) { self.turns = turns }
    }

    private static let key = {
      var key = pthread_key_t()
      pthread_key_create(&key, nil)
      return key
    }()

    /// Those of the calling thread; nil for one that the system alone has run.
    static var current: (any ThreadTurns)? {
      guard let found = pthread_getspecific(key) else { return nil }
      let turns = Unmanaged<Box>.fromOpaque(found).takeUnretainedValue().turns
      return turns.isOn ? turns : nil
    }

    static func joined(_ body: sending @escaping () -> Void) -> sending () -> Void {
      guard let child = current?.child() else { return body }
      var body: (() -> Void)? = body
      // What it holds goes within its last turn: it may take locks, or be what others wait for.
      return { child.run { body.take()?() } }
    }

    /// Does something on the calling thread in turns.
    package static func take(_ turns: any ThreadTurns, _ body: () -> Void) {
      let box = Box(turns)
      withExtendedLifetime(box) {
        pthread_setspecific(key, Unmanaged.passUnretained(box).toOpaque())
        body()
        pthread_setspecific(key, nil)
      }
    }
  }
#endif
