// Words of the page in five languages, and numbers and times as each of them writes them.

export const languages = { en: "English", de: "Deutsch", "pt-BR": "Português (Brasil)", "zh-Hans": "简体中文", tl: "Tagalog" };

let table = {};
let fallback = {};
/// The language that is shown, and what formats its numbers.
export let language = "en";
let plural = new Intl.PluralRules("en");
let numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/// The sentence of this name, with `{members}` filled in; `count` chooses among its plural forms.
export function t(name, values = {}) {
  let text = table[name] ?? fallback[name] ?? name;
  if (typeof text === "object") text = text[plural.select(values.count)] ?? text.other;
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
    const lower = tag.toLowerCase();
    if (lower.startsWith("zh")) return "zh-Hans";
    if (lower.startsWith("pt")) return "pt-BR";
    if (lower.startsWith("fil") || lower.startsWith("tl")) return "tl";
    if (lower.startsWith("de")) return "de";
    if (lower.startsWith("en")) return "en";
  }
  return "en";
}

const read = async (name) => (await fetch(`ui/languages/${name}.json`)).json();

/// Shows the page in this language.
export async function setLanguage(name) {
  const chosen = Object.hasOwn(languages, name) ? name : "en";
  [table, fallback] = await Promise.all([read(chosen), chosen === "en" || fallback.send ? fallback : read("en")]);
  language = chosen;
  plural = new Intl.PluralRules(chosen);
  numbers = new Intl.NumberFormat(chosen, { maximumFractionDigits: 1 });
  document.documentElement.lang = chosen;
  document.documentElement.dir = "ltr";
  translate(document);
}

/// Fills in the nodes that name their words.
export function translate(root) {
  for (const node of root.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
  for (const node of root.querySelectorAll("[data-t-placeholder]")) node.placeholder = t(node.dataset.tPlaceholder);
  for (const node of root.querySelectorAll("[data-t-label]")) {
    const label = t(node.dataset.tLabel);
    node.setAttribute("aria-label", label);
    if (node.classList.contains("icon-button")) node.title = label;
  }
}
