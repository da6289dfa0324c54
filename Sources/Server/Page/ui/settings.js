// The dialog of settings: of this chat, of new chats, of the page, and what is stored.

import { fault, numbers, readNumber } from "./checks.js";
import { $, dialog, el, field, icon, iconButton, toast } from "./dom.js";
import { download } from "./files.js";
import { models } from "./models.js";
import { makeID, store } from "./store.js";
import { local } from "./storage.js";
import { getJSON, key } from "./wire.js";
import { bytes, language, languages, number, setLanguage, t } from "./words.js";

/// Opens the dialog at a section: `page`, `chat`, or the name of a setting.
export function openSettings(app, section = "page") {
  const { chat, isEmpty } = app.conversation;
  const save = async () => {
    app.repaintForce();
    if (!isEmpty) await app.saveChat(chat);
  };
  const body = el("div.sections");
  const paint = () => body.replaceChildren(chatSection(app, chat, save, paint), pageSection(app, () => node.close()), dataSection(app, () => node.close()));
  // What was typed last may not have been left.
  const node = dialog(t("settings"), body, { wide: true, onclose: save });
  paint();
  if (section === "page") body.querySelector("#page-settings")?.scrollIntoView();
  else (body.querySelector(`[data-setting="${CSS.escape(section)}"]`) ?? body.querySelector("textarea"))?.focus();
}

const heading = (id, text) => el("h3", { id }, text);

// MARK: This chat

function chatSection(app, chat, save, repaint) {
  const settings = chat.settings;
  const set = (name, value) => {
    if (value === undefined || value === "") delete settings[name];
    else settings[name] = value;
    app.repaintForce();
  };
  /// A box for one setting: what is typed is kept as it is, and what is wrong with it stands below at once.
  const box = (name, tag, properties, read = (text) => text) => {
    const said = el("span.failed", { role: "alert" });
    const check = () => {
      said.textContent = fault(name, settings[name]);
      node.setAttribute("aria-invalid", String(Boolean(said.textContent)));
    };
    const node = el(tag, {
      value: settings[name] ?? "", "data-setting": name, ...properties, onchange: save,
      oninput: () => (set(name, read(node.value)), check()),
    });
    check();
    return [node, said];
  };
  const [system] = box("system", "textarea", { rows: 3, dir: "auto", placeholder: t("systemHint") });
  const numberBoxes = Object.entries(numbers).map(([name, [, , step]]) => [name, box(name, "input", {
    type: "text", inputmode: step < 1 ? "decimal" : "numeric", autocomplete: "off", placeholder: models.can(app.model)?.sampling?.[name] ?? t("serverDefault"),
  }, readNumber)]);
  fillDefaults(app, numberBoxes);
  return el("section.section", heading("chat-settings", t("chatSettings")),
    field(t("system"), system),
    presets(system, (name, value) => (set(name, value), save())),
    el("div.grid", numberBoxes.map(([name, parts]) => field(t(`set_${name}`), parts))),
    field(t("set_stop"), box("stop", "textarea", { rows: 2, placeholder: t("stopHint") })),
    field(t("set_schema"), box("schema", "textarea", { rows: 3, class: "mono", spellcheck: "false", placeholder: '{"type": "object", …}' })),
    field(t("set_tools"), box("tools", "textarea", { rows: 3, class: "mono", spellcheck: "false", placeholder: '[{"type": "function", "name": …}]' })),
    el("div.row",
      el("button.button", { onclick: () => {
        for (const name of Object.keys(settings)) delete settings[name];
        save();
        repaint();
        app.renderChat();
      } }, t("reset")),
      el("button.button", { onclick: async () => {
        // What was allowed in this chat is not allowed in others.
        const { allowed, ...others } = settings;
        await store.setValue("defaults", others);
        toast(t("savedDefaults"));
      } }, t("useForNew"))));
}

/// Shows in empty boxes what holds without them: the server knows it of a model that is loaded.
async function fillDefaults(app, boxes) {
  if (models.find(app.model)?.status.value !== "loaded") return;
  try {
    const { default_generation_settings: { params } } = await getJSON(`props?model=${encodeURIComponent(app.model)}`);
    for (const [name, [node]] of boxes) if (Number.isFinite(params[name])) node.placeholder = number(params[name], 3);
  } catch {
    // Then it is the server's.
  }
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
    el("label.check", el("input", { type: "checkbox", checked: store.value("titles", true), onchange: (event) => store.setValue("titles", event.target.checked) }),
      el("span", t("modelTitles"))),
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
