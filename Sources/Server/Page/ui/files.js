// Files: read from the reader's disk for a message, and written to it as exports.

import { t, clock, plainName } from "./words.js";

/// Most bytes of a text file, and of a file that has to be read first.
export const textLimit = 1 << 20;
const fileLimit = 50 << 20;
/// The longer side of a picture that is sent, pixels.
const pictureLimit = 2048;
const sampleRate = 16_000;

/// An error whose message is the name of a sentence.
class FileError extends Error {
  constructor(name, values) {
    super(name);
    this.values = values;
  }
}

/// A file as a message has it: `{kind, name, size, data}` or `{kind: "text", name, size, text}`.
export async function readFile(file) {
  if (file.size > fileLimit) throw new FileError("fileTooLarge", { limit: "50 MB" });
  if (/^image\//.test(file.type) && file.type !== "image/svg+xml") return picture(file);
  if (/^(audio|video)\//.test(file.type)) return sound(file);
  if (file.type === "application/pdf" || /\.pdf$/i.test(file.name)) {
    const { pdfText } = await import("./pdf.js");
    return { kind: "text", name: plainName(file.name), size: file.size, text: await pdfText(new Uint8Array(await file.arrayBuffer())) };
  }
  if (file.size > textLimit) throw new FileError("fileTooLarge", { limit: "1 MB" });
  return textFile(file);
}

async function textFile(file) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    if (text.includes("\0")) throw new Error();
    return { kind: "text", name: plainName(file.name), size: file.size, text };
  } catch {
    throw new FileError("fileUnknown");
  }
}

/// Drawn anew: that makes it small enough, turns it upright, and leaves place and time of its taking behind.
async function picture(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new FileError("fileUnknown");
  }
  const scale = Math.min(1, pictureLimit / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const context = canvas.getContext("2d");
  const isPNG = file.type === "image/png" || file.type === "image/gif" || file.type === "image/webp";
  if (!isPNG) {
    context.fillStyle = "#fff";
    context.fillRect(0, 0, canvas.width, canvas.height);
  }
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  let data = canvas.toDataURL(isPNG ? "image/png" : "image/jpeg", 0.9);
  // A photograph that came as PNG.
  if (data.length > 4 << 20) data = canvas.toDataURL("image/jpeg", 0.9);
  return { kind: "image", name: plainName(file.name || "image.png"), size: Math.round((data.length - data.indexOf(",")) * 0.75), data };
}

/// Any sound that the browser can play, as WAV of 16 kHz with one channel.
async function sound(file) {
  try {
    const decoder = new OfflineAudioContext(1, 1, sampleRate);
    const decoded = await decoder.decodeAudioData(await file.arrayBuffer());
    const context = new OfflineAudioContext(1, Math.max(1, Math.ceil(decoded.duration * sampleRate)), sampleRate);
    const source = context.createBufferSource();
    source.buffer = decoded;
    source.connect(context.destination);
    source.start();
    const samples = (await context.startRendering()).getChannelData(0);
    return { kind: "sound", name: plainName(file.name), ...wav([samples]) };
  } catch {
    throw new FileError("fileUnknown");
  }
}

/// `{data, size}` of a WAV file with 16 bits per sample.
function wav(parts) {
  const count = parts.reduce((sum, part) => sum + part.length, 0);
  const bytes = new Uint8Array(44 + 2 * count);
  const view = new DataView(bytes.buffer);
  const word = (at, text) => [...text].forEach((char, offset) => view.setUint8(at + offset, char.charCodeAt(0)));
  word(0, "RIFF"), view.setUint32(4, 36 + 2 * count, true), word(8, "WAVEfmt "), view.setUint32(16, 16, true);
  view.setUint16(20, 1, true), view.setUint16(22, 1, true), view.setUint32(24, sampleRate, true);
  view.setUint32(28, 2 * sampleRate, true), view.setUint16(32, 2, true), view.setUint16(34, 16, true);
  word(36, "data"), view.setUint32(40, 2 * count, true);
  let at = 44;
  for (const part of parts) {
    for (const sample of part) view.setInt16(at, Math.max(-1, Math.min(1, sample)) * 32767, true), at += 2;
  }
  let binary = "";
  for (let from = 0; from < bytes.length; from += 0x8000) binary += String.fromCharCode(...bytes.subarray(from, from + 0x8000));
  return { data: `data:audio/wav;base64,${btoa(binary)}`, size: bytes.length };
}

/// What the microphone hears, as samples of 16 kHz.
export class Recorder {
  static async start() {
    const recorder = new Recorder();
    recorder.parts = [];
    recorder.stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true } });
    try {
      recorder.context = new AudioContext({ sampleRate });
      await recorder.context.audioWorklet.addModule("ui/recorder.js");
      const source = recorder.context.createMediaStreamSource(recorder.stream);
      const worklet = new AudioWorkletNode(recorder.context, "recorder", { numberOfOutputs: 0 });
      worklet.port.onmessage = ({ data }) => recorder.parts.push(data);
      source.connect(worklet);
    } catch (error) {
      recorder.release();
      throw error;
    }
    return recorder;
  }

  get seconds() { return this.parts.reduce((sum, part) => sum + part.length, 0) / sampleRate; }

  release() {
    for (const track of this.stream.getTracks()) track.stop();
    this.context?.close();
  }

  async end() {
    this.release();
    return this.parts.length ? { kind: "sound", ...wav(this.parts) } : null;
  }
}

// MARK: Exports

export function download(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name.replace(/[\\/:*?"<>|\u0000-\u001f]/g, " ").trim().slice(0, 100) || "chat";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/// The path of a chat that is shown, as Markdown.
export function conversationMarkdown({ chat, path }) {
  const parts = [`# ${chat.title || t("untitled")}`, `${clock(chat.created)}${chat.model ? ` · ${chat.model}` : ""}`];
  for (const message of path) {
    parts.push(`## ${message.role === "user" ? t("you") : message.model || t("model")}`);
    for (const file of message.files ?? []) parts.push(`*${file.name}*`);
    if (message.text) parts.push(message.text);
    for (const call of message.calls ?? []) {
      parts.push(`**${call.name}**\n\n\`\`\`json\n${call.arguments}\n\`\`\``);
      if (call.result !== null && call.result !== undefined) parts.push(`\`\`\`\n${call.result}\n\`\`\``);
    }
  }
  return `${parts.join("\n\n")}\n`;
}
