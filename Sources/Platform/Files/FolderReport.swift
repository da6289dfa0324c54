// What a check of a folder of files has found.

/// The files of a store, looked at one by one.
package struct FolderReport: Sendable {
  /// Files that are as they were written.
  package var whole = 0
  /// Paths of those that are not, and why.
  package var faults: [(path: String, problem: String)] = []

  package init() {}
}
