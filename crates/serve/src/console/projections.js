// The page of projections: asks how they do each second and shows it. It only reads; what changes something is a
// command to copy.

import { board, worstFirst } from "./boards.js";
import { reasonBox } from "./chain_state.js";
import { announce, el, setAttr, setText, sync } from "./dom.js";
import { errorBox } from "./refusal.js";
import { startPolling } from "./poll.js";
import { projectionState } from "./projection_card.js";
import { howToTurnOn } from "./projections_off.js";
import { setTitle } from "./router.js";
import { counted, serverNow, span, utc } from "./words.js";

const LEGEND = [
  ["receipts", "complete and confirmed"],
  ["ahead", "final, rows still to come"],
  ["tail", "not final yet, rows pending"],
];

export function projectionsPage() {
  const asOf = el("p", { class: "muted", id: "as-of" });
  const away = el("section", { id: "away", "aria-labelledby": "away-title", hidden: true });
  const awayWords = el("strong", { id: "away-words" });
  away.append(el("h2", { id: "away-title", text: "The database does not answer" }), awayBox(awayWords));
  const failure = el("div", { id: "failure" });
  const attention = el("ul", { id: "attention-list" });
  const attends = el(
    "section",
    { id: "attention", "aria-label": "Needs attention", hidden: true },
    attention,
  );
  const off = howToTurnOn();
  const none = el("p", {
    id: "none",
    class: "empty panel",
    hidden: true,
    text: "Nothing is written down in the database yet. A node that runs with these settings does it as soon as it reaches the database.",
  });
  const colours = LEGEND.map(([kind, words]) =>
    el("li", {}, el("span", { class: `key level-${kind}` }), words),
  );
  const legend = el(
    "ul",
    { class: "legend", id: "legend", "aria-label": "Colours of progress", hidden: true },
    ...colours,
  );
  const boards = el("ul", { id: "boards" });
  const node = el(
    "div",
    { class: "live" },
    el("div", { class: "title" }, el("h1", { text: "Projections" }), asOf),
    away,
    failure,
    attends,
    off,
    none,
    legend,
    boards,
  );
  let states = null;

  function show(told) {
    away.hidden = true;
    failure.replaceChildren();
    off.hidden = told.enabled;
    legend.hidden = !told.enabled || told.chains.length === 0;
    none.hidden = !told.enabled || told.chains.length > 0;
    setText(asOf, told.enabled ? `as of ${utc(told.asOf)} UTC` : "");
    const chains = worstFirst(told.chains);
    sync(boards, chains, ({ chainId }) => chainId, board);
    showAttention(chains);
  }

  function showAttention(chains) {
    const now = all(chains);
    const bad = now.filter(({ state }) => state.tone === "bad");
    attends.hidden = bad.length === 0;
    sync(attention, bad, ({ key }) => key, attentionItem);
    setTitle(bad.length > 0 ? `(${counted(bad.length, "waits", "wait")}) Projections` : "Projections");
    if (states !== null) {
      const changed = now.filter(({ key, state }) => states.has(key) && states.get(key) !== state.word);
      const words = changed.map(({ chain, one, state }) => `${chain.name}: ${one.projection} ${state.word}.`);
      if (words.length > 0) announce(words.join(" "));
    }
    states = new Map(now.map(({ key, state }) => [key, state.word]));
  }

  function failed(error) {
    const isAway = error.code === "DATABASE_UNAVAILABLE";
    away.hidden = !isAway;
    // That the server itself does not answer stands on top of the page.
    failure.replaceChildren(...(isAway || error.status === 0 ? [] : [errorBox(error)]));
    if (!isAway) return;
    const { since } = error.details;
    setText(awayWords, `Since ${utc(since)} UTC, for ${span(Math.max(0, serverNow() - since), 2)}.`);
    setAttr(boards, "data-stale", true);
  }

  const stop = startPolling(
    "/v1/projections",
    (told) => {
      setAttr(boards, "data-stale", null);
      show(told);
    },
    failed,
  );
  return { node, title: "Projections", close: stop };
}

/** Every projection of every chain, with how it is. */
function all(chains) {
  return chains.flatMap((chain) =>
    chain.projections.map((one) => ({
      key: `${chain.chainId}-${one.projection}`,
      chain,
      one,
      state: projectionState(one),
    })),
  );
}

function attentionItem({ chain, one }) {
  const word = el("span", { class: "state" });
  const box = reasonBox();
  const to = el("a", { href: `#chain-${chain.chainId}`, text: `${chain.name}, ${one.projection}` });
  const node = el("li", { class: "reason" }, el("p", { class: "who" }, to, " ", word), box.node);
  return {
    node,
    update({ state }) {
      setText(word, state.word);
      setAttr(word, "data-tone", state.tone);
      setAttr(node, "data-tone", state.tone);
      box.update(state);
    },
  };
}

function awayBox(words) {
  return el(
    "div",
    { class: "error" },
    el(
      "p",
      {},
      words,
      " See that PostgreSQL runs, and that ",
      el("code", { text: "PG_READONLY_URL" }),
      " or ",
      el("code", { text: "PG_URL" }),
      " leads to it.",
    ),
    el("p", {
      text: "Blocks are still taken and served, and nothing is lost: rows are made from the archive as soon as the database is back. What is shown below is what it said last.",
    }),
  );
}
