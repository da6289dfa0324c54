// Images and audio on their way from a request to the model: what they are, where they stand in the prompt, and what
// the model says about them.

import Platform

/// What a model may take beside text; the raw value is its name in messages and reports.
package enum MediaKind: String, Sendable, CaseIterable {
  case image, audio
}

/// 8-bit RGB, row by row.
package struct PixelImage: Sendable, Equatable {
  package let width: Int
  package let height: Int
  /// `[height][width][3]`.
  package let pixels: [UInt8]

  /// - Precondition: `pixels` has the size that width and height say.
  package init(width: Int, height: Int, pixels: [UInt8]) {
    precondition(
      width > 0 && height > 0 && pixels.count == width * height * 3, "pixels do not fill the image")
    (self.width, self.height, self.pixels) = (width, height, pixels)
  }
}

/// What an audio encoder hears: log-mel energies, frame by frame.
package struct MelFrames: Sendable, Equatable {
  package let count: Int
  /// Energies per frame.
  package let bins: Int
  /// `[count][bins]`.
  package let values: [Float]

  /// - Precondition: `values` has the size that count and bins say.
  package init(count: Int, bins: Int, values: [Float]) {
    precondition(count > 0 && bins > 0 && values.count == count * bins, "values do not fill the frames")
    (self.count, self.bins, self.values) = (count, bins, values)
  }
}

/// One image or audio clip, ready for the model's encoder.
package struct MediaInput: Sendable {
  /// What the encoder reads.
  package enum Content: Sendable {
    case image(PixelImage)
    case audio(MelFrames)
  }

  package let content: Content
  /// Positions of the prompt that it takes.
  package let tokenCount: Int
  /// Soft tokens of a row, where the model knows their rows and columns.
  package let columns: Int?
  /// SHA-256 of the content and the number of tokens: equal digests mean equal soft tokens.
  package let digest: [UInt8]

  /// - Precondition: the columns divide the tokens.
  package init(content: Content, tokenCount: Int, columns: Int? = nil) {
    precondition(columns.map { $0 > 0 && tokenCount % $0 == 0 } ?? true, "rows of different length")
    (self.content, self.tokenCount, self.columns) = (content, tokenCount, columns)
    var hash = SHA256()
    switch content {
    case .image(let image):
      hash.update(Array("image \(image.width) \(image.height) \(tokenCount)\n".utf8))
      hash.update(image.pixels)
    case .audio(let frames):
      hash.update(Array("audio \(frames.count) \(frames.bins) \(tokenCount)\n".utf8))
      hash.update(
        frames.values.flatMap { value in
          let bits = value.bitPattern
          return (0..<4).map { UInt8(truncatingIfNeeded: bits >> UInt32(8 * $0)) }
        })
    }
    digest = hash.finish()
  }

  /// Memory that the content takes.
  package var byteCount: Int {
    switch content {
    case .image(let image): image.pixels.count
    case .audio(let frames): frames.values.count * MemoryLayout<Float>.size
    }
  }

  /// Which encoder takes it.
  package var kind: MediaKind {
    switch content {
    case .image: .image
    case .audio: .audio
    }
  }
}

/// Where an image or an audio clip stands in a prompt.
package struct MediaSpan: Sendable {
  /// Position of the first of its `input.tokenCount` tokens.
  package var start: Int
  package var input: MediaInput

  package init(start: Int, input: MediaInput) {
    (self.start, self.input) = (start, input)
  }

  /// The positions of its soft tokens.
  package var positions: Range<Int> { start..<start + input.tokenCount }
}

/// The tokens that stand around and for an image or an audio clip in a prompt.
package struct MediaMarks: Sendable, Equatable {
  /// Before the soft tokens: `boi_token_id` or `boa_token_id` of Gemma 4's config.json.
  package var opening: Int32
  /// What the chat template writes, and what every position of the soft tokens holds.
  package var soft: Int32
  /// After them: `eoi_token_id` or `eoa_token_id`.
  package var closing: Int32

  package init(opening: Int32, soft: Int32, closing: Int32) {
    (self.opening, self.soft, self.closing) = (opening, soft, closing)
  }
}

/// What a model takes beside text, and how its prompts make room for it.
package struct MediaRules: Sendable {
  /// How an audio clip becomes tokens.
  package struct Audio: Sendable, Equatable {
    package var marks: MediaMarks
    /// The spectrogram that the encoder takes.
    package var mel: MelSettings

    package init(marks: MediaMarks, mel: MelSettings = MelSettings()) {
      (self.marks, self.mel) = (marks, mel)
    }
  }

  /// Nil where the model takes none.
  package var images: (any ImageProcessor)?
  /// Nil where the model takes none.
  package var audio: Audio?
  /// What the checkpoint has an encoder for and `MediaOptions` leave out.
  package var switchedOff: Set<MediaKind> = []
  /// Why an encoder that config.json speaks of is not there.
  package var absences: [MediaKind: String] = [:]

  package init(images: (any ImageProcessor)? = nil, audio: Audio? = nil) {
    (self.images, self.audio) = (images, audio)
  }

  /// Whether prompts may hold things of this kind.
  package func takes(_ kind: MediaKind) -> Bool { placeholder(of: kind) != nil }

  /// What the chat template writes for a thing of this kind; nil where the model takes none.
  package func placeholder(of kind: MediaKind) -> Int32? {
    switch kind {
    case .image: images?.placeholder
    case .audio: audio?.marks.soft
    }
  }

  /// The tokens that texts from outside must not spell.
  package var reserved: [Int32] {
    (images?.reserved ?? []) + (audio.map { [$0.marks.opening, $0.marks.soft, $0.marks.closing] } ?? [])
  }
}
