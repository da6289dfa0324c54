// What `mlxserve verify --prefix-cache-dir` looks at: every saved block of every model, without a change.

package import Platform

extension PrefixStore {
  /// Reads all blocks of a prefix directory.
  ///
  /// - Throws: when the folder, or that of a model, cannot be listed.
  package static func check(
    folder: String, files: any FileSystem = SystemFiles()
  ) throws(PlatformError) -> FolderReport {
    var report = FolderReport()
    let known = KnownWeights(folder: folder, files: files)
    for name in try files.names(in: folder) {
      if let problem = known.problem(of: name) { report.faults.append((folder + "/" + name, problem)) }
    }
    for model in try files.names(in: folder) where isModel(model) {
      let path = folder + "/" + model
      for name in try files.names(in: path) where name.hasSuffix(PrefixFile.ending) {
        if let problem = problem(of: name, in: path, files) {
          report.faults.append((path + "/" + name, problem))
        } else {
          report.whole += 1
        }
      }
    }
    return report
  }

  private static func problem(of name: String, in folder: String, _ files: any FileSystem) -> String? {
    do throws(PlatformError) {
      let bytes = try files.read(folder + "/" + name, limit: largestFile)
      guard let file = PrefixFile(header: bytes) else { return "its header is damaged" }
      guard (file.name + PrefixFile.ending).utf8.elementsEqual(name.utf8) else {
        return "it is another block, by its header"
      }
      return file.payload(of: bytes) == nil ? "its content is damaged" : nil
    } catch {
      return "\(error)"
    }
  }

  /// Bytes: no block of any model comes near.
  private static var largestFile: Int { 1 << 30 }
}
