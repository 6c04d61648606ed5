// The table of all chains: sorted, narrowed, and walked through by keys.

import { severity } from "./chain_state.js";
import { CELLS_ROW, coverageBar, coverageWords, spansOf } from "./coverage.js";
import { el, setAttr, setText, sync } from "./dom.js";
import { endpointState } from "./endpoints.js";
import { chainPath } from "./links.js";
import { namesOf } from "./query.js";
import { sparkline } from "./sparkline.js";
import { NONE, count, rate, setAge, utc } from "./words.js";

/** From so many chains on, rows are low: thirty fit a screen. */
const DENSE_MIN = 16;
const headOf = ({ chain }) => chain.head?.number ?? -1;

/** What the columns are called, what they are sorted by, and whether large values come first. */
const COLUMNS = [
  { key: "name", text: "Chain", by: ({ chain }) => chain.name.toLowerCase() },
  { key: "state", text: "State", by: ({ state }) => severity(state) },
  { key: "head", text: "Head", by: headOf, right: true, falls: true },
  {
    key: "finalized",
    text: "Finalized",
    by: ({ chain }) => chain.finalized?.number ?? -1,
    right: true,
    falls: true,
  },
  {
    key: "lag",
    text: "Lag, blocks",
    by: ({ chain }) => chain.lagBlocks ?? Infinity,
    right: true,
    falls: true,
  },
  {
    key: "age",
    text: "Head age",
    by: ({ chain }) => -(chain.head?.timestamp ?? 0),
    right: true,
    falls: true,
  },
  { key: "coverage", text: "Coverage", by: ({ chain }) => coverageWords(spansOf(chain)).share },
  {
    key: "rate",
    text: "Ingest, blocks/s",
    by: ({ observed }) => observed.average("blocks") || 0,
    falls: true,
  },
  { key: "endpoints", text: "Endpoints", by: ({ chain }) => shareHealthy(chain), right: true },
];

export function healthyOf(chain) {
  const all = chain.endpoints ?? [];
  return { well: all.filter((endpoint) => endpointState(endpoint).tone === "good").length, all: all.length };
}

function shareHealthy(chain) {
  const { well, all } = healthyOf(chain);
  return all === 0 ? 1 : well / all;
}

/** `view` has `sort`, `filter` and `only`, which this changes by the headings; then it calls `changed`. */
export function chainTable(view, changed) {
  const body = el("tbody", { id: "chains" });
  const heads = COLUMNS.map((column) => heading(column, view, changed));
  const table = el(
    "table",
    { class: "chains" },
    el("caption", { class: "hidden", text: "All chains" }),
    el("thead", {}, el("tr", {}, ...heads)),
    body,
  );
  const none = el("p", { class: "empty", text: "No chain fits." });
  const node = el(
    "div",
    { class: "panel" },
    el("div", { class: "scroll", role: "region", "aria-label": "All chains" }, table),
    none,
  );
  node.hidden = true;
  const walk = (event) => walks(event, body);
  document.addEventListener("keydown", walk);
  return {
    node,
    close: () => document.removeEventListener("keydown", walk),
    update(told) {
      const shown = sorted(
        told.filter((one) => fits(one, view)),
        view.sort,
      );
      node.hidden = told.length === 0;
      none.hidden = shown.length > 0;
      setAttr(table, "data-dense", told.length >= DENSE_MIN);
      COLUMNS.forEach((column, at) => setAttr(heads[at], "aria-sort", directionOf(column, view.sort)));
      sync(body, shown, ({ chain }) => chain.chainId, row);
    },
  };
}

function heading({ key, text, right, falls }, view, changed) {
  const button = el("button", { type: "button", class: "sort", text });
  button.addEventListener("click", () => {
    const [up, down] = [key, `-${key}`];
    const order = falls ? [down, up, ""] : [up, down, ""];
    view.sort = order[(order.indexOf(view.sort) + 1) % order.length];
    changed();
  });
  return el("th", { scope: "col", class: `${right ? "right " : ""}col-${key}` }, button);
}

function directionOf({ key }, sort) {
  if (sort === key) return "ascending";
  return sort === `-${key}` ? "descending" : null;
}

/** Those that need attention come first where nothing else is asked for. */
function sorted(told, sort) {
  const column = COLUMNS.find(({ key }) => key === sort.replace(/^-/, ""));
  const by = column?.by ?? (({ state }) => severity(state));
  const turn = sort.startsWith("-") ? -1 : 1;
  const compare = (a, b) => (by(a) < by(b) ? -turn : by(a) > by(b) ? turn : 0);
  return [...told].sort((a, b) => compare(a, b) || a.chain.name.localeCompare(b.chain.name));
}

function fits({ chain, state }, { filter, only }) {
  if (only && state.tone === "good") return false;
  const wanted = filter.trim().toLowerCase();
  return namesOf(chain).some((name) => name.includes(wanted)) || String(chain.chainId).startsWith(wanted);
}

function row({ chain: { chainId } }) {
  const name = el("a", { href: chainPath(chainId), class: "row-link" });
  const state = el("span", { class: "state" });
  const why = el("span", { class: "muted" });
  const head = el("span", { "data-field": "head-number" });
  const finalized = el("span", { "data-field": "finalized-number" });
  const lag = el("span", { "data-field": "lag-blocks" });
  const age = el("time", { class: "muted", "data-field": "head-age" });
  const bar = coverageBar(CELLS_ROW);
  const part = el("span", { class: "part", "data-field": "coverage" });
  const spark = sparkline("blocks", "blocks per second");
  const speed = el("span", { class: "speed", "data-field": "rate" });
  const endpoints = el("span", { class: "toned", "data-field": "endpoints" });
  const cell = (key, ...nodes) =>
    el(
      "td",
      { class: `${COLUMNS.find((one) => one.key === key).right ? "right " : ""}col-${key}` },
      ...nodes,
    );
  const node = el(
    "tr",
    { id: `chain-${chainId}`, "data-chain": chainId },
    el("th", { scope: "row", class: "col-name" }, name, el("span", { class: "muted id", text: chainId })),
    cell("state", state, " ", why),
    cell("head", head),
    cell("finalized", finalized),
    cell("lag", lag),
    cell("age", age),
    cell("coverage", el("span", { class: "slim" }, bar.node, part)),
    cell("rate", el("span", { class: "slim" }, spark.node, speed)),
    cell("endpoints", endpoints),
  );
  node.addEventListener("click", (event) => {
    // The whole row leads there; a selection of text does not.
    if (event.target.closest("a, button") || String(getSelection()) !== "") return;
    name.click();
  });
  return {
    node,
    update({ chain, state: now, observed }) {
      setText(name, chain.name);
      setText(state, now.word);
      setAttr(state, "data-tone", now.tone);
      setText(why, now.why.replace(/^halted: /i, ""));
      setAttr(why, "title", now.why || null);
      setAttr(node, "data-tone", now.tone);
      setText(head, count(chain.head?.number));
      setAttr(head, "title", chain.head ? `${chain.head.hash}, ${utc(chain.head.timestamp)} UTC` : null);
      setText(finalized, count(chain.finalized?.number));
      setAttr(
        finalized,
        "title",
        chain.finalized ? `${chain.finalized.hash}, ${utc(chain.finalized.timestamp)} UTC` : null,
      );
      setText(lag, count(chain.lagBlocks ?? NaN));
      setAttr(lag, "title", `The source is at ${count(chain.sourceHead)}`);
      setAge(age, chain.head?.timestamp);
      const spans = spansOf(chain);
      const words = coverageWords(spans);
      bar.update(spans);
      setText(part, words.part);
      setAttr(part, "title", words.holes || "no holes");
      setAttr(part, "data-tone", words.holes ? "bad" : null);
      spark.update(observed);
      setText(speed, rate(observed.average("blocks")));
      const { well, all } = healthyOf(chain);
      setText(endpoints, all === 0 ? NONE : `${well}/${all}`);
      setAttr(
        endpoints,
        "title",
        all === 0 ? "nothing is fetched over JSON-RPC" : `${well} of ${all} healthy`,
      );
      setAttr(endpoints, "data-tone", well === all ? null : well === 0 ? "bad" : "warn");
    },
  };
}

/** Up and down, or k and j, walk through the rows; Enter opens one, as it is a link. */
function walks(event, body) {
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  if (!step || event.metaKey || event.ctrlKey || event.altKey) return;
  const target = event.target instanceof Element ? event.target : document.body;
  if (target.closest("input, select, textarea, summary, .suggestions, dialog")) return;
  const links = [...body.querySelectorAll(".row-link")];
  const at = links.indexOf(document.activeElement);
  // Arrows scroll the page, until a row is chosen.
  if (at < 0 && event.key.startsWith("Arrow") && target !== document.body && target.tagName !== "H1") return;
  const next = links[at < 0 ? (step > 0 ? 0 : links.length - 1) : at + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
}
