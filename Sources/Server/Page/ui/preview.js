// The dialog that shows HTML or SVG of an answer as a browser draws it.
//
// What is shown is hostile. It is in a frame whose own policy (Page.swift) lets it fetch nothing; the sandbox gives it no
// origin, so it has neither the page's storage nor its key, and can open and submit nothing. Its scripts run when the reader
// says so.

import { dialog, el } from "./dom.js";
import { t } from "./words.js";

/// The document that a block of code is, or null: HTML, or an SVG picture under whichever name.
export function previewOf(language, text) {
  const name = language.toLowerCase();
  if (/^(x?html?|htm)$/.test(name)) return text;
  if (!/^(svg|xml|)$/.test(name) || !/^\s*(<\?xml[^>]*>\s*)?(<!--[^]*?-->\s*)?<svg[\s>]/i.test(text)) return null;
  return `<!doctype html><style>html, body { height: 100%; margin: 0; } body { display: grid; place-items: center; } svg { max-width: 100%; max-height: 100%; }</style>${text.replace(/^\s*<\?xml[^>]*>/, "")}`;
}

export function openPreview(source) {
  const place = el("div.preview");
  const scripts = el("input", { type: "checkbox", onchange: () => show() });
  const show = () => {
    const frame = el("iframe", {
      sandbox: "allow-scripts", referrerpolicy: "no-referrer", title: t("preview"), src: scripts.checked ? "ui/preview.html?scripts" : "ui/preview.html",
    });
    const send = (event) => {
      if (event.source !== frame.contentWindow) return;
      removeEventListener("message", send);
      frame.contentWindow.postMessage(source, "*");
    };
    addEventListener("message", send);
    place.replaceChildren(frame);
  };
  const node = dialog(t("preview"), el("div", place,
    el("div.row.preview-foot", el("label.check", scripts, el("span", t("runScripts"))), el("span.muted.grow", t("previewSafe")))), { wide: true });
  node.classList.add("preview-dialog");
  show();
}
