// A block of code: its language, buttons to copy and to wrap, and colours once it is complete.

import { copyButton, el, iconButton } from "./dom.js";
import { openPreview, previewOf } from "./preview.js";
import { highlight } from "./highlight.js";
import { t } from "./words.js";

/// More characters than this stay in one colour.
const highlightLimit = 20_000;

export function codeBlock(block) {
  const code = el("code.code");
  const pre = el("pre", { tabindex: 0, dir: "ltr", role: "group", "aria-label": t("code") }, code);
  const wrap = iconButton("wrap", t("wrap"), () => {
    wrap.setAttribute("aria-pressed", String(pre.classList.toggle("wrapped")));
  }, { "aria-pressed": "false" });
  const head = el("div.code-head", el("span.code-language", block.language.slice(0, 40) || t("plainText")), wrap,
    copyButton(t("copyCode"), () => node.text));
  const node = el("div.code-block", head, pre);
  node.text = "";
  /// Shows more of the same block; false when it is not the same any more.
  node.update = (block) => {
    if (node.isColoured || !block.text.startsWith(node.text.trimEnd())) return false;
    if (block.text.startsWith(node.text)) {
      const added = block.text.slice(node.text.length);
      if (code.firstChild) code.firstChild.appendData(added);
      else code.append(new Text(added));
    } else code.replaceChildren(new Text(block.text));
    node.text = block.text;
    // Of a block that is whole.
    if (!block.isOpen && !node.preview && previewOf(block.language, block.text) !== null) {
      node.preview = iconButton("eye", t("preview"), () => openPreview(previewOf(block.language, node.text)));
      wrap.before(node.preview);
    }
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
