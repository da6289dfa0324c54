// How probable each token of an answer was to its model: colours, alternatives, and answers that go on from one of them.

import { continuedBody } from "./conversation.js";
import { el, iconButton } from "./dom.js";
import { number, t } from "./words.js";
import { send } from "./wire.js";

const alternatives = 5;
/// Least probabilities of the colours, from sure to surprising.
const steps = [0.9, 0.6, 0.3, 0.1];
const percent = (logprob) => t("percent", { value: number(Math.exp(logprob) * 100, logprob > -4.6 ? 0 : 2) });

/// The tokens of the answer at the end of `path`: `{text, logprob, rank, options: [{text, logprob}]}`. The server reads the
/// conversation once more, and tells what it thinks of every token of it.
export async function tokensOf(path, settings, model) {
  const { messages } = continuedBody(path, settings, model);
  const last = path.at(-1);
  if (last.reasoning) messages.at(-1).reasoning_content = last.reasoning;
  const response = await send("v1/chat/completions", { method: "POST", body: {
    model, messages, max_tokens: 1, prompt_logprobs: alternatives, continue_final_message: true, add_generation_prompt: false,
  } });
  // The first entry of a place is the token that stands there. JavaScript would sort ids, which are numbers: they become words.
  const text = (await response.text()).replace(/"(\d+)":(?=\s*\{\s*"logprob")/g, '"_$1":');
  return aligned(JSON.parse(text).prompt_logprobs ?? [], last.text);
}

/// The last places of a prompt whose tokens make this text; null when they do not.
export function aligned(places, text) {
  const tokens = [];
  let rest = text;
  let end = "";
  for (let at = places.length - 1; at >= 0 && rest; at--) {
    const found = Object.values(places[at] ?? {}).map((one) => ({ text: String(one.decoded_token), logprob: one.logprob, rank: one.rank }));
    if (!found.length) return null;
    let [{ text: own, logprob, rank }] = found;
    let piece = "";
    if (own.includes("\ufffd")) {
      // Bytes of a character that several tokens make: they are one.
      while (at > 0 && String(Object.values(places[at - 1] ?? {})[0]?.decoded_token ?? "").includes("\ufffd")) {
        at--;
        logprob += Object.values(places[at])[0].logprob;
      }
      const before = String(Object.values(places[at - 1] ?? {})[0]?.decoded_token ?? "");
      for (piece = [...rest].at(-1); piece.length < rest.length && !rest.slice(0, -piece.length).endsWith(before);) piece = rest.slice(-piece.length - 1);
      rank = 0;
    } else if (rest.endsWith(own)) piece = own;
    else if (own.endsWith(rest)) piece = rest;
    else if (rest.trimEnd() !== rest) {
      // A blank that belongs to the token behind it, which the vocabulary does not write.
      end = rest.slice(rest.trimEnd().length);
      rest = rest.trimEnd();
      if (tokens[0]) tokens[0].text = end + tokens[0].text;
      else tokens.unshift({ text: end, logprob: 0, rank: 0, options: [] });
      at++;
      continue;
    } else return null;
    rest = rest.slice(0, rest.length - piece.length);
    const options = rank ? found.filter((one, number) => one.text && found.findIndex((other) => other.text === one.text) === number).sort((a, b) => b.logprob - a.logprob) : [];
    tokens.unshift({ text: piece, own, logprob, rank, options });
  }
  return rest ? null : tokens;
}

const shade = (logprob) => steps.findIndex((least) => Math.exp(logprob) >= least);

/// The answer as its tokens, whose ids have its `name`. `goOn` is called with the text from which an answer shall go on; `close` shows the answer again.
export function tokensView(tokens, { name, goOn, close }) {
  const spans = tokens.map((token, at) => {
    const step = shade(token.logprob);
    return el("span", { class: `token p${step < 0 ? steps.length : step}`, id: `token-${name}-${at}` }, token.text);
  });
  const sheet = el("div.token-sheet", { hidden: true, role: "group", "aria-live": "polite", "aria-label": t("probabilities") });
  const text = el("div.token-text", { tabindex: 0, role: "application", "aria-label": t("probabilities"), dir: "auto" }, spans);
  let shown = -1;
  // A sheet that keys opened stays when the page moves under a pointer that rests.
  let followsPointer = false;
  const begin = (at) => tokens.slice(0, at).map((token) => token.text).join("");
  const show = (at) => {
    if (at < 0 || at >= tokens.length) return;
    spans[shown]?.classList.remove("current");
    shown = at;
    const token = tokens[at];
    spans[at].classList.add("current");
    text.setAttribute("aria-activedescendant", spans[at].id);
    const options = token.options.length ? token.options : [token];
    sheet.replaceChildren(...options.map((option) => {
      const isOwn = option.text === (token.own ?? token.text);
      const node = el(isOwn ? "button.option.own" : "button.option", {
        title: t("goOnFrom"), onclick: () => goOn(begin(at) + (isOwn ? token.text : option.text)),
      }, el("span.option-text", JSON.stringify(option.text).slice(1, -1)), el("span.muted", percent(option.logprob)), el("i"));
      node.lastChild.style.width = `${Math.exp(option.logprob) * 100}%`;
      return node;
    }), el("p.muted", token.rank > 1 ? t("rankOf", { rank: token.rank }) : "", " ", t("goOnHint")));
    sheet.hidden = false;
    const place = spans[at].getClientRects()[0] ?? spans[at].getBoundingClientRect();
    const box = node.getBoundingClientRect();
    sheet.style.left = `${Math.max(0, Math.min(place.left - box.left, box.width - sheet.offsetWidth))}px`;
    sheet.style.top = `${place.bottom - box.top + 2}px`;
  };
  const hide = () => {
    sheet.hidden = true;
    spans[shown]?.classList.remove("current");
  };
  const average = tokens.reduce((sum, token) => sum + token.logprob, 0) / Math.max(1, tokens.length);
  const node = el("div.tokens", { onpointerleave: () => followsPointer && hide() },
    el("div.row.token-head", el("span.muted", t("probabilitiesOf", { count: tokens.length, perplexity: number(Math.exp(-average), 2) })),
      el("span.legend", { "aria-hidden": "true" }, [...steps, 0].map((least, at) => el("span", { class: `token p${at}` }, at === steps.length ? `< ${steps[at - 1] * 100} %` : `≥ ${least * 100} %`))),
      el("span.grow"), iconButton("close", t("close"), close)), text, sheet);
  const indexOf = (target) => spans.indexOf(target.closest?.(".token"));
  text.addEventListener("pointerover", (event) => (followsPointer = true, show(indexOf(event.target))));
  text.addEventListener("click", (event) => show(indexOf(event.target)));
  node.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    followsPointer = false;
    if (step && event.target === text) event.preventDefault(), show(Math.max(0, Math.min(tokens.length - 1, shown + step)));
    else if (event.key === "Escape") event.preventDefault(), event.stopPropagation(), sheet.hidden ? close() : (hide(), text.focus());
    else if ((event.key === "Enter" || event.key === "ArrowDown") && event.target === text && shown >= 0) event.preventDefault(), sheet.querySelector("button")?.focus();
    else if (["ArrowDown", "ArrowUp"].includes(event.key) && event.target.matches(".option")) {
      event.preventDefault();
      (event.key === "ArrowDown" ? event.target.nextElementSibling : event.target.previousElementSibling)?.focus();
    }
  });
  return node;
}
