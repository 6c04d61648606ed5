// All chains on one screen: which need attention, how far each is, and what was reorganized lately.

import { reasonBox, severity, stateOf } from "./chain_state.js";
import { chainTable } from "./chain_table.js";
import { announce, el, setAttr, setText, sync } from "./dom.js";
import { chainPath, withQuery } from "./links.js";
import { observedOf } from "./live.js";
import { reorgItem, reorgKey, reorgWords } from "./reorgs.js";
import { rename, setTitle } from "./router.js";
import { bytes, count, counted, rate } from "./words.js";

const REORGS_MAX = 8;
/** So many chains leave room for whole reasons above the table. */
const REASONS_MAX = 10;
/** From so many on, the list can be narrowed. */
const FILTER_MIN = 4;

export function overviewPage(_params, query) {
  const totals = el("p", { class: "muted", id: "totals" });
  const attention = attentionList();
  const view = {
    sort: query.get("sort") ?? "",
    filter: query.get("filter") ?? "",
    only: query.get("show") === "attention",
  };
  const table = chainTable(view, changed);
  const filter = el("input", {
    type: "search",
    id: "chain-filter",
    placeholder: "Filter by name or id",
    "aria-label": "Filter chains by name or id",
    value: view.filter,
    spellcheck: "false",
  });
  const only = el("button", {
    type: "button",
    class: "plain",
    id: "only-attention",
    "aria-pressed": String(view.only),
    text: "Needs attention",
  });
  const tools = el("div", { class: "tools" }, only, filter);
  const none = el("p", { class: "empty panel", id: "chains-none", text: "Waiting for the first answer." });
  const reorgs = recentReorgs();
  filter.addEventListener("input", () => {
    view.filter = filter.value;
    changed();
  });
  only.addEventListener("click", () => {
    view.only = !view.only;
    setAttr(only, "aria-pressed", String(view.only));
    changed();
  });
  // Before the first answer there is nothing to sort, and nothing is known of reorgs.
  tools.hidden = true;
  reorgs.node.hidden = true;
  let told = null;

  function changed() {
    rename(
      withQuery("/", { sort: view.sort, filter: view.filter.trim(), show: view.only ? "attention" : "" }),
    );
    if (told) table.update(told);
  }

  const node = el(
    "div",
    { class: "live overview" },
    el("div", { class: "title" }, el("h1", { text: "Chains" }), totals, tools),
    attention.node,
    table.node,
    none,
    reorgs.node,
  );
  return {
    node,
    update(overview) {
      const chains = overview.chains ?? [];
      told = chains.map((chain) => ({ chain, state: stateOf(chain), observed: observedOf(chain.chainId) }));
      tools.hidden = chains.length < FILTER_MIN;
      reorgs.node.hidden = chains.length === 0;
      none.hidden = chains.length > 0;
      setText(
        none,
        "No chain is set up. Add one to the settings file; “chronolith config example” prints one.",
      );
      table.update(told);
      attention.update(told);
      reorgs.update(chains);
      showTotals(totals, told);
    },
    close: table.close,
  };
}

function showTotals(node, told) {
  const sum = (of) => told.reduce((all, one) => all + (of(one) || 0), 0);
  const ready = told.filter(({ chain }) => chain.ready).length;
  const bad = told.filter(({ state }) => state.tone !== "good").length;
  const parts = [
    `${count(ready)} of ${count(told.length)} ready`,
    counted(
      sum(({ chain }) => chain.storage?.logs),
      "log",
    ),
    bytes(sum(({ chain }) => chain.storage?.bytes)),
    `${rate(sum(({ observed }) => observed.average("blocks")))} blocks/s`,
  ];
  if (bad > 0) parts.unshift(`${counted(bad, "needs", "need")} attention`);
  setText(node, told.length === 0 ? "" : parts.join(" · "));
  setTitle(told.length > ready ? `(${told.length - ready} not ready) Overview` : "Overview");
}

/** Chains that are not well, with what to do. Of many chains the table itself has them first, with why. */
function attentionList() {
  const list = el("ul", { id: "attention-list" });
  const node = el("section", { id: "attention", "aria-label": "Needs attention", hidden: true }, list);
  let words = null;
  return {
    node,
    update(told) {
      const bad = told.filter(({ state }) => state.tone !== "good");
      bad.sort((a, b) => severity(a.state) - severity(b.state));
      node.hidden = bad.length === 0 || told.length > REASONS_MAX;
      sync(list, node.hidden ? [] : bad, ({ chain }) => chain.chainId, attentionItem);
      const now = new Map(told.map(({ chain, state }) => [chain.chainId, { name: chain.name, state }]));
      if (words !== null) sayChanges(words, now);
      words = new Map([...now].map(([id, { state }]) => [id, state.word]));
    },
  };
}

function sayChanges(words, now) {
  const changed = [...now].filter(([id, { state }]) => words.has(id) && words.get(id) !== state.word);
  const said = changed.map(
    ([, { name, state }]) => `${name} is ${state.word}${state.why ? `: ${state.why}` : ""}.`,
  );
  if (said.length > 0) announce(said.join(" "));
}

function attentionItem() {
  const name = el("a");
  const word = el("span", { class: "state" });
  const box = reasonBox();
  const node = el("li", { class: "reason" }, el("p", { class: "who" }, name, " ", word), box.node);
  return {
    node,
    update({ chain, state }) {
      setText(name, chain.name);
      setAttr(name, "href", chainPath(chain.chainId));
      setText(word, state.word);
      setAttr(word, "data-tone", state.tone);
      setAttr(node, "data-tone", state.tone);
      box.update(state);
    },
  };
}

function recentReorgs() {
  const list = el("ol", { id: "reorgs", class: "reorgs" });
  const none = el("p", { class: "muted", id: "reorgs-none", text: "None since the start." });
  const node = el(
    "section",
    { "aria-labelledby": "reorgs-title" },
    el("h2", { id: "reorgs-title", text: "Recent reorgs" }),
    none,
    list,
  );
  let seen = null;
  return {
    node,
    update(chains) {
      const all = chains.flatMap((chain) => (chain.reorgs ?? []).map((reorg) => ({ reorg, chain })));
      all.sort((a, b) => b.reorg.at - a.reorg.at);
      none.hidden = all.length > 0;
      sync(list, all.slice(0, REORGS_MAX), reorgKey, (each) => reorgItem(each, true));
      const fresh = seen === null ? [] : all.filter((each) => !seen.has(reorgKey(each)));
      if (fresh.length > 0)
        announce(
          fresh
            .slice(0, 3)
            .map(({ chain, reorg }) => `${chain.name}: ${reorgWords(reorg)}.`)
            .join(" "),
        );
      seen = new Set(all.map(reorgKey));
    },
  };
}
