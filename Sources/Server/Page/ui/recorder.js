// Runs on the browser's audio thread: hands over the first channel of the microphone in stretches of a tenth of a second.

class RecorderProcessor extends AudioWorkletProcessor {
  constructor() {
    super();
    this.samples = new Float32Array(1600);
    this.count = 0;
  }

  process([input]) {
    for (const sample of input[0] ?? []) {
      this.samples[this.count++] = sample;
      if (this.count === this.samples.length) {
        this.port.postMessage(this.samples.slice());
        this.count = 0;
      }
    }
    return true;
  }
}

registerProcessor("recorder", RecorderProcessor);
