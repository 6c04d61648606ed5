// The one search box: it says what a text may mean while it is typed, and leads there. "/" and Ctrl or Cmd with K
// reach it from everywhere.

import { el, setAttr } from "./dom.js";
import { EVENTS, nameOf } from "./events.js";
import { blockPath, chainPath, searchPath } from "./links.js";
import { chains } from "./live.js";
import { meanings } from "./query.js";
import { count, shortHash, utc } from "./words.js";

const SUGGESTIONS_MAX = 9;
const EVENTS_MAX = 4;
const HINT = "Search block, hash, address, time, chain";

export function startSearchBox(form) {
  const input = el("input", {
    type: "search",
    id: "search-box",
    name: "q",
    placeholder: HINT,
    "aria-label": "Search",
    role: "combobox",
    "aria-expanded": "false",
    "aria-controls": "suggestions",
    "aria-autocomplete": "list",
    spellcheck: "false",
    autocapitalize: "off",
    enterkeyhint: "search",
  });
  const list = el("div", {
    class: "suggestions",
    id: "suggestions",
    role: "listbox",
    "aria-label": "Suggestions",
    hidden: true,
  });
  form.replaceChildren(input, el("kbd", { text: "/", "aria-hidden": "true" }), list);
  let offered = [];
  let at = 0;

  function suggest() {
    const text = input.value;
    offered = suggestions(text, chains());
    at = 0;
    const isOpen = text.trim() !== "" && document.activeElement === input;
    list.replaceChildren(...(offered.length > 0 ? offered.map(option) : [nothing()]));
    list.hidden = !isOpen;
    setAttr(input, "aria-expanded", String(isOpen));
    mark();
  }

  function option({ kind, text, why, href }, place) {
    const node = el(
      "div",
      { role: "option", id: `suggestion-${place}` },
      el("span", { class: "kind", text: kind }),
      el("span", { class: "what", text }),
      el("span", { class: "why", text: why ?? "" }),
    );
    node.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      go(href);
    });
    node.addEventListener("pointermove", () => {
      at = place;
      mark();
    });
    return node;
  }

  function mark() {
    [...list.children].forEach((node, place) =>
      setAttr(node, "aria-selected", node.id === "" ? null : String(place === at)),
    );
    const isOpen = !list.hidden && offered.length > 0;
    setAttr(input, "aria-activedescendant", isOpen ? `suggestion-${at}` : null);
    if (isOpen) list.children[at]?.scrollIntoView({ block: "nearest" });
  }

  function close() {
    list.hidden = true;
    setAttr(input, "aria-expanded", "false");
    setAttr(input, "aria-activedescendant", null);
  }

  function go(href) {
    close();
    input.blur();
    // A page of results puts its question there again.
    input.value = "";
    navigate(href);
  }

  input.addEventListener("input", suggest);
  input.addEventListener("focus", suggest);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && !list.hidden && offered.length > 0) {
      event.preventDefault();
      at = (at + step + offered.length) % offered.length;
      mark();
    } else if (event.key === "Escape") {
      if (list.hidden) input.blur();
      close();
    }
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (text === "") return;
    go(offered[at]?.href ?? searchPath(text));
  });
  addEventListener("keydown", (event) => {
    const isCommand = event.key.toLowerCase() === "k" && (event.metaKey || event.ctrlKey) && !event.altKey;
    const isSlash =
      event.key === "/" && !event.metaKey && !event.ctrlKey && !event.altKey && !isTyping(event.target);
    if (!isCommand && !isSlash) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
}

function isTyping(target) {
  return target instanceof Element && target.closest("input, textarea, select, [contenteditable]") !== null;
}

/** The router takes it; where it does not, the browser does. */
function navigate(href) {
  const event = new CustomEvent("navigate-to", { detail: href, cancelable: true });
  if (document.dispatchEvent(event)) location.assign(href);
}

function nothing() {
  return el(
    "p",
    { class: "empty", role: "option", "aria-disabled": "true" },
    "That is no address, hash, block, time, chain or known event. Hashes have 64 digits, addresses 40; times are like 2026-11-19 or 2026-11-19T14:00:00Z.",
  );
}

/** What to offer for a text, the likeliest first. */
function suggestions(text, all) {
  const found = meanings(text, all).flatMap((meaning) => offers(meaning, all));
  return [...found, ...eventOffers(text.trim())].slice(0, SUGGESTIONS_MAX);
}

function offers(meaning, all) {
  const { kind, chain } = meaning;
  // A single chain needs no page that asks which one is meant.
  const only = kind === "chain" ? null : (chain ?? (all.length === 1 ? all[0] : null));
  const where = only ? `on ${only.name}` : `on ${all.length} chains`;
  const scope = only ? { chain: only.chainId } : {};
  if (kind === "chain")
    return [{ kind: "Chain", text: chain.name, why: String(chain.chainId), href: chainPath(chain.chainId) }];
  if (kind === "hash") {
    const why = nameOf(meaning.hash)
      ? `topic of ${nameOf(meaning.hash)}`
      : `block, transaction or topic ${where}`;
    return [{ kind: "Hash", text: shortHash(meaning.hash), why, href: searchPath(meaning.hash, scope) }];
  }
  if (kind === "address")
    return [
      {
        kind: "Address",
        text: shortHash(meaning.address),
        why: `logs ${where}`,
        href: searchPath(meaning.address, scope),
      },
    ];
  if (kind === "time")
    return [
      {
        kind: "Time",
        text: `${utc(meaning.seconds)} UTC`,
        why: `block ${where}`,
        href: searchPath(meaning.time, scope),
      },
    ];
  const said = typeof meaning.block === "number" ? count(meaning.block) : meaning.block;
  if (only) return [{ kind: "Block", text: said, why: where, href: blockPath(only.chainId, meaning.block) }];
  const everywhere = { kind: "Block", text: said, why: where, href: searchPath(String(meaning.block)) };
  const has = ({ head }) => typeof meaning.block !== "number" || (head && head.number >= meaning.block);
  const each = all.filter(has).slice(0, 5);
  return [
    everywhere,
    ...each.map((one) => ({
      kind: "Block",
      text: said,
      why: `on ${one.name}`,
      href: blockPath(one.chainId, meaning.block),
    })),
  ];
}

/** Events by their name. */
function eventOffers(text) {
  if (!/^[a-z]\w{2,}$/i.test(text)) return [];
  const wanted = text.toLowerCase();
  const seen = new Set();
  return EVENTS.filter(([topic, signature]) => {
    const fits = signature.toLowerCase().startsWith(wanted) && !seen.has(topic);
    seen.add(topic);
    return fits;
  })
    .slice(0, EVENTS_MAX)
    .map(([topic]) => ({ kind: "Event", text: nameOf(topic), why: "logs", href: searchPath(topic) }));
}
