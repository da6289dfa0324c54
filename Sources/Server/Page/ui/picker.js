// The dialog of models: choose, load, unload, and where the server can, download.

import { dialog, el, icon } from "./dom.js";
import { isForChat, models } from "./models.js";
import { pullForm } from "./pull.js";
import { bytes, t } from "./words.js";

export function openPicker(app) {
  let node = null;
  const list = el("ul.models");
  const pull = el("div");
  const paint = () => {
    const focused = document.activeElement?.dataset?.focus;
    list.replaceChildren(...models.list.map((model) => row(model, app, () => node)));
    if (!models.list.length) list.replaceChildren(el("li.nothing", t(models.state === "ready" ? "noModels" : `state_${models.state}`)));
    if (models.server.pull && !pull.firstChild) pull.append(pullForm(app.explain));
    if (focused) list.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
  };
  const before = models.onchange;
  node = dialog(t("models"), el("div", list, pull), {
    onclose: () => (models.onchange = before),
  });
  models.onchange = () => (before(), paint());
  paint();
  models.refresh();
  list.querySelector("[aria-pressed=true]")?.focus();
}

function row(model, app, node) {
  const { value, failed, error } = model.status;
  const isChosen = model.id === app.model;
  const facts = [t(`state_${value}`) + (value === "loading" ? ` ${models.progress(model)}` : "")];
  if (!isForChat(model)) facts.push(t(model.task === "rerank" ? "task_rerank" : "task_embed"));
  if (model.size_bytes) facts.push(bytes(model.size_bytes));
  if (model.context_length) facts.push(t("contextOf", { count: model.context_length }));
  const inputs = (Array.isArray(model.input_modalities) ? model.input_modalities : []).filter((kind) => kind !== "text");
  for (const kind of inputs) facts.push(t(`takes_${kind}`));
  const act = async (work) => {
    try {
      await work();
    } catch (failure) {
      app.refuse(app.explain(failure));
    }
  };
  const choose = () => {
    app.chooseModel(model.id);
    // Who may not load models gets it loaded by the first message.
    if (value === "unloaded") models.load(model.id).catch((failure) => failure.status === 403 || app.refuse(app.explain(failure)));
    node().close();
  };
  return el("li", { class: isChosen ? "model-row chosen" : "model-row" },
    el("button.model-choose", { "aria-pressed": String(isChosen), "data-focus": `choose ${model.id}`, disabled: !isForChat(model), onclick: choose },
      el("span.dot", { "data-state": value, "aria-hidden": "true" }), el("span.model-words",
        el("strong", { dir: "auto" }, model.id), el("span.muted", facts.join(" · ")),
        failed ? el("span.failed", t("loadFailed", { reason: String(error ?? "") })) : null),
      isChosen ? icon("check") : null),
    value === "loading" ? el("progress", { "aria-label": t("state_loading"), value: model.status.progress }) : null,
    value === "loaded"
      ? el("button.button", { "data-focus": `unload ${model.id}`, onclick: () => act(() => models.unload(model.id)) }, t("unload"))
      : value === "unloaded"
        ? el("button.button", { "data-focus": `load ${model.id}`, onclick: () => act(() => models.load(model.id)) }, t("load")) : null);
}
