// The dialog of notes: search over one's own stores as one types, with the reason beside each hit. It is there where the
// server has such stores.

import { dialog, el, icon, iconButton, toast } from "./dom.js";
import { bytes, number, plainName, t } from "./words.js";
import { getJSON, postJSON, sendForm, WireError } from "./wire.js";

const hitCount = 10;
/// After the last key, before the server is asked; milliseconds.
const pause = 120;
/// Between two looks at files that are being read in.
const poll = 700;

export function openNotes(app) {
  const state = { store: null, query: "", controller: null };
  const stores = el("select", { "aria-label": t("store"), onchange: () => ((state.store = stores.value), look()) });
  const box = el("input", { type: "search", class: "wide-input", autocomplete: "off", placeholder: t("searchNotes"), "aria-label": t("searchNotes"), dir: "auto" });
  const hits = el("ol.hits");
  const told = el("p.muted", { role: "status" });
  const files = el("input", { type: "file", multiple: true, hidden: true, onchange: () => add([...files.files]) });
  const node = dialog(t("notes"), el("div.notes",
    el("div.row", stores, iconButton("plus", t("newStore"), () => make()),
      el("button.button", { onclick: () => files.click() }, icon("clip"), t("addFiles")), files),
    box, told, hits), { wide: true, onclose: () => (state.controller?.abort(), clearTimeout(state.timer)) });

  const fail = (error) => {
    if (error.name !== "AbortError") told.textContent = error instanceof WireError ? app.explain(error) : String(error.message ?? error);
  };

  async function list(chosen) {
    try {
      const { data } = await getJSON("v1/vector_stores?limit=100");
      stores.replaceChildren(...data.map((store) => el("option", { value: store.id, selected: store.id === chosen },
        `${plainName(store.name || store.id)} (${t("files", { count: store.file_counts?.completed ?? 0 })})`)));
      state.store = stores.value || null;
      if (!data.length) told.textContent = t("noStores");
    } catch (error) {
      fail(error);
    }
  }

  async function make() {
    try {
      const made = await postJSON("v1/vector_stores", { name: t("notes") });
      await list(made.id);
      told.textContent = "";
    } catch (error) {
      fail(error);
    }
  }

  async function add(chosen) {
    files.value = "";
    if (!state.store) await make();
    for (const file of chosen) {
      try {
        told.textContent = t("reading", { name: plainName(file.name) });
        const form = new FormData();
        form.append("purpose", "user_data");
        form.append("file", file, file.name);
        const { id } = await sendForm("v1/files", form);
        const path = `v1/vector_stores/${encodeURIComponent(state.store)}/files`;
        let one = await postJSON(path, { file_id: id });
        while (one.status === "in_progress" && node.open) {
          await new Promise((done) => setTimeout(done, poll));
          one = await getJSON(`${path}/${encodeURIComponent(id)}`);
        }
        if (one.status === "failed") toast(`${plainName(file.name)}: ${one.last_error?.message ?? one.status}`, { seconds: 8 });
      } catch (error) {
        return fail(error);
      }
    }
    told.textContent = "";
    await list(state.store);
    look();
  }

  async function look() {
    state.controller?.abort();
    const query = box.value.trim();
    if (!query || !state.store) return hits.replaceChildren();
    const controller = state.controller = new AbortController();
    const begin = performance.now();
    try {
      const found = await postJSON(`v1/vector_stores/${encodeURIComponent(state.store)}/search`,
        { query, max_num_results: hitCount, explain: true }, { signal: controller.signal });
      told.textContent = found.data.length ? t("foundIn", { count: found.data.length, time: Math.round(performance.now() - begin) }) : t("nothingFound");
      hits.replaceChildren(...found.data.map((hit) => row(hit, app)));
    } catch (error) {
      fail(error);
    }
  }

  box.addEventListener("input", () => {
    clearTimeout(state.timer);
    state.timer = setTimeout(look, pause);
  });
  box.addEventListener("keydown", (event) => event.key === "ArrowDown" && (event.preventDefault(), hits.querySelector("button")?.focus()));
  list().then(() => box.focus());
}

function row(hit, app) {
  const name = plainName(hit.filename ?? hit.file_id);
  const text = (hit.content ?? []).map((part) => part.text ?? "").join("\n");
  return el("li.hit",
    el("div.hit-head", icon("file"), el("strong", { dir: "auto" }, name), el("span.muted", number(hit.score ?? 0, 2)),
      el("span.grow"),
      el("button.button", { onclick: () => {
        app.attach({ kind: "text", name, size: text.length, text });
        toast(t("inserted", { name, size: bytes(text.length) }));
      } }, icon("plus"), t("insert"))),
    hit.why?.summary ? el("p.why", hit.why.summary) : null,
    el("p.hit-text", { dir: "auto" }, marked(text, hit.why)));
}

/// The text with what made it a hit marked; places are counted in Unicode scalars.
function marked(text, why) {
  const scalars = [...text];
  const places = [...(why?.terms ?? []).flatMap((term) => term.positions ?? []), ...(why?.concepts ?? []).map((one) => [one.start, one.end])]
    .filter((place) => Array.isArray(place) && Number.isInteger(place[0]) && place[0] >= 0 && place[1] > place[0] && place[1] <= scalars.length)
    .sort((a, b) => a[0] - b[0]).slice(0, 200);
  const sentence = why?.sentence;
  const begin = Math.max(0, (Number.isInteger(sentence?.start) ? sentence.start : places[0]?.[0] ?? 0) - 80);
  const end = Math.min(scalars.length, begin + 420);
  const out = [begin > 0 ? "…" : ""];
  let at = begin;
  for (const [from, to] of places) {
    if (from < at || to > end) continue;
    out.push(scalars.slice(at, from).join(""), el("mark", scalars.slice(from, to).join("")));
    at = to;
  }
  out.push(scalars.slice(at, end).join(""), end < scalars.length ? "…" : "");
  return out;
}
