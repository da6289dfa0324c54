// The dialog of settings: of this chat, of new chats, of the page, and what is stored.

import { $, dialog, el, icon, iconButton, toast } from "./dom.js";
import { download } from "./files.js";
import { models } from "./models.js";
import { makeID, settingTypes, store } from "./store.js";
import { key } from "./wire.js";
import { bytes, language, languages, setLanguage, t } from "./words.js";

/// Name → least, most, step; the server says the same bounds again if they are passed.
const numbers = {
  temperature: [0, 2, 0.1], top_p: [0, 1, 0.05], top_k: [0, 1000, 1], min_p: [0, 1, 0.01], max_output_tokens: [1, 1_000_000, 1],
  seed: [0, 2 ** 53 - 1, 1], repetition_penalty: [0.01, 10, 0.05], presence_penalty: [-2, 2, 0.1], frequency_penalty: [-2, 2, 0.1],
};

export function openSettings(app, section = "page") {
  const { chat } = app.conversation;
  const save = async () => {
    if (!app.conversation.isEmpty) await app.saveChat(chat);
  };
  const body = el("div", { class: "sections" });
  const paint = () => body.replaceChildren(chatSection(app, chat, save, paint), pageSection(app, () => node.close()), dataSection(app, () => node.close()));
  const node = dialog(t("settings"), t("close"), body, { wide: true });
  paint();
  if (section === "chat") body.querySelector("textarea")?.focus();
  else body.querySelector("#page-settings")?.scrollIntoView();
}

const heading = (id, text) => el("h3", { id }, text);

// MARK: This chat

function chatSection(app, chat, save, repaint) {
  const settings = chat.settings;
  const set = (name, value) => {
    if (value === undefined || value === "") delete settings[name];
    else settings[name] = value;
    save();
  };
  const system = el("textarea", { rows: 3, value: settings.system ?? "", dir: "auto", placeholder: t("systemHint"), onchange: (event) => set("system", event.target.value) });
  return el("section", { class: "section" }, heading("chat-settings", t("chatSettings")),
    el("label", { class: "field" }, el("span", {}, t("system")), system),
    presets(system, set),
    el("div", { class: "grid" }, Object.entries(numbers).map(([name, [min, max, step]]) =>
      el("label", { class: "field" }, el("span", {}, t(`set_${name}`)), el("input", {
        type: "number", min, max, step: "any", value: settings[name] ?? "", placeholder: t("serverDefault"), inputmode: step < 1 ? "decimal" : "numeric",
        "data-setting": name, onchange: (event) => {
          const { value } = event.target;
          if (value === "") return event.target.setCustomValidity(""), set(name);
          let parsed = Number(value);
          if (Number.isInteger(step)) parsed = Math.round(parsed);
          const isGood = Number.isFinite(parsed) && parsed >= min && parsed <= max;
          event.target.setCustomValidity(isGood ? "" : t("outOfRange", { min, max }));
          event.target.reportValidity();
          if (isGood) set(name, parsed);
        },
      })))),
    el("label", { class: "field" }, el("span", {}, t("set_stop")), el("textarea", { rows: 2, value: settings.stop ?? "", placeholder: t("stopHint"), onchange: (event) => set("stop", event.target.value) })),
    jsonField("schema", settings, set, (value) => value && typeof value === "object" && !Array.isArray(value)),
    jsonField("tools", settings, set, Array.isArray),
    el("div", { class: "row" },
      el("button", { type: "button", class: "button", onclick: () => {
        for (const name of Object.keys(settingTypes)) delete settings[name];
        save();
        repaint();
        app.renderChat();
      } }, t("reset")),
      el("button", { type: "button", class: "button", onclick: async () => {
        await store.setValue("defaults", { ...settings });
        toast(t("savedDefaults"));
      } }, t("useForNew"))));
}

/// A box for JSON that says at once when it is none.
function jsonField(name, settings, set, isRight) {
  const fault = el("span", { class: "failed", role: "alert" });
  const check = (event) => {
    const text = event.target.value.trim();
    let problem = "";
    if (text) {
      try {
        if (!isRight(JSON.parse(text))) problem = t(`bad_${name}`);
      } catch (error) {
        problem = `${t("badJSON")} ${error.message}`;
      }
    }
    fault.textContent = problem;
    event.target.setAttribute("aria-invalid", String(Boolean(problem)));
    if (!problem) set(name, text);
  };
  return el("label", { class: "field" }, el("span", {}, t(`set_${name}`)), el("textarea", {
    rows: 3, class: "mono", spellcheck: "false", value: settings[name] ?? "", placeholder: t(`hint_${name}`), onchange: check, "data-setting": name,
  }), fault);
}

/// Named system prompts: put into the chat by a click, kept, and one of them for every new chat.
function presets(system, set) {
  const box = el("div", { class: "presets" });
  const all = () => store.value("presets", []);
  const write = async (list) => {
    await store.setValue("presets", list);
    paint();
  };
  const name = el("input", { type: "text", placeholder: t("presetName"), "aria-label": t("presetName"), maxlength: 60 });
  const add = async () => {
    if (!name.value.trim() || !system.value.trim()) return name.focus();
    const same = all().find((one) => one.name === name.value.trim());
    await write(same
      ? all().map((one) => (one === same ? { ...one, text: system.value } : one))
      : [...all(), { id: makeID(), name: name.value.trim(), text: system.value, isDefault: false }]);
    name.value = "";
  };
  const paint = () => box.replaceChildren(
    ...all().map((one) => el("span", { class: one.isDefault ? "preset default" : "preset" },
      el("button", { type: "button", class: "preset-name", title: one.text, dir: "auto", onclick: () => ((system.value = one.text), set("system", one.text)) }, one.name),
      iconButton("pin", t(one.isDefault ? "presetNotDefault" : "presetDefault", { name: one.name }), () => write(all().map((other) => ({ ...other, isDefault: other.id === one.id && !one.isDefault }))), { "aria-pressed": String(Boolean(one.isDefault)) }),
      iconButton("edit", t("presetEdit", { name: one.name }), () => {
        name.value = one.name;
        system.value = one.text;
        set("system", one.text);
        system.focus();
      }),
      iconButton("trash", t("presetDelete", { name: one.name }), () => write(all().filter((other) => other.id !== one.id))))),
    el("span", { class: "preset-new" }, name, el("button", { type: "button", class: "button", onclick: add }, t("presetSave"))));
  paint();
  return el("div", { class: "field", role: "group", "aria-label": t("presets") }, el("span", {}, t("presets")), box);
}

// MARK: The page

function pageSection(app, close) {
  const choose = el("select", {
    id: "language", onchange: async (event) => {
      try {
        localStorage.setItem("language", event.target.value);
      } catch {
        // For this page only.
      }
      await setLanguage(event.target.value);
      close();
      app.renderChat();
      models.onchange();
      app.repaint();
      openSettings(app);
    },
  }, Object.entries(languages).map(([name, label]) => el("option", { value: name, selected: name === language, lang: name }, label)));
  return el("section", { class: "section" }, heading("page-settings", t("pageSettings")),
    el("label", { class: "field" }, el("span", {}, t("language")), choose),
    key.get() ? el("div", { class: "row" }, el("button", {
      type: "button", class: "button", onclick: () => {
        key.forget();
        close();
        models.refresh();
      },
    }, t("forgetKey"))) : null);
}

// MARK: What is stored

function dataSection(app, close) {
  const used = el("span", { class: "muted" });
  navigator.storage?.estimate?.().then((estimate) => (used.textContent = t("storageUsed", { used: bytes(estimate.usage ?? 0) }))).catch(() => {});
  return el("section", { class: "section" }, heading("data-settings", t("data")),
    el("p", { class: "muted" }, t(store.isKept ? "whereStoredLong" : "notKept"), " ", used),
    el("div", { class: "row" },
      el("button", { type: "button", class: "button", onclick: async () => download("mlxserve-chats.json", "application/json", await store.exported()) }, icon("save"), t("exportAll")),
      el("button", { type: "button", class: "button", onclick: () => chooseImport(app) }, icon("open"), t("import")),
      el("button", { type: "button", class: "button danger", onclick: () => confirmRemoval(app, close) }, icon("trash"), t("deleteAll"))));
}

function chooseImport(app) {
  const input = $("import-file");
  input.onchange = async () => {
    const file = input.files[0];
    input.value = "";
    if (!file) return;
    try {
      const count = await store.imported(file);
      toast(t("imported", { count }));
      app.repaint();
    } catch (error) {
      toast(t(error.message), { seconds: 10 });
    }
  };
  input.click();
}

function confirmRemoval(app, close) {
  const node = dialog(t("deleteAll"), t("close"), el("div", {}, el("p", {}, t("deleteAllAsk", { count: store.chats.size })),
    el("div", { class: "row end" },
      el("button", { type: "button", class: "button", onclick: () => node.close() }, t("cancel")),
      el("button", { type: "button", class: "button danger", onclick: async () => {
        node.close();
        close();
        app.stopAll();
        await store.removeAll();
        app.newChat();
        app.repaint();
      } }, t("deleteAll")))));
}
