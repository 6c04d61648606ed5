// How a chain is: in one word, why, and what to do about it.

import { el, setText, sync } from "./dom.js";

const TRIED_AGAIN = "The node tries again by itself. If this lasts, look at the endpoints.";
const ORDER = { bad: 0, warn: 1, good: 2 };

/** Those that wait for an operator come first, then those that are tried again. */
export function severity(state) {
  return ORDER[state.tone];
}

/** How a chain is: a word, a tone, why, and what to do. */
export function stateOf(chain) {
  const halted = /^halted\b/i.test(chain.notReadyReason ?? "");
  if (!halted && /^projections:/.test(chain.notReadyReason ?? "")) return projectionsState(chain);
  if (chain.paused || halted) return stopped(chain, halted);
  const isTried = { tone: "warn", why: reasons(chain), advice: TRIED_AGAIN, commands: [] };
  if (!chain.ready) return { word: "not ready", ...isTried };
  if (chain.error) return { word: "failing", ...isTried };
  return { word: "ready", tone: "good", why: "", advice: "", commands: [] };
}

function stopped(chain, halted) {
  const why = reasons(chain);
  if (!halted) {
    const advice = "What is archived is still served. The chain continues by itself when the reason is gone.";
    return { word: "paused", tone: "bad", why, advice, commands: [] };
  }
  const advice =
    "What is archived is still served. No block is taken until an operator acts: look into the reason, with the runbook for it, and stop the program. Then resume keeps what is archived, and rewind drops what is above block N:";
  const commands = [
    `chronolith resume --chain ${chain.chainId} --reason "…"`,
    `chronolith rewind --chain ${chain.chainId} --to N --reason "…"`,
  ];
  return { word: "halted", tone: "bad", why, advice, commands };
}

/** The chain itself is well: only its rows are not what they should be. */
function projectionsState(chain) {
  const word = chain.paused ? "projection paused" : "no projections";
  const advice = chain.paused
    ? "Blocks are still taken and served. Rows of this projection wait for an operator: see Projections."
    : "Blocks are still taken and served. Rows follow by themselves when the database answers again.";
  const tone = chain.paused ? "bad" : "warn";
  return { word, tone, why: chain.notReadyReason.replace(/^projections: /, ""), advice, commands: [] };
}

/** The same reason may be told by several fields; the longest has it all. */
function reasons(chain) {
  const all = [chain.notReadyReason, chain.pausedReason, chain.error].filter(Boolean);
  const told = all.filter(
    (each, at) =>
      !all.some((other, place) => place !== at && other.includes(each) && (other !== each || place < at)),
  );
  return told.join("; ") || "no reason was given";
}

/** Why something is as it is, and what to do. */
export function reasonBox() {
  const why = el("p", { class: "why" });
  const advice = el("p", { class: "advice" });
  const commands = el("ul", { class: "commands" });
  return {
    node: el("div", {}, why, advice, commands),
    update(state) {
      // The word stands beside it already.
      setText(why, state.why.replace(/^halted: /i, ""));
      setText(advice, state.advice);
      sync(commands, state.commands, (command) => command, commandItem);
    },
  };
}

function commandItem(command) {
  const button = el("button", {
    type: "button",
    class: "hash",
    "data-copy": command,
    title: "copy",
    text: command,
  });
  return { node: el("li", {}, button), update: () => {} };
}
