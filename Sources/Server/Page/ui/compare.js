// Two versions of an answer side by side, while they grow too; one of them is kept in the chat.

import { dialog, el } from "./dom.js";
import { t } from "./words.js";

/// Shows two of `versions`; `viewOf` paints a message, `keep` shows it in the chat, `onclose` puts the chat back.
export function openCompare(versions, chosen, { viewOf, keep, onclose }) {
  const columns = [0, 1].map((at) => {
    const column = el("section.column");
    const select = el("select", { "aria-label": t("versionShown"), onchange: () => show(versions[select.value]) },
      versions.map((message, number) => el("option", { value: number }, t("versionOf", { at: number + 1, model: message.model || t("model") }))));
    const body = el("div.column-body");
    const button = el("button.button", { onclick: () => (node.close(), keep(versions[select.value])) }, t("keepThis"));
    const show = (message) => {
      select.value = versions.indexOf(message);
      body.replaceChildren(viewOf(message, `side${at}`));
    };
    column.append(el("div.row", select, button), body);
    return { column, show };
  });
  const node = dialog(t("sideBySide"), el("div.columns", columns.map(({ column }) => column)), { wide: true, onclose });
  node.classList.add("compare-dialog");
  columns.forEach(({ show }, at) => show(chosen[at]));
}
