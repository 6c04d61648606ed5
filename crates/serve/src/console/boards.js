// A chain's board: how far its projections are, what they wait for, and their newest rows.

import { boardTables } from "./board_tables.js";
import { severity } from "./chain_state.js";
import { el, setText, sync } from "./dom.js";
import { chainPath } from "./links.js";
import { projectionCard, projectionState } from "./projection_card.js";
import { count, counted } from "./words.js";

/** What needs attention comes first; otherwise the order stays. */
const sorted = (list, place) => [...list].sort((a, b) => place(a) - place(b));
const severityOf = (one) => severity(projectionState(one));

/** The chains, each placed by the worst of its projections. */
export function worstFirst(chains) {
  return sorted(chains, ({ projections }) => Math.min(...projections.map(severityOf)));
}

export function board(first) {
  const name = el("a", { href: chainPath(first.chainId) });
  const version = el("span", { class: "muted" });
  const facts = chainFacts();
  const projections = el("ul", { class: "projections" });
  const tables = boardTables(first.chainId);
  const node = el(
    "li",
    { class: "board", id: `chain-${first.chainId}`, "data-chain": first.chainId },
    el("h2", { tabindex: -1 }, name, " ", el("span", { class: "muted", text: first.chainId }), " ", version),
    projections,
    facts.node,
    tables.node,
  );
  return {
    node,
    update(chain) {
      setText(name, chain.name);
      setText(version, chain.version === null ? "" : `contract version ${chain.version}`);
      const cards = sorted(chain.projections, severityOf).map((one) => ({ one, chain }));
      sync(projections, cards, ({ one }) => one.projection, projectionCard);
      facts.update(chain);
      tables.update(chain);
    },
  };
}

function fact(label, ...values) {
  return el("div", {}, el("dt", { text: label }), el("dd", {}, ...values));
}

function chainFacts() {
  const safe = el("b", { "data-field": "safe" });
  const seen = el("b", { "data-field": "seen" });
  const lag = el("span", { class: "muted" });
  const source = el("b");
  const pending = el("b");
  const dropped = el("b");
  const node = el(
    "dl",
    { class: "tiles panel" },
    fact("Final through", safe),
    fact("Newest block seen", seen, lag),
    fact("Source's newest block", source),
    fact("Blocks not final", pending),
    fact("Blocks dropped", dropped),
  );
  return {
    node,
    update(chain) {
      setText(safe, count(chain.lastSafeBlock ?? NaN));
      setText(seen, count(chain.lastSeenBlock ?? NaN));
      const behind = chain.headLagBlocks;
      setText(
        lag,
        behind === null ? "" : behind === 0 ? "at the head" : `${counted(behind, "block")} behind`,
      );
      setText(source, count(chain.sourceHead ?? NaN));
      setText(pending, count(chain.pendingBlocks));
      setText(dropped, count(chain.droppedBlocks));
    },
  };
}
