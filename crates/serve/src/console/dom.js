// The page's hands: nodes made and changed in place, and values said in words.
//
// What the API says is hostile text. It enters the page as text nodes and attributes alone, never as
// markup. Nodes are changed only where something differs, so that focus, selection and open parts
// survive every poll.

/** A new element. Keys of `props` are attributes; `text` is its text; other arguments are children. */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "text") node.textContent = value;
    else setAttr(node, name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/** The element with this id; the page is broken without it. */
export function byId(id) {
  const node = document.getElementById(id);
  if (!node) throw new Error(`the page has no element "${id}"`);
  return node;
}

export function setText(node, text) {
  const wanted = String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

/** Sets an attribute; `null`, `undefined` and `false` remove it. */
export function setAttr(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
    return;
  }
  const wanted = value === true ? "" : String(value);
  if (node.getAttribute(name) !== wanted) node.setAttribute(name, wanted);
}

const kept = new WeakMap();

/**
 * Makes the children of `parent` follow `items`, keeping the node of every key that stays.
 * `create(item)` gives `{ node, update }`; `update(item)` runs for old and new ones alike.
 */
export function sync(parent, items, keyOf, create) {
  const old = kept.get(parent) ?? new Map();
  const views = new Map();
  for (const item of items) {
    const key = String(keyOf(item));
    if (views.has(key)) continue;
    const view = old.get(key) ?? create(item);
    view.update(item);
    views.set(key, view);
  }
  for (const [key, view] of old) if (!views.has(key)) view.node.remove();
  // A node is moved only where the order differs: moving takes the focus away.
  let at = parent.firstElementChild;
  for (const view of views.values()) {
    if (view.node === at) at = at.nextElementSibling;
    else parent.insertBefore(view.node, at);
  }
  kept.set(parent, views);
  return views;
}

// Words for values.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const hundredths = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });

export const NONE = "–";

export function count(value) {
  return Number.isFinite(value) ? whole.format(value) : NONE;
}

/** `3 blocks`, `1 block`. */
export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function rate(value) {
  if (!Number.isFinite(value)) return NONE;
  if (value >= 100) return whole.format(value);
  return (value >= 10 ? tenths : hundredths).format(value);
}

export function bytes(value) {
  if (!Number.isFinite(value)) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < units.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${(unit === 0 ? whole : tenths).format(left)} ${units[unit]}`;
}

/** A share in per cent that says 100 only where nothing is missing. */
export function percent(part, all) {
  if (!(all > 0)) return NONE;
  if (part >= all) return "100 %";
  return `${hundredths.format(Math.min(99.99, Math.floor((part / all) * 10_000) / 100))} %`;
}

export function shortHash(hash) {
  return hash.length > 14 ? `${hash.slice(0, 6)}…${hash.slice(-4)}` : hash;
}

/** `2026-11-15 12:00:00`, always UTC. */
export function utc(seconds) {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return `${count(seconds)} s`;
  return date.toISOString().slice(0, 19).replace("T", " ");
}

const SPANS = [
  [31_557_600, "y"],
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

/** The largest unit alone, or the two largest: `2 h`, `2 h 5 min`. */
export function span(seconds, parts = 1) {
  let left = Math.floor(Math.abs(seconds));
  const said = [];
  for (const [size, unit] of SPANS) {
    if (left < size && !(size === 1 && said.length === 0)) continue;
    said.push(`${count(Math.floor(left / size))} ${unit}`);
    left %= size;
    if (said.length === parts) break;
  }
  return said.join(" ");
}

// Ages follow the server's clock: the reader's may be wrong.
let serverAhead = 0;

export function setServerNow(seconds) {
  serverAhead = seconds - Date.now() / 1000;
}

export function serverNow() {
  return Date.now() / 1000 + serverAhead;
}

export function ago(seconds) {
  const age = serverNow() - seconds;
  if (Math.abs(age) < 1.5) return "now";
  return age > 0 ? `${span(age)} ago` : `in ${span(age)}`;
}

/** Makes a `time` element show its age; its title has the time itself. */
export function setAge(node, seconds) {
  if (!Number.isFinite(seconds)) {
    setAttr(node, "data-at", null);
    setAttr(node, "title", null);
    setText(node, "");
    return;
  }
  setAttr(node, "data-at", seconds);
  setAttr(node, "datetime", `${utc(seconds).replace(" ", "T")}Z`);
  setAttr(node, "title", `${utc(seconds)} UTC`);
  setText(node, ago(seconds));
}

/** Ages continue while the server does not answer. */
export function tickAges() {
  for (const node of document.querySelectorAll("time[data-at]")) setText(node, ago(Number(node.dataset.at)));
}

// Copying, and telling.

/** A button that shows a hash shortened and copies it whole. */
export function hashButton(hash = "") {
  const node = el("button", { type: "button", class: "hash" });
  setHash(node, hash);
  return node;
}

export function setHash(node, hash) {
  setText(node, shortHash(hash));
  setAttr(node, "data-copy", hash);
  setAttr(node, "title", hash);
  node.hidden = hash === "";
}

let toastEnds = 0;

/** Says something to those who see and to those who listen. */
export function tell(words) {
  const toast = byId("toast");
  setText(toast, words);
  toast.classList.add("shown");
  clearTimeout(toastEnds);
  toastEnds = setTimeout(() => toast.classList.remove("shown"), 2_000);
  announce(words);
}

export function announce(words) {
  setText(byId("announce"), words);
}

/** Copies a text; where the browser allows no clipboard, shows it selected instead. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    tell(`Copied ${what}`);
  } catch {
    const area = byId("by-hand-text");
    area.value = text;
    byId("by-hand").showModal();
    area.focus();
    area.select();
  }
}

document.addEventListener("click", (event) => {
  const node = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
  if (node) copy(node.dataset.copy, shortHash(node.dataset.copy));
});
