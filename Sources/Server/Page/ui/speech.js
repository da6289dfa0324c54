// Reading aloud and dictation, by what the browser has for them.

import { dialog, el } from "./dom.js";
import { local } from "./storage.js";
import { language, t } from "./words.js";

const Recognition = globalThis.SpeechRecognition ?? globalThis.webkitSpeechRecognition;
export const canDictate = Boolean(Recognition);
export const canRead = "speechSynthesis" in globalThis;

/// What is read of a message: its text as it is shown, without code, formulas and tables.
function spokenText(prose) {
  const copy = prose.cloneNode(true);
  for (const node of copy.querySelectorAll(".code-block, math, .table, .note-mark, .host")) node.remove();
  for (const node of copy.querySelectorAll("p, li, h2, h3, h4, h5, h6")) node.append("\n");
  return copy.textContent.replace(/[ \t]+/g, " ").trim();
}

let reading = null;

/// Reads a message, or ends that; `onchange` hears whether it is read.
export function readAloud(prose, onchange) {
  const wasRead = reading;
  stopReading();
  if (wasRead === prose) return;
  // One sentence after the other: some browsers break off after fifteen seconds.
  const sentences = spokenText(prose).match(/[^\n.!?。！？]+[.!?。！？]*\s*/gu) ?? [];
  const voices = speechSynthesis.getVoices().filter((voice) => voice.lang.toLowerCase().startsWith(language.slice(0, 2)));
  // One of this machine: others send the text to their maker.
  const voice = voices.find((one) => one.localService) ?? null;
  reading = prose;
  stopReading.tell = onchange;
  onchange(true);
  const next = () => {
    if (reading !== prose) return;
    const text = sentences.shift();
    if (text === undefined) return stopReading();
    const said = new SpeechSynthesisUtterance(text.trim());
    said.lang = language;
    if (voice) said.voice = voice;
    said.onend = next;
    said.onerror = () => stopReading();
    speechSynthesis.speak(said);
  };
  next();
}

export function stopReading() {
  if (!reading) return;
  reading = null;
  speechSynthesis.cancel();
  stopReading.tell?.(false);
}

/// Whether the reader agrees that the sound may leave the machine; asked once, where the browser cannot do it alone.
async function agreed() {
  if (local.get("dictation") === "yes") return "remote";
  const status = await Recognition.available?.({ langs: [language], processLocally: true }).catch(() => null);
  if (status === "available") return "local";
  return new Promise((done) => {
    let answer = null;
    const node = dialog(t("dictate"), el("div.form", el("p", t("dictateAsk")), el("div.row.end",
      el("button.button", { onclick: () => node.close() }, t("cancel")),
      el("button.button.primary", { onclick: () => (local.set("dictation", "yes"), (answer = "remote"), node.close()) }, t("dictate")))), { onclose: () => done(answer) });
  });
}

/// Listens until it is ended. `on` hears the words that are sure, and those that may change; `onend` why it ended.
export async function dictate(on, onend) {
  const way = await agreed();
  if (!way) return null;
  const listener = new Recognition();
  Object.assign(listener, { lang: language, continuous: true, interimResults: true });
  if (way === "local") listener.processLocally = true;
  let fault = "";
  listener.onresult = (event) => {
    let sure = "", open = "";
    for (let at = event.resultIndex; at < event.results.length; at++) {
      if (event.results[at].isFinal) sure += event.results[at][0].transcript;
      else open += event.results[at][0].transcript;
    }
    on(sure, open);
  };
  listener.onerror = ({ error }) => (fault = error);
  listener.onend = () => onend(fault);
  listener.start();
  return listener;
}
