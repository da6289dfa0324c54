// What other models, and other weights, have left in the prefix directory.

import Platform

/// Their blocks, longest unused first, and which of them are to be deleted.
struct OtherModels: Sendable {
  private struct Block {
    let folder: String
    let name: String
    let bytes: Int
    let modified: Double
  }

  private let folder: String
  private let files: any FileSystem
  private var blocks: [Block] = []
  /// Those to be deleted, and the locks of their folders.
  private var doomed: [Block] = []
  private var locks: [String: FolderLock?] = [:]

  init(folder: String, files: any FileSystem) {
    (self.folder, self.files) = (folder, files)
  }

  /// Looks for the blocks of all models but those whose folders these are.
  ///
  /// - Throws: when the folder cannot be read; what cannot be read in it is told and left.
  mutating func find(besides own: [String]) throws(PlatformError) {
    for name in try files.names(in: folder) where PrefixStore.isModel(name) && !own.contains(name) {
      let path = folder + "/" + name
      do throws(PlatformError) {
        for file in try files.names(in: path) where file.hasSuffix(PrefixFile.ending) {
          let facts = try files.beginning(path + "/" + file, count: 0).facts
          blocks.append(Block(folder: path, name: file, bytes: facts.bytes, modified: facts.modified))
        }
      } catch {
        Log.warning("saved prefixes of another model cannot be read", ["error": "\(error)"])
      }
    }
    blocks.sort { $0.modified < $1.modified }
  }

  var bytes: Int { blocks.map(\.bytes).sumOfSizes }

  /// Takes out the oldest blocks of models that nobody serves now.
  mutating func shrink(to limit: Int) {
    var left = bytes
    var kept: [Block] = []
    for block in blocks {
      guard left > limit, isFree(block.folder) else {
        kept.append(block)
        continue
      }
      doomed.append(block)
      left -= block.bytes
    }
    blocks = kept
  }

  /// Whether no process serves the model of a folder; while this value lives, none can.
  private mutating func isFree(_ folder: String) -> Bool {
    if let lock = locks[folder] { return lock != nil }
    let lock = try? FolderLock(folder: folder, files: files)
    locks[folder] = .some(lock)
    return lock != nil
  }

  func deleteDoomed() {
    for block in doomed {
      do throws(PlatformError) {
        try files.remove(block.folder + "/" + block.name)
      } catch {
        return Log.warning("saved prefixes of another model cannot be deleted", ["error": "\(error)"])
      }
    }
  }
}
