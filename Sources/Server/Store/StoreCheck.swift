// What `mlxserve verify --state-dir` looks at: every record, without a change and without the folder's lock.

package import Platform

extension ResponseStore {
  /// Reads all records of a state directory.
  ///
  /// - Throws: when the folder cannot be listed.
  package static func check(
    folder: String, files: any FileSystem = SystemFiles()
  ) throws(PlatformError) -> FolderReport {
    var report = FolderReport()
    let kinds: [([UInt8]) -> Bool] = [
      { StoredResponse($0) != nil }, { StoredConversation($0) != nil }, { StoredCompletion($0) != nil },
    ]
    let found = try files.names(in: folder)
    let describe = [StoredResponse.describe, StoredConversation.describe, StoredCompletion.describe]
    for (index, kind) in folders.enumerated() {
      let inner = folder + "/" + kind
      // Earlier versions stored no chat completions.
      guard index < 2 || found.contains(kind) else { continue }
      let inventory = try Inventory.check(folder: inner, files: files) { () throws(PlatformError) in
        try RecordStore.present(inner, files: files)
      }
      report.faults += inventory.map { fault in
        (inner + "/" + fault.name + (fault.name == Inventory.name ? "" : RecordStore.ending), fault.problem)
      }
      // Temporary files are those of a server that writes now, or go at the next start.
      for name in try files.names(in: inner) where name.hasSuffix(RecordStore.ending) {
        let result = try RecordFile.read(
          name, in: inner, files: files, limit: Settings().bytes, describe: describe[index])
        switch result {
        case .success(let found) where kinds[index](found.record.bytes): report.whole += 1
        case .success: report.faults.append((inner + "/" + name, "its content is none of \(kind)"))
        case .failure(let fault): report.faults.append((inner + "/" + name, fault.problem))
        }
      }
    }
    return report
  }
}
