// A chat as one HTML file that needs nothing else: its nodes as they are shown, a few styles, and a policy that lets nothing run.

import { el } from "./dom.js";
import { MarkdownView } from "./markdown.js";
import { clock, language, t } from "./words.js";

const style = `
:root { color-scheme: light dark; font: 16px/1.6 system-ui, sans-serif; }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
article { margin: 1.5rem 0; } h1 { line-height: 1.25; } .who, .when { opacity: .7; font-size: .875rem; }
article.user > div { white-space: pre-wrap; background: color-mix(in srgb, CanvasText 7%, Canvas); border-radius: 14px; padding: .6rem 1rem; }
pre, code { font-family: ui-monospace, monospace; font-size: .875em; } pre { overflow: auto; padding: .8rem 1rem; white-space: pre-wrap; }
pre, blockquote { background: color-mix(in srgb, CanvasText 5%, Canvas); border-radius: 10px; }
blockquote { margin: 1em 0; padding: .2em 1em; } .callout-title { font-weight: 650; }
table { border-collapse: collapse; } th, td { border: 1px solid color-mix(in srgb, CanvasText 25%, Canvas); padding: .3em .7em; text-align: start; }
.right { text-align: end; } .center { text-align: center; } .table { overflow-x: auto; } .footnote { display: flex; gap: .5em; } img { max-width: 100%; }
@media print { body { margin: 0; } }`;

/// The whole file. Text is escaped by the browser that writes the nodes; there are no nodes but those the page makes.
export function conversationHTML({ chat, path }) {
  const title = chat.title || t("untitled");
  const head = el("head", el("meta", { charset: "utf-8" }),
    el("meta", { "http-equiv": "content-security-policy", content: "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:" }),
    el("meta", { name: "viewport", content: "width=device-width" }), el("title", title), el("style", style));
  const body = el("body", el("h1", { dir: "auto" }, title), el("p.when", `${clock(chat.created)}${chat.model ? ` · ${chat.model}` : ""}`), path.map(article));
  for (const node of body.querySelectorAll(".code-head")) node.remove();
  for (const node of body.querySelectorAll("button")) node.replaceWith(...node.childNodes);
  for (const node of body.querySelectorAll("[tabindex]")) node.removeAttribute("tabindex");
  return `<!doctype html>\n${el("html", { lang: language }, head, body).outerHTML}\n`;
}

function article(message) {
  const content = el("div", { dir: "auto" });
  if (message.role === "user") content.append(message.text);
  else new MarkdownView(content).update(message.text, true);
  const files = (message.files ?? []).map((file) => file.kind === "image" && file.data ? el("img", { src: file.data, alt: file.name })
    : file.kind === "sound" && file.data ? el("audio", { src: file.data, controls: "" }) : el("p", el("em", file.name)));
  const calls = (message.calls ?? []).map((call) => el("pre", `${call.name}(${call.arguments})${call.result === null || call.result === undefined ? "" : `\n${call.result}`}`));
  return el("article", { class: message.role }, el("p.who", message.role === "user" ? t("you") : message.model || t("model")), files, message.text ? content : null, calls);
}
