// Downloads of models by the server: begun by name, and shown while they go. They end with the page that asked for them;
// what has come stays, and the next try goes on there.

import { el, icon, iconButton, toast } from "./dom.js";
import { models } from "./models.js";
import { send, WireError } from "./wire.js";
import { bytes, number, t } from "./words.js";

/// Name → what is known of a download under way or failed.
const pulls = new Map();
let paint = () => {};

/// The objects of a stream of lines, JSON each, alone or as the data of events.
async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const all = (rest + (value ?? "")).split(/\r?\n/);
    rest = done ? "" : all.pop();
    for (const line of all) {
      const text = line.replace(/^data:\s*/, "").trim();
      if (text.startsWith("{")) yield JSON.parse(text);
    }
    if (done) return;
  }
}

async function pull(name, explain) {
  const state = { name, done: 0, total: 0, controller: new AbortController() };
  pulls.set(name, state);
  paint();
  try {
    for await (const event of lines(await send("models/pull", { method: "POST", body: { model: name }, signal: state.controller.signal }))) {
      if (event.error) throw new Error(String(event.error.message ?? event.error));
      if (event.event === "error") throw new Error(String(event.message ?? event.text ?? ""));
      state.done = event.done_bytes ?? state.done;
      state.total = event.total_bytes ?? state.total;
      state.speed = event.bytes_per_second ?? null;
      state.left = event.seconds_left ?? null;
      if (event.event === "done") state.isDone = true;
      paint();
    }
    if (!state.isDone) throw new Error(t("pullCut"));
    pulls.delete(name);
    toast(t("pulled", { name }));
    models.loaded = null;
    models.refreshAnew();
  } catch (error) {
    if (error.name === "AbortError") pulls.delete(name);
    else state.error = error instanceof WireError ? explain(error) : String(error.message);
  }
  paint();
}

function row(state, explain) {
  const facts = [state.total ? t("pulling", { done: bytes(state.done), total: bytes(state.total) }) : t("pullPlan")];
  if (state.speed) facts.push(`${bytes(state.speed)}/s`);
  if (state.left !== null && state.left !== undefined) facts.push(t("timeLeft", { time: number(state.left) }));
  return el("div.pull-row",
    el("div.row", el("strong", { dir: "auto" }, state.name), el("span.grow"),
      state.error ? iconButton("again", t("retry"), () => pull(state.name, explain)) : null,
      iconButton("close", t("cancelPull", { name: state.name }), () => (state.controller.abort(), pulls.delete(state.name), paint()))),
    state.error ? el("p.failed", { role: "alert" }, state.error)
      : el("div", el("progress", { "aria-label": state.name, ...(state.total ? { value: state.done, max: state.total } : {}) }), el("p.muted", facts.join(" · "))));
}

/// A field for a name, and the downloads under way.
export function pullForm(explain) {
  const name = el("input", { type: "text", class: "wide-input", required: true, placeholder: t("pullHint"), list: "known-models", "aria-label": t("pullName"), spellcheck: "false", autocapitalize: "none", autocomplete: "off" });
  const known = el("datalist", { id: "known-models" }, (models.server.known ?? []).map((model) =>
    el("option", { value: model.name, label: `${bytes(model.bytes)} – ${model.note}` })));
  const list = el("div.pull-list");
  paint = () => list.replaceChildren(...[...pulls.values()].map((state) => row(state, explain)));
  paint();
  return el("form.pull", {
    onsubmit: (event) => {
      event.preventDefault();
      const wanted = name.value.trim();
      if (!wanted || (pulls.has(wanted) && !pulls.get(wanted).error)) return;
      name.value = "";
      pull(wanted, explain);
    },
  }, el("div.row", el("label.grow", el("span.visually-hidden", t("pullName")), name), known, el("button.button", { type: "submit" }, icon("save"), t("download"))), list);
}
