// A block of code: its language, buttons to copy and to wrap, and colours once it is complete.

import { el, iconButton, icon } from "./dom.js";
import { highlight } from "./highlight.js";

/// More characters than this stay in one colour.
const highlightLimit = 20_000;

export function codeBlock(block, context) {
  const words = context.words;
  const code = el("code", { class: "code" });
  const pre = el("pre", { tabindex: 0, dir: "ltr", role: "group", "aria-label": words.code }, code);
  const copy = iconButton("copy", words.copyCode, async () => {
    if (await copyText(node.text)) {
      copy.replaceChildren(icon("check"));
      setTimeout(() => copy.replaceChildren(icon("copy")), 1500);
    }
  });
  const wrap = iconButton("wrap", words.wrap, () => {
    wrap.setAttribute("aria-pressed", String(pre.classList.toggle("wrapped")));
  }, { "aria-pressed": "false" });
  const node = el("div", { class: "code-block" },
    el("div", { class: "code-head" }, el("span", { class: "code-language" }, block.language.slice(0, 40) || words.text), wrap, copy), pre);
  node.text = "";
  /// Shows more of the same block; false when it is not the same any more.
  node.update = (block) => {
    if (node.isColoured || !block.text.startsWith(node.text.trimEnd())) return false;
    if (block.text.startsWith(node.text)) {
      const added = block.text.slice(node.text.length);
      if (code.firstChild) code.firstChild.appendData(added);
      else code.append(document.createTextNode(added));
    } else code.replaceChildren(document.createTextNode(block.text));
    node.text = block.text;
    if (!block.isOpen && block.text.length <= highlightLimit) {
      const spans = highlight(block.text, block.language);
      if (spans) {
        code.replaceChildren(spans);
        node.isColoured = true;
      }
    }
    return true;
  };
  node.update(block);
  return node;
}

/// Puts text into the clipboard; where pages may not (an address without TLS), by the old way.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el("textarea", { class: "visually-hidden", value: text, "aria-hidden": "true", tabindex: -1 });
    const focused = document.activeElement;
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    focused?.focus?.();
    return isDone;
  }
}
