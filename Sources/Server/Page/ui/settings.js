// The dialog of settings: of this chat, of new chats, of the page, and what is stored.

import { $, dialog, el, field, icon, iconButton, toast } from "./dom.js";
import { download } from "./files.js";
import { models } from "./models.js";
import { makeID, settingTypes, store } from "./store.js";
import { local } from "./storage.js";
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
  const body = el("div.sections");
  const paint = () => body.replaceChildren(chatSection(app, chat, save, paint), pageSection(app, () => node.close()), dataSection(app, () => node.close()));
  const node = dialog(t("settings"), body, { wide: true });
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
  return el("section.section", heading("chat-settings", t("chatSettings")),
    field(t("system"), system),
    presets(system, set),
    el("div.grid", Object.entries(numbers).map(([name, [min, max, step]]) =>
      field(t(`set_${name}`), el("input", {
        type: "number", min, max, step: "any", value: settings[name] ?? "", placeholder: models.can(app.model)?.sampling?.[name] ?? t("serverDefault"), inputmode: step < 1 ? "decimal" : "numeric",
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
    field(t("set_stop"), el("textarea", { rows: 2, value: settings.stop ?? "", placeholder: t("stopHint"), onchange: (event) => set("stop", event.target.value) })),
    jsonField("schema", '{"type": "object", …}', settings, set, (value) => value && typeof value === "object" && !Array.isArray(value)),
    jsonField("tools", '[{"type": "function", "name": …}]', settings, set, Array.isArray),
    el("div.row",
      el("button.button", { onclick: () => {
        for (const name of Object.keys(settingTypes)) delete settings[name];
        save();
        repaint();
        app.renderChat();
      } }, t("reset")),
      el("button.button", { onclick: async () => {
        await store.setValue("defaults", { ...settings });
        toast(t("savedDefaults"));
      } }, t("useForNew"))));
}

/// A box for JSON that says at once when it is none.
function jsonField(name, example, settings, set, isRight) {
  const fault = el("span.failed", { role: "alert" });
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
  return field(t(`set_${name}`), el("textarea", {
    rows: 3, class: "mono", spellcheck: "false", value: settings[name] ?? "", placeholder: example, onchange: check, "data-setting": name,
  }), fault);
}

/// Named system prompts: put into the chat by a click, kept, and one of them for every new chat.
function presets(system, set) {
  const box = el("div.presets");
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
      el("button.preset-name", { title: one.text, dir: "auto", onclick: () => ((system.value = one.text), set("system", one.text)) }, one.name),
      iconButton("pin", t("presetDefault", { name: one.name }), () => write(all().map((other) => ({ ...other, isDefault: other.id === one.id && !one.isDefault }))), { "aria-pressed": String(Boolean(one.isDefault)) }),
      iconButton("edit", t("presetEdit", { name: one.name }), () => {
        name.value = one.name;
        system.value = one.text;
        set("system", one.text);
        system.focus();
      }),
      iconButton("trash", t("presetDelete", { name: one.name }), () => write(all().filter((other) => other.id !== one.id))))),
    el("span.preset-new", name, el("button.button", { onclick: add }, t("presetSave"))));
  paint();
  return el("div.field", { role: "group", "aria-label": t("presets") }, el("span", t("presets")), box);
}

// MARK: The page

function pageSection(app, close) {
  const choose = el("select", {
    id: "language", onchange: async (event) => {
      local.set("language", event.target.value);
      await setLanguage(event.target.value);
      close();
      app.renderChat();
      models.onchange();
      app.repaint();
      openSettings(app);
    },
  }, languages().map(([name, label]) => el("option", { value: name, selected: name === language, lang: name }, label)));
  return el("section.section", heading("page-settings", t("pageSettings")),
    field(t("language"), choose),
    key.get() ? el("div.row", el("button.button", {
      onclick: () => {
        key.forget();
        close();
        models.refresh();
      },
    }, t("forgetKey"))) : null);
}

// MARK: What is stored

function dataSection(app, close) {
  const used = el("span.muted");
  navigator.storage?.estimate?.().then((estimate) => (used.textContent = t("storageUsed", { used: bytes(estimate.usage ?? 0) }))).catch(() => {});
  return el("section.section", heading("data-settings", t("data")),
    el("p.muted", t(store.isKept ? "whereStoredLong" : "notKept"), " ", used),
    el("div.row",
      el("button.button", { onclick: async () => download("mlxserve-chats.json", "application/json", await store.exported()) }, icon("save"), t("exportAll")),
      el("button.button", { onclick: () => chooseImport(app) }, icon("open"), t("import")),
      el("button.button.danger", { onclick: () => confirmRemoval(app, close) }, icon("trash"), t("deleteAll"))));
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
  const node = dialog(t("deleteAll"), el("div", el("p", t("deleteAllAsk", { count: store.chats.size })),
    el("div.row.end",
      el("button.button", { onclick: () => node.close() }, t("cancel")),
      el("button.button.danger", { onclick: async () => {
        node.close();
        close();
        app.stopAll();
        await store.removeAll();
        app.newChat();
        app.repaint();
      } }, t("deleteAll")))));
}
