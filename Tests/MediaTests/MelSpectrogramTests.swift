// Mel spectrograms against rows of the reference extractor, and the number of frames.

import JSON
import Media
import Platform
import Support
import Testing

@Suite struct MelSpectrogramTests {
  private let mel = MelSpectrogram()

  @Test func `a frame exists when the sound goes on after it`() {
    let counts = [(0, 0), (160, 0), (161, 1), (320, 1), (321, 2), (8000, 49), (16_000, 99), (480_000, 2999)]
    for (samples, frames) in counts {
      #expect(mel.frameCount(samples: samples) == frames)
      #expect(mel([Float](repeating: 0, count: samples)).count == frames * 128)
    }
  }

  @Test func `silence is the logarithm of the floor`() {
    #expect(mel([Float](repeating: 0, count: 500)).allSatisfy { $0 == Float(log(0.001)) })
  }

  @Test func `a tone is loudest in its own band and has the height of its transform`() {
    // The value is numpy's, of the same formula.
    let tone = (0..<3200).map { Float(0.5 * sin(2 * Double.pi * 1000 * Double($0) / 16_000)) }
    let row = Array(mel(tone)[(10 * 128)..<(11 * 128)])
    let peak = row.indices.max { row[$0] < row[$1] }
    // Band 44 is centred on 986 hertz.
    #expect(peak == 44)
    #expect(abs(row[44] - 3.630_483) < 1e-4)
  }

  @Test(.enabled(if: TestData.shared != nil, "shared test data is absent"))
  func `rows agree with the reference extractor within 2e-6`() throws {
    let document = try JSONValue(
      parsing: try File.read((TestData.shared ?? "") + "/goldens/mel_golden.json", limit: 1 << 20))
    let chirp = (0..<8000).map { n -> Float in
      let t = Double(n) / 16_000
      return Float(0.4 * sin(2 * Double.pi * (200 * t + 1500 * t * t)))
    }
    #expect(document["valid"]?.intValue == mel.frameCount(samples: chirp.count))
    let rows = mel(chirp)
    let golden = try #require(document.objectValue).entries.filter { $0.key.hasPrefix("logmel_row") }
    try #require(!golden.isEmpty)
    for (name, values) in golden {
      let row = try #require(Int(name.dropFirst("logmel_row".count)))
      let expected = (values.arrayValue ?? []).compactMap(\.doubleValue)
      try #require(expected.count == 128 && rows.count >= (row + 1) * 128)
      for (band, value) in expected.enumerated() {
        #expect(abs(Double(rows[row * 128 + band]) - value) < 2e-6, "row \(row), band \(band)")
      }
    }
  }

  @Test func `other settings change frames, bands and floor`() {
    var settings = MelSettings()
    settings.frameLength = 512
    settings.hop = 256
    settings.transformLength = 1024
    settings.bands = 80
    settings.floor = 1e-5
    let other = MelSpectrogram(settings)
    #expect(other.frameCount(samples: 256) == 0 && other.frameCount(samples: 257) == 1)
    let rows = other([Float](repeating: 0, count: 1000))
    #expect(rows.count == 3 * 80 && rows.allSatisfy { $0 == Float(log(1e-5)) })
  }
}
