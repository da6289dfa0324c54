// The dialog of notes: search over one's own stores as one types, with the reason beside each hit; and what is in the stores.
// It is there where the server has such stores.

import { dialog, el, field, icon, iconButton, toast } from "./dom.js";
import { bytes, number, plainName, t } from "./words.js";
import { getJSON, postJSON, send, sendForm, WireError } from "./wire.js";

const hitCount = 10;
/// After the last key, before the server is asked; milliseconds.
const pause = 120;
/// Between two looks at files that are being read in.
const poll = 700;

export function openNotes(app) {
  const state = { store: null, names: new Map(), showsWeak: false, hits: [], controller: null };
  const stores = el("select", { "aria-label": t("store"), onchange: () => (choose(stores.value), look()) });
  const box = el("input", { type: "search", class: "wide-input", autocomplete: "off", placeholder: t("searchNotes"), "aria-label": t("searchNotes"), dir: "auto" });
  const hits = el("ol.hits");
  const told = el("p.muted", { role: "status" });
  const weak = el("input", { type: "checkbox", onchange: () => ((state.showsWeak = weak.checked), paint()) });
  const weakWords = el("span");
  const weakBox = el("label.check", { hidden: true }, weak, weakWords);
  const taken = el("div.row.taken", { hidden: true });
  const shelf = el("div.shelf", { hidden: true });
  const manage = iconButton("tune", t("manageNotes"), () => {
    shelf.hidden = !shelf.hidden;
    manage.ariaExpanded = String(!shelf.hidden);
    if (!shelf.hidden) paintShelf();
  }, { "aria-expanded": "false" });
  const files = el("input", { type: "file", multiple: true, hidden: true, onchange: () => add([...files.files]) });
  const node = dialog(t("notes"), el("div.notes",
    el("div.row", stores, iconButton("plus", t("newStore"), () => make()), manage,
      el("button.button", { onclick: () => files.click() }, icon("clip"), t("addFiles")), files),
    shelf, box, told, hits, weakBox, taken), { wide: true, onclose: () => (state.controller?.abort(), clearTimeout(state.timer)) });

  const fail = (error) => {
    if (error.name !== "AbortError") told.textContent = error instanceof WireError ? app.explain(error) : String(error.message ?? error);
  };
  /// Work that may fail, whose failure is told.
  const attempt = async (work) => {
    try {
      return await work();
    } catch (error) {
      fail(error);
    }
  };
  const address = (file) => `v1/vector_stores/${encodeURIComponent(state.store.id)}${file === undefined ? "" : `/files/${encodeURIComponent(file)}`}`;

  const list = (chosen) => attempt(async () => {
    state.all = (await getJSON("v1/vector_stores?limit=100")).data;
    stores.replaceChildren(...state.all.map((store) => el("option", { value: store.id, selected: store.id === chosen },
      `${plainName(store.name || store.id)} (${t("files", { count: store.file_counts?.completed ?? 0 })})`)));
    choose(stores.value);
    if (!state.all.length) told.textContent = t("noStores");
  });

  function choose(id) {
    state.store = state.all.find((store) => store.id === id) ?? null;
    if (!shelf.hidden) paintShelf();
  }

  const make = () => attempt(async () => {
    const made = await postJSON("v1/vector_stores", { name: t("notes") });
    await list(made.id);
    told.textContent = "";
  });

  /// Reads one file into the store; its id.
  async function put(file, name) {
    const form = new FormData();
    form.append("purpose", "user_data");
    form.append("file", file, name);
    const { id } = await sendForm("v1/files", form);
    let one = await postJSON(`${address()}/files`, { file_id: id });
    while (one.status === "in_progress" && node.open) {
      await new Promise((done) => setTimeout(done, poll));
      one = await getJSON(address(id));
    }
    if (one.status === "failed") toast(`${plainName(name)}: ${one.last_error?.message ?? one.status}`, { seconds: 8 });
    return one.status === "failed" ? null : id;
  }

  async function add(chosen) {
    files.value = "";
    if (!state.store) await make();
    for (const file of chosen) {
      told.textContent = t("reading", { name: plainName(file.name) });
      if (await attempt(() => put(file, file.name)) === undefined) return;
    }
    told.textContent = "";
    await list(state.store?.id);
    look();
  }

  // MARK: What is in the store

  const paintShelf = () => attempt(async () => {
    const { store } = state;
    if (!store) return shelf.replaceChildren(el("p.muted", t("noStores")));
    const name = el("input", { type: "text", value: plainName(store.name ?? ""), maxlength: 200, dir: "auto" });
    const rename = () => attempt(async () => {
      if (name.value.trim() && name.value.trim() !== store.name) await postJSON(address(), { name: name.value.trim() }), await list(store.id);
    });
    const rows = el("ul.files-of");
    shelf.replaceChildren(el("form.row", { onsubmit: (event) => (event.preventDefault(), rename()) },
      field(t("storeName"), name), el("button.button", { type: "submit" }, t("rename")),
      el("button.button.danger", { onclick: () => confirmed(t("deleteStore"), t("deleteStoreAsk", { name: plainName(store.name ?? "") }), () => attempt(async () => {
        await send(address(), { method: "DELETE" });
        hits.replaceChildren();
        await list();
      })) }, icon("trash"), t("deleteStore"))), rows);
    const [{ data }, all] = await Promise.all([getJSON(`${address()}/files?limit=100`), getJSON("v1/files?limit=1000")]);
    state.names = new Map(all.data.map((file) => [file.id, file]));
    if (store !== state.store) return;
    rows.replaceChildren(...data.map((file) => fileRow(file)));
    if (!data.length) rows.replaceChildren(el("li.nothing", t("emptyStore")));
  });

  function fileRow({ id, status }) {
    const known = state.names.get(id);
    const name = plainName(known?.filename ?? id);
    const row = el("li.file-row", icon("file"), el("span.grow", { dir: "auto" }, name),
      el("span.muted", status === "completed" ? bytes(known?.bytes ?? 0) : t(status === "failed" ? "fileFailed" : "fileReading")),
      iconButton("edit", t("renameOf", { name }), () => edit()),
      iconButton("trash", t("deleteOf", { name }), () => confirmed(t("delete"), t("deleteNoteAsk", { name }), () => attempt(async () => {
        await send(`v1/files/${encodeURIComponent(id)}`, { method: "DELETE" });
        await list(state.store.id);
        look();
      }))));
    // The server keeps a file's name for good: another name is another file with the same bytes.
    const edit = () => {
      const input = el("input.rename", { type: "text", value: name, "aria-label": t("renameOf", { name }), dir: "auto" });
      const change = () => attempt(async () => {
        const wanted = plainName(input.value.trim());
        if (!wanted || wanted === name) return paintShelf();
        told.textContent = t("reading", { name: wanted });
        const content = await (await send(`v1/files/${encodeURIComponent(id)}/content`)).blob();
        if (await put(content, wanted)) await send(`v1/files/${encodeURIComponent(id)}`, { method: "DELETE" });
        told.textContent = "";
        await list(state.store.id);
        look();
      });
      input.addEventListener("keydown", (event) => {
        if (event.isComposing) return;
        if (event.key === "Enter") event.preventDefault(), change();
        if (event.key === "Escape") event.preventDefault(), event.stopPropagation(), paintShelf();
      });
      row.replaceChildren(input, el("button.button", { onclick: change }, t("rename")));
      input.focus();
      input.setSelectionRange(0, Math.max(0, name.lastIndexOf(".")) || name.length);
    };
    return row;
  }

  // MARK: Searching

  async function look() {
    state.controller?.abort();
    const query = box.value.trim();
    if (!query || !state.store) return (state.hits = []), (told.textContent = ""), paint();
    const controller = state.controller = new AbortController();
    const begin = performance.now();
    await attempt(async () => {
      const found = await postJSON(`${address()}/search`, { query, max_num_results: hitCount, explain: true }, { signal: controller.signal });
      state.hits = found.data;
      const strong = found.data.filter((hit) => !hit.why?.weak).length;
      told.textContent = strong ? t("foundIn", { count: strong, time: Math.round(performance.now() - begin) }) : t(found.data.length ? "onlyWeak" : "nothingFound");
      paint();
    });
  }

  function paint() {
    const count = state.hits.filter((hit) => hit.why?.weak).length;
    weakBox.hidden = !count;
    weakWords.textContent = t("showWeak", { count });
    hits.replaceChildren(...state.hits.filter((hit) => state.showsWeak || !hit.why?.weak).map(row));
    paintTaken();
  }

  /// What of the notes is in the message, below the hits: the message itself is behind the dialog.
  function paintTaken() {
    const count = app.files.filter((file) => file.isNote).length;
    taken.hidden = !count;
    taken.replaceChildren(icon("check"), el("span.grow", t("excerpts", { count })),
      el("button.button.primary", { onclick: () => (node.close(), app.focus()) }, t("toMessage")));
  }

  function row(hit) {
    const name = plainName(hit.filename ?? hit.file_id);
    const text = (hit.content ?? []).map((part) => part.text ?? "").join("\n");
    const held = () => app.files.find((file) => file.isNote && file.name === name && file.text === text);
    const button = el("button.button", { onclick: () => {
      if (held()) app.detach(held());
      else app.attach({ kind: "text", name, size: text.length, text, isNote: true });
      show();
      paintTaken();
    } });
    const show = () => {
      button.ariaPressed = String(Boolean(held()));
      button.replaceChildren(icon(held() ? "check" : "plus"), t(held() ? "isInserted" : "insert"));
    };
    show();
    return el(hit.why?.weak ? "li.hit.weak" : "li.hit",
      el("div.hit-head", icon("file"), el("strong", { dir: "auto" }, name), el("span.muted", number(hit.score ?? 0, 2)), el("span.grow"), button),
      hit.why?.summary ? el("p.why", hit.why.summary) : null,
      el("p.hit-text", { dir: "auto" }, marked(text, hit.why)));
  }

  box.addEventListener("input", () => {
    clearTimeout(state.timer);
    state.timer = setTimeout(look, pause);
  });
  box.addEventListener("keydown", (event) => event.key === "ArrowDown" && (event.preventDefault(), hits.querySelector("button")?.focus()));
  list().then(() => (box.focus(), paintTaken()));
}

/// Asks before something is gone for good.
function confirmed(title, text, act) {
  const node = dialog(title, el("div", el("p", text), el("div.row.end",
    el("button.button", { onclick: () => node.close() }, t("cancel")),
    el("button.button.danger", { onclick: () => (node.close(), act()) }, title))));
}

/// Marks of Markdown with what of each is hidden: all of it, or what its groups hold.
const marks = [
  /^ {0,3}(?:#{1,6}[ \t]+|(?:>[ \t]?)+|[-*+][ \t]+(?:\[[ xX]\][ \t]+)?|(?:`{3,}|~{3,}).*|(?:[-*_][ \t]*){3,}|[=-]{2,})$|^ {0,3}(?:#{1,6}[ \t]+|(?:>[ \t]?)+|[-*+][ \t]+(?:\[[ xX]\][ \t]+)?)/gm,
  /^[ \t]*\|?(?:[ \t]*:?-{2,}:?[ \t]*\|)+[ \t:|-]*$/gm, /\*\*|__|~~|`+/g,
  /(?<![\p{L}\p{N}*_])([*_])(?=\S)[^*_\n]+(?<=\S)([*_])(?![\p{L}\p{N}*_])/gu, /(!?\[)[^\]\n]{0,300}(\]\([^)\s]{0,500}(?:[ \t]+"[^"\n]*")?\))/g,
];

/// For each unit of a text, whether it is a mark of Markdown that a reader need not see.
function hidden(text) {
  const out = new Uint8Array(text.length);
  for (const pattern of marks) {
    for (const found of text.matchAll(pattern)) {
      const [whole, first, last] = found;
      if (first === undefined) out.fill(1, found.index, found.index + whole.length);
      else out.fill(1, found.index, found.index + first.length), out.fill(1, found.index + whole.length - last.length, found.index + whole.length);
    }
  }
  return out;
}

/// The text with what made it a hit marked, without marks of Markdown; places are counted in Unicode scalars.
function marked(text, why) {
  const scalars = [...text];
  const isHidden = hidden(text);
  let unit = 0;
  const shown = scalars.map((scalar) => {
    const isMark = isHidden[unit];
    unit += scalar.length;
    return isMark ? "" : scalar;
  });
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
    out.push(shown.slice(at, from).join(""), el("mark", shown.slice(from, to).join("")));
    at = to;
  }
  out.push(shown.slice(at, end).join(""), end < scalars.length ? "…" : "");
  return out;
}
