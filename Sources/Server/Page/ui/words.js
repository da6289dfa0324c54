// Words of the page in five languages, and numbers and times as each of them writes them.

const tags = ["en", "de", "pt-BR", "zh-Hans", "tl"];

/// A file's name without what turns the text around it, or shows it as another name.
export const plainName = (name) => String(name).replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, "\ufffd");

/// A name → its sentence in each language. In words.txt each name stands above its sentences.
const table = new Map();
/// The language that is shown, and what formats its numbers.
export let language = "en";
let plural = new Intl.PluralRules("en");
let numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/// Pairs of a language and what it calls itself.
export const languages = () => tags.map((tag, at) => [tag, table.get("languageName")?.[at] ?? tag]);

/// The sentence of this name, with `{members}` filled in. Where it has two forms, the first is for one, by `count`.
export function t(name, values = {}) {
  const forms = (table.get(name)?.[tags.indexOf(language)] ?? name).split("|");
  const text = values.count !== undefined && plural.select(values.count) === "one" ? forms[0] : forms.at(-1);
  return text.replace(/\{(\w+)\}/g, (whole, member) => {
    const value = Object.hasOwn(values, member) ? values[member] : whole;
    return typeof value === "number" ? number(value) : value;
  });
}

export const number = (value, digits = 1) => (digits === 1 ? numbers : new Intl.NumberFormat(language, { maximumFractionDigits: digits })).format(value);
/// Two decimals below one, one below ten, none above.
export const seconds = (value) => number(value < 10 ? value : Math.round(value), value < 1 ? 2 : 1);
export const clock = (time) => new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" }).format(time);
export const bytes = (value) => {
  const unit = value >= 1e9 ? ["gigabyte", 1e9] : value >= 1e6 ? ["megabyte", 1e6] : ["kilobyte", 1e3];
  return new Intl.NumberFormat(language, { style: "unit", unit: unit[0], maximumFractionDigits: 1 }).format(Math.max(0.1, value / unit[1]));
};

/// How far something is: the part that is done where that is known, else for how many seconds it has gone on.
export const howFar = (part, time) => new Intl.NumberFormat(language, part >= 0
  ? { style: "percent" } : { style: "unit", unit: "second", maximumFractionDigits: 0 }).format(part ?? time);

/// The day of a time, as history is grouped: today, yesterday, this week, or the month.
export function day(time) {
  const start = (value) => new Date(value).setHours(0, 0, 0, 0);
  const days = Math.round((start(Date.now()) - start(time)) / 864e5);
  if (days <= 0) return t("today");
  if (days === 1) return t("yesterday");
  if (days < 7) return t("thisWeek");
  return new Intl.DateTimeFormat(language, { month: "long", year: "numeric" }).format(time);
}

/// The best of our languages for those that the reader prefers.
export function preferred(wanted = navigator.languages) {
  for (const tag of wanted) {
    const name = tag.toLowerCase().replace(/^fil/, "tl");
    const found = tags.find((one) => name.split("-")[0] === one.split("-")[0]);
    if (found) return found;
  }
  return "en";
}

/// Shows the page in this language.
export async function setLanguage(name) {
  language = tags.includes(name) ? name : "en";
  plural = new Intl.PluralRules(language);
  numbers = new Intl.NumberFormat(language, { maximumFractionDigits: 1 });
  document.documentElement.lang = language;
  if (!table.size) {
    const lines = (await (await fetch("ui/words.txt")).text()).split("\n").filter(Boolean);
    for (let at = 0; at < lines.length; at += tags.length + 1) table.set(lines[at], lines.slice(at + 1, at + 1 + tags.length));
  }
  translate(document);
}

/// Fills in the nodes that name their words.
export function translate(root) {
  for (const node of root.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
  for (const node of root.querySelectorAll("[data-t-placeholder]")) node.placeholder = t(node.dataset.tPlaceholder);
  for (const node of root.querySelectorAll("[data-t-label]")) {
    const label = t(node.dataset.tLabel);
    node.ariaLabel = label;
    if (node.classList.contains("icon-button")) node.title = label;
  }
}
