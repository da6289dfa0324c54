// The dialog of the operator's tools: which servers a chat has, which of their tools, and which of those are called unasked.

import { dialog, el, field } from "./dom.js";
import { models } from "./models.js";
import { labels, listOf, permission, permit, textOf, toolName } from "./tools.js";
import { t } from "./words.js";

export function openToolbox(app) {
  const { chat, isEmpty } = app.conversation;
  const { settings } = chat;
  const save = () => {
    app.repaint();
    if (!isEmpty) app.saveChat(chat);
  };
  const cannot = models.can(app.model)?.tools?.supported === false;
  dialog(t("tools"), el("div.toolbox", el("p.muted", t("toolsIntro")),
    cannot ? el("p.failed", t("modelTakesNoTools", { model: app.model })) : null,
    labels().map((label) => serverView(app, settings, label, save))), { wide: true, onclose: () => app.focus() });
}

function serverView(app, settings, label, save) {
  const told = el("span.muted", { role: "status" }, t("asking"));
  const body = el("div.tool-rows");
  const box = el("input", { type: "checkbox", role: "switch", checked: Boolean(settings.servers?.[label]), onchange: () => choose(box.checked || undefined) });
  let tools = [];

  /// True for all tools, a list for some, undefined for none. Another object each time: chats share what new ones begin with.
  function choose(value) {
    const { [label]: _, ...others } = settings.servers ?? {};
    settings.servers = value ? { ...others, [label]: value } : others;
    if (!Object.keys(settings.servers).length) delete settings.servers;
    box.checked = Boolean(value);
    paint();
    save();
  }

  function paint() {
    const focused = document.activeElement?.dataset?.focus;
    const chosen = settings.servers?.[label];
    body.replaceChildren(...tools.map(({ name, description, annotations }) => {
      const isOn = chosen === true || Boolean(chosen?.includes(name));
      const change = () => {
        const names = tools.map((tool) => tool.name).filter((other) => (other === name ? !isOn : chosen === true || chosen?.includes(other)));
        choose(names.length === tools.length ? true : names.length ? names : undefined);
      };
      const tool = toolName(label, name);
      return el("div.tool-row",
        el("label.check", el("input", { type: "checkbox", checked: isOn, "data-focus": name, onchange: change }), el("strong", { dir: "auto" }, name),
          annotations?.readOnlyHint === true ? el("span.muted", t("saysItOnlyReads")) : null),
        el("select", { "aria-label": t("permissionFor", { name }), disabled: !isOn, onchange: ({ target }) => permit(settings, tool, target.value).then(save) },
          ["once", "chat", "always"].map((kind) => el("option", { value: kind, selected: permission(settings, tool) === kind }, t(`permission_${kind}`)))),
        description ? el("p.muted", { dir: "auto" }, description.slice(0, 400)) : null);
    }));
    if (focused) body.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
  }

  listOf(label, true).then((list) => {
    ({ tools } = list);
    told.textContent = list.error ?? t("toolCount", { count: tools.length });
    told.classList.toggle("failed", Boolean(list.error));
    paint();
  }, (error) => {
    told.textContent = app.explain(error);
    told.classList.add("failed");
  });
  return el("section.tool-server", el("div.row", el("label.check", box, el("strong", { dir: "auto" }, label)), told), body);
}

// Prompts and resources, for the commands of the box.

/// Commands for what the servers of a chat have: a prompt fills the box, a resource becomes a file of the message.
export function textCommands(app, label, { prompts, resources }) {
  const attempt = (work) => work().catch((error) => app.refuse(app.explain(error)));
  const command = (name, about, run) => ({ name: `${label}:${String(name).toLowerCase().replace(/\s+/g, "-")}`, text: about ?? "", run });
  return [
    ...prompts.map((prompt) => command(prompt.name, prompt.description ?? prompt.title, () => {
      const fill = (values) => attempt(async () => app.fill(await textOf(label, { prompt: prompt.name, arguments: values })));
      if (prompt.arguments?.length) askFor(prompt, fill);
      else fill({});
    })),
    ...resources.map((one) => command(one.name ?? one.uri, one.description ?? one.title ?? one.uri, () => attempt(async () => {
      const text = await textOf(label, { resource: one.uri });
      app.attach({ kind: "text", name: one.name ?? one.uri, size: text.length, text });
      app.focus();
    }))),
  ];
}

/// The values that a prompt needs.
function askFor(prompt, fill) {
  const boxes = prompt.arguments.map((one) => [one, el("input", { type: "text", required: one.required === true, dir: "auto", class: "wide-input" })]);
  const node = dialog(prompt.title ?? prompt.name, el("form.form", { onsubmit: (event) => {
    event.preventDefault();
    node.close();
    fill(Object.fromEntries(boxes.filter(([, box]) => box.value).map(([one, box]) => [one.name, box.value])));
  } }, prompt.description ? el("p.muted", prompt.description) : null,
  boxes.map(([one, box]) => field(one.description ? `${one.name} – ${one.description}` : one.name, box)),
  el("div.row.end", el("button.button.primary", { type: "submit" }, t("insert")))));
  boxes[0][1].focus();
}
