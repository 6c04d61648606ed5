// The ranges of a chain's history: a row each. Asked for while the details of the chain are open.

import { getJson } from "./api.js";
import { NONE, count, counted, el, setAttr, setText, sync } from "./dom.js";

const EVERY_MS = 1000;
// More rows than this are for `chronolith state --ranges`.
const ROWS_MAX = 200;

const TONES = { COMPLETE: "good", TRANSITIONING: "warn", FAILED: "bad" };
const HEADS = ["Range", "Blocks", "State", "Ledgers", "Hashes", "Archived", "Transactions", "Complete"];
const RIGHT = new Set([0, 5, 6]);

/** A table of ranges, and how it is kept up to date. */
export function rangesOf() {
  const body = el("tbody");
  const heads = HEADS.map((text, at) =>
    el("th", { scope: "col", text, class: RIGHT.has(at) ? "right" : null }),
  );
  const table = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body);
  const words = el("p", { class: "muted", "data-field": "ranges-words" });
  const node = el(
    "section",
    { class: "across", "data-field": "ranges" },
    el("h4", { text: "Ranges" }),
    words,
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Ranges of history" }, table),
  );
  let asked = 0;

  function show(answer, chain) {
    const all = answer.ranges ?? [];
    const failed = all.filter((range) => range.state === "FAILED").length;
    const complete = all.filter((range) => range.state === "COMPLETE").length;
    const parts = [
      `mode ${answer.mode}`,
      `${counted(all.length, "range")} of ${count(answer.size)} blocks`,
      `${count(complete)} complete`,
    ];
    if (failed > 0) parts.push(`${count(failed)} failed`);
    if (all.length > ROWS_MAX) parts.push(`the newest ${ROWS_MAX} are shown`);
    setText(words, parts.join(" · "));
    sync(
      body,
      all.slice(-ROWS_MAX),
      ({ id }) => `${id}`,
      () => rowOf(chain),
    );
  }

  return {
    node,
    update(chain) {
      const now = performance.now();
      if (asked > 0 && now - asked < EVERY_MS) return;
      asked = now;
      getJson(`/v1/chains/${chain.chainId}/ranges`).then(
        (answer) => show(answer, chain),
        (error) => setText(words, `They cannot be shown: ${error.message}`),
      );
    },
  };
}

function rowOf(chain) {
  const cells = HEADS.map((_, at) => el("td", { class: RIGHT.has(at) ? "right" : null }));
  const pill = el("span", { class: "pill" });
  const why = el("p", { class: "why" });
  cells[2].append(pill, why);
  return {
    node: el("tr", {}, ...cells),
    update(range) {
      const all = range.to - range.from + 1;
      const part = Math.floor((range.blocks * 100) / all);
      setText(cells[0], count(range.id));
      setText(cells[1], `${count(range.from)} – ${count(range.to)}`);
      setText(pill, range.state);
      setAttr(pill, "data-tone", TONES[range.state] ?? null);
      why.hidden = !range.failure;
      setText(
        why,
        range.failure
          ? `${range.failure.phase}: ${range.failure.cause}. Mend it, then chronolith range retry --chain ${chain.chainId} ${range.id}`
          : "",
      );
      setText(cells[3], range.ledgerPhase ?? NONE);
      setText(cells[4], range.txhashPhase ?? NONE);
      setText(cells[5], `${count(range.blocks)} (${part}%)`);
      setText(cells[6], range.transactions === null ? NONE : count(range.transactions));
      setText(cells[7], range.completedAt ?? NONE);
    },
  };
}
