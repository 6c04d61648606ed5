// The console: asks for the overview each second and shows it. It only reads; everything that it knows
// is in the public API.

import { chainRow, reasonBox, stateOf } from "./chains.js";
import { Rates } from "./charts.js";
import {
  announce,
  bytes,
  byId,
  count,
  counted,
  el,
  hashButton,
  rate,
  setAge,
  setAttr,
  setHash,
  setServerNow,
  setText,
  span,
  sync,
  tickAges,
  utc,
} from "./dom.js";
import { startLookup } from "./lookup.js";
import { startPolling } from "./poll.js";
import { searchBlock, startSearch } from "./search.js";

const REORGS_MAX = 50;
/** So few chains begin open; more begin as a list. */
const OPEN_MAX = 3;
/** From so many on, the list can be narrowed. */
const FILTER_MIN = 8;

const ratesOf = new Map();
let rows = new Map();
let states = null;
let seenReorgs = null;

// Showing.

function show(overview) {
  const chains = overview.chains ?? [];
  const at = performance.now();
  setServerNow(overview.now);
  setText(byId("version"), overview.version);
  setText(byId("uptime"), `Up for ${span(overview.uptimeSeconds, 2)}.`);
  for (const chain of chains) {
    const rates = ratesOf.get(chain.chainId) ?? new Rates();
    rates.push(at, chain.ingested ?? { blocks: 0, logs: 0 });
    ratesOf.set(chain.chainId, rates);
  }
  showChains(chains);
  showTotals(chains);
  showAttention(chains);
  showReorgs(chains);
  fillChoices(chains);
  tickAges();
}

function showChains(chains) {
  const isOpen = chains.length <= OPEN_MAX;
  const items = chains.map((chain) => ({ chain, rates: ratesOf.get(chain.chainId) }));
  rows = sync(
    byId("chains"),
    items,
    ({ chain }) => chain.chainId,
    ({ chain }) => chainRow(chain, isOpen),
  );
  byId("chains-none").hidden = chains.length > 0;
  setText(
    byId("chains-none"),
    "No chain is set up. Add one to the settings file; “chronolith config example” prints one.",
  );
  byId("chains-toggle").hidden = chains.length < 2;
  byId("chain-filter-label").hidden = chains.length < FILTER_MIN;
  nameToggle();
  filterChains();
}

function showTotals(chains) {
  const ready = chains.filter((chain) => chain.ready).length;
  const sum = (of) => chains.reduce((all, chain) => all + (of(chain) || 0), 0);
  const speed = (name) => rate(sum((chain) => ratesOf.get(chain.chainId).average(name)));
  const parts = [
    `${ready} of ${chains.length} ready`,
    counted(
      sum((chain) => chain.storage?.logs),
      "log",
    ),
    bytes(sum((chain) => chain.storage?.bytes)),
    `${speed("blocks")} blocks/s`,
    `${speed("logs")} logs/s`,
  ];
  setText(byId("totals"), chains.length === 0 ? "" : parts.join(" · "));
  setText(
    document.querySelector("title"),
    chains.length > ready ? `(${chains.length - ready} not ready) Chronolith` : "Chronolith",
  );
}

function showAttention(chains) {
  const now = new Map(chains.map((chain) => [chain.chainId, { chain, state: stateOf(chain) }]));
  const bad = [...now.values()].filter(({ state }) => state.tone !== "good");
  // Those that wait for an operator come before those that are tried again.
  bad.sort((a, b) => (b.state.tone === "bad") - (a.state.tone === "bad"));
  byId("attention").hidden = bad.length === 0;
  sync(byId("attention-list"), bad, ({ chain }) => chain.chainId, attentionItem);
  if (states !== null) {
    const changed = [...now].filter(
      ([id, { state }]) => states.get(id) !== undefined && states.get(id) !== state.word,
    );
    if (changed.length > 0)
      announce(
        changed
          .map(
            ([, { chain, state }]) => `${chain.name} is ${state.word}${state.why ? `: ${state.why}` : ""}.`,
          )
          .join(" "),
      );
  }
  states = new Map([...now].map(([id, { state }]) => [id, state.word]));
}

function attentionItem({ chain: { chainId } }) {
  const name = el("button", { type: "button", class: "link" });
  const pill = el("span", { class: "pill" });
  const box = reasonBox();
  name.addEventListener("click", () => {
    const row = rows.get(String(chainId));
    if (!row) return;
    byId("chain-filter").value = "";
    filterChains();
    row.open(true);
    nameToggle();
    row.node.scrollIntoView({ block: "start" });
    row.focus();
  });
  return {
    node: el("li", {}, el("div", { class: "who" }, name, pill), box.node),
    update({ chain, state }) {
      setText(name, chain.name);
      setText(pill, state.word);
      setAttr(pill, "data-tone", state.tone);
      box.update(state);
    },
  };
}

function showReorgs(chains) {
  const all = chains.flatMap((chain) => (chain.reorgs ?? []).map((reorg) => ({ ...reorg, chain })));
  all.sort((a, b) => b.at - a.at);
  const keyOf = ({ chain, at, from }) => `${chain.chainId}-${at}-${from.hash}`;
  byId("reorgs-none").hidden = all.length > 0;
  sync(byId("reorgs"), all.slice(0, REORGS_MAX), keyOf, reorgItem);
  const keys = new Set(all.map(keyOf));
  if (seenReorgs !== null) {
    const fresh = all.filter((reorg) => !seenReorgs.has(keyOf(reorg)));
    if (fresh.length > 0)
      announce(
        fresh
          .slice(0, 3)
          .map(
            ({ chain, depth, to }) =>
              `${chain.name}: reorg of ${counted(depth, "block")} above ${count(to.number)}.`,
          )
          .join(" "),
      );
  }
  seenReorgs = keys;
}

function reorgItem({ chain, depth, from, to, at }) {
  const age = el("time");
  const dropped = hashButton();
  setHash(dropped, from.hash);
  const node = el(
    "li",
    { "data-chain-id": chain.chainId, "data-dropped": from.hash, "data-depth": depth },
    el("p", {}, el("b", { text: chain.name }), ` ${counted(depth, "block")} replaced`, age),
    el(
      "p",
      { class: "muted" },
      `head ${count(from.number)} `,
      dropped,
      " dropped, ",
      `${count(to.number)} `,
      hashButton(to.hash),
      " stayed",
    ),
    el("p", { class: "muted", text: `${utc(at)} UTC` }),
  );
  return { node, update: () => setAge(age, at) };
}

/** The chains to choose from; what is chosen stays. */
function fillChoices(chains) {
  for (const id of ["lookup-chain", "search-chain"]) {
    sync(
      byId(id),
      chains,
      (chain) => chain.chainId,
      (chain) => ({
        node: el("option", { value: chain.chainId, text: `${chain.name} (${chain.chainId})` }),
        update: () => {},
      }),
    );
  }
}

// The list of chains, by hand.

function filterChains() {
  const wanted = byId("chain-filter").value.trim().toLowerCase();
  for (const [id, row] of rows) {
    const name = row.node.querySelector(".name").textContent.toLowerCase();
    row.node.hidden = wanted !== "" && !name.includes(wanted) && !id.startsWith(wanted);
  }
}

function nameToggle() {
  const allOpen = [...rows.values()].every((row) => row.isOpen());
  setText(byId("chains-toggle"), allOpen ? "Close all" : "Open all");
}

byId("chain-filter").addEventListener("input", filterChains);
byId("chains").addEventListener("click", nameToggle);
byId("chains-toggle").addEventListener("click", () => {
  const allOpen = [...rows.values()].every((row) => row.isOpen());
  for (const row of rows.values()) row.open(!allOpen);
  nameToggle();
});

startLookup(searchBlock);
startSearch();
startPolling("/v1/overview", show, (_error, isFirst) => {
  if (isFirst) for (const rates of ratesOf.values()) rates.gap();
});
