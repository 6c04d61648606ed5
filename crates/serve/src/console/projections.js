// The page of projections: asks how they do each second and shows it. It only reads; what changes
// something is a command to copy.

import { board, stateOf } from "./boards.js";
import { reasonBox } from "./chains.js";
import {
  announce,
  byId,
  counted,
  el,
  setAttr,
  setServerNow,
  setText,
  span,
  sync,
  tickAges,
  utc,
} from "./dom.js";
import { startPolling } from "./poll.js";

let states = null;

function show(told) {
  setServerNow(told.asOf);
  byId("away").hidden = true;
  byId("off").hidden = told.enabled;
  byId("legend").hidden = !told.enabled || told.chains.length === 0;
  byId("none").hidden = !told.enabled || told.chains.length > 0;
  setText(byId("as-of"), `As of ${utc(told.asOf)}.`);
  sync(
    byId("boards"),
    told.chains,
    (chain) => chain.chainId,
    (chain) => board(chain),
  );
  showAttention(told.chains);
  tickAges();
}

/** Every projection of every chain, with how it is. */
function all(chains) {
  return chains.flatMap((chain) =>
    chain.projections.map((one) => ({
      key: `${chain.chainId}-${one.projection}`,
      chain,
      one,
      state: stateOf(one),
    })),
  );
}

function showAttention(chains) {
  const now = all(chains);
  const bad = now.filter(({ state }) => state.tone === "bad");
  byId("attention").hidden = bad.length === 0;
  sync(byId("attention-list"), bad, ({ key }) => key, attentionItem);
  setText(
    document.querySelector("title"),
    bad.length > 0
      ? `(${counted(bad.length, "waits", "wait")}) Projections · Chronolith`
      : "Projections · Chronolith",
  );
  if (states !== null) {
    const changed = now.filter(({ key, state }) => states.has(key) && states.get(key) !== state.word);
    const words = changed.map(({ chain, one, state }) => `${chain.name}: ${one.projection} ${state.word}.`);
    if (words.length > 0) announce(words.join(" "));
  }
  states = new Map(now.map(({ key, state }) => [key, state.word]));
}

function attentionItem({ chain, one }) {
  const pill = el("span", { class: "pill" });
  const box = reasonBox();
  const to = el("a", { href: `#chain-${chain.chainId}`, text: `${chain.name}, ${one.projection}` });
  return {
    node: el("li", {}, el("div", { class: "who" }, to, pill), box.node),
    update({ state }) {
      setText(pill, state.word);
      setAttr(pill, "data-tone", state.tone);
      box.update(state);
    },
  };
}

function lost(error) {
  const isAway = error.code === "DATABASE_UNAVAILABLE";
  byId("away").hidden = !isAway;
  if (!isAway) return undefined;
  const { since } = error.details;
  const seconds = Math.max(0, Date.now() / 1000 - since);
  setText(byId("away-words"), `Since ${utc(since)} UTC, for ${span(seconds, 2)}.`);
  return "The database does not answer.";
}

startPolling("/v1/projections", show, lost);
