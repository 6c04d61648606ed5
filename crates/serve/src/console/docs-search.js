// Search over routes, methods, schemas, errors and limits: a box with a list below it.

import { el } from "./dom.js";

const SHOWN_MAX = 12;
/** Schemas have short names that many words begin; what can be asked for comes first. */
const WEIGHTS = { Schema: 0.6, Limit: 0.8, Chapter: 0.9 };

/** What can be found: `{ kind, title, detail, href, words }`. */
export function index({ groups, entries, schemas, description, follow }) {
  const chapters = [
    { title: "Introduction", href: "#introduction" },
    { title: "Errors", href: "#errors" },
    { title: "Limits", href: "#limits" },
    { title: "Schemas", href: "#schemas" },
    ...groups.map((group) => ({ title: group.title, href: `#${group.id}`, words: group.text })),
  ].map((chapter) => ({ kind: "Chapter", detail: "", words: "", ...chapter }));
  const routes = entries.map((entry) => ({
    kind: entry.kind === "rpc" ? "Method" : entry.kind.toUpperCase(),
    title: entry.name,
    detail: entry.kind === "rpc" ? entry.summary : entry.title,
    href: `#${entry.id}`,
    words: [
      entry.description,
      ...entry.parameters.map(({ name }) => name),
      ...namesIn(entry.body?.schema, follow),
    ].join(" "),
  }));
  const errors = description["x-errors"].flatMap((row) => {
    const found = { kind: "Error", detail: row.when, words: `${row.rpc ?? ""} ${row.status ?? ""} ${row.advice}` };
    const codes = row.codes.map((code) => ({ ...found, title: code, href: `#${errorId(row, code)}` }));
    return codes.length > 0 ? codes : [{ ...found, title: String(row.rpc), href: `#${errorId(row)}` }];
  });
  const limits = description["x-limits"].map((row) => ({
    kind: "Limit",
    title: row.what,
    detail: row.limit,
    href: "#limits",
    words: row.setting ?? "",
  }));
  const named = schemas.map(([name, schema]) => ({
    kind: "Schema",
    title: name,
    detail: schema.description ?? "",
    href: `#schema-${name}`,
    words: Object.keys(schema.properties ?? {}).join(" "),
  }));
  return [...chapters, ...routes, ...errors, ...named, ...limits];
}

/** The address of a row of the table of errors. Problem details name it by their code alone. */
export function errorId(row, code = row.codes[0]) {
  if (!code) return `error${row.rpc}${row.note.includes("Block") ? "-block" : ""}`;
  // Two codes have two rows: the code alone leads to that of answers, the other is about bodies of requests.
  return [408, 413].includes(row.status) ? `${code}-${row.status}` : code;
}

/** The names of the fields of a body, also of those that its parameters have. */
function namesIn(schema, follow) {
  const parts = schema?.prefixItems ?? (schema ? [schema] : []);
  return parts.flatMap((part) => Object.keys(follow(part).properties ?? {}));
}

/** What fits the words best, first. Every word must occur. */
export function find(all, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const scored = all.map((one, at) => ({ one, at, score: score(one, words) })).filter(({ score }) => score > 0);
  scored.sort((a, b) => b.score - a.score || a.at - b.at);
  return scored.slice(0, SHOWN_MAX).map(({ one }) => one);
}

function score(one, words) {
  const title = one.title.toLowerCase();
  const detail = one.detail.toLowerCase();
  const more = `${one.kind} ${one.words}`.toLowerCase();
  const parts =
    `${title} ${title.replaceAll(/[^a-z0-9]+/g, " ")} ${one.title.replaceAll(/([a-z])([A-Z])/g, "$1 $2").toLowerCase()}`.split(
      " ",
    );
  let sum = title === words.join(" ") ? 100 : 0;
  for (const word of words) {
    if (title.startsWith(word)) sum += 50;
    else if (parts.some((part) => part.startsWith(word))) sum += 40;
    else if (title.includes(word)) sum += 30;
    else if (detail.includes(word)) sum += 10;
    else if (more.includes(word)) sum += 4;
    else return 0;
  }
  return sum * (WEIGHTS[one.kind] ?? 1);
}

/** Makes the box search. */
export function searchBox({ box, list, announce }, all) {
  let found = [];
  let chosen = 0;
  const close = () => {
    list.hidden = true;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  };
  const choose = (at) => {
    chosen = (at + found.length) % found.length;
    [...list.children].forEach((node, each) => node.setAttribute("aria-selected", String(each === chosen)));
    const node = list.children[chosen];
    box.setAttribute("aria-activedescendant", node.id);
    node.scrollIntoView({ block: "nearest" });
  };
  const go = (at) => {
    const { href } = found[at];
    close();
    box.value = "";
    box.blur();
    // The same address again must lead there again.
    if (location.hash === href) dispatchEvent(new HashChangeEvent("hashchange"));
    else location.hash = href;
  };
  const show = () => {
    const text = box.value.trim();
    found = find(all, text);
    if (text === "") return close();
    list.replaceChildren(...found.map((one, at) => option(one, at, go)));
    if (found.length === 0) list.replaceChildren(el("p", { class: "nothing", text: `Nothing is called “${text}”.` }));
    list.hidden = false;
    box.setAttribute("aria-expanded", String(found.length > 0));
    announce(found.length === 1 ? "1 result" : `${found.length} results`);
    if (found.length > 0) choose(0);
  };
  box.addEventListener("input", show);
  box.addEventListener("focus", show);
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      box.value = "";
      close();
    }
    if (list.hidden || found.length === 0) return;
    const moves = { ArrowDown: chosen + 1, ArrowUp: chosen - 1 };
    if (event.key in moves) choose(moves[event.key]);
    else if (event.key === "Enter") go(chosen);
    else return;
    event.preventDefault();
  });
  addEventListener("keydown", (event) => {
    const isTyping = event.target instanceof Element && event.target.closest("input, textarea, select");
    const isCall = (event.key === "/" && !isTyping) || (event.key === "k" && (event.ctrlKey || event.metaKey));
    if (!isCall) return;
    event.preventDefault();
    box.focus();
    box.select();
  });
}

function option(one, at, go) {
  const node = el(
    "div",
    { role: "option", id: `found-${at}`, "aria-selected": "false", "data-kind": one.kind },
    el("span", { class: "kind", text: one.kind }),
    el("span", { class: "what", text: one.title }),
    el("span", { class: "why", text: one.detail.replaceAll("`", "") }),
  );
  // The box must keep the focus until the choice is made.
  node.addEventListener("mousedown", (event) => event.preventDefault());
  node.addEventListener("click", () => go(at));
  return node;
}
