// The ranges of a chain's history, folded away: how the archive is cut into pieces matters to operators alone.
// Asked for while they are open.

import { getJson } from "./api.js";
import { el, setAttr, setText, sync } from "./dom.js";
import { isStellar } from "./links.js";
import { NONE, count, counted, percent, utc } from "./words.js";

const EVERY_MS = 2_000;
// More rows than this are for `chronolith state --ranges`.
const ROWS_MAX = 200;

const TONES = { COMPLETE: "good", TRANSITIONING: "warn", FAILED: "bad" };
const HEADS = ["Range", "Blocks", "State", "Data", "Hashes", "Archived", "Transactions", "Complete since"];
const RIGHT = new Set([0, 5, 6]);

/** `INGESTING` is `ingesting`: nothing on the page is as loud as that. */
function quiet(word) {
  return word ? word.toLowerCase().replaceAll("_", " ") : NONE;
}

export function rangeList() {
  const body = el("tbody");
  const heads = HEADS.map((text, at) =>
    el("th", { scope: "col", text, class: RIGHT.has(at) ? "right" : null }),
  );
  const table = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body);
  const words = el("p", { class: "hint", "data-field": "ranges-words" });
  const scroll = el("div", { class: "scroll", role: "region", "aria-label": "Ranges of history" }, table);
  const whole = el(
    "details",
    { class: "folded", "data-field": "ranges" },
    el("summary", { text: "Ranges of the archive" }),
    words,
    el("div", { class: "panel" }, scroll),
  );
  const ended = new AbortController();
  let asked = -Infinity;
  let chain = null;

  async function ask() {
    if (!chain || !whole.open || performance.now() - asked < EVERY_MS) return;
    asked = performance.now();
    try {
      show(
        await getJson(`/v1/chains/${encodeURIComponent(chain.chainId)}/ranges`, { signal: ended.signal }),
        chain,
      );
    } catch (error) {
      if (!ended.signal.aborted) setText(words, `They cannot be shown: ${error.message}`);
    }
  }

  function show(answer, of) {
    const all = answer.ranges ?? [];
    const counts = (state) => all.filter((range) => range.state === state).length;
    const parts = [
      `mode ${answer.mode}`,
      `${counted(all.length, "range")} of ${count(answer.size)} blocks`,
      `${count(counts("COMPLETE"))} complete`,
    ];
    if (counts("FAILED") > 0) parts.push(`${count(counts("FAILED"))} failed`);
    if (all.length > ROWS_MAX) parts.push(`the newest ${ROWS_MAX} are shown`);
    setText(words, parts.join(" · "));
    setText(heads[3], isStellar(of) ? "Ledgers" : "Blocks kept");
    sync(
      body,
      all.slice(-ROWS_MAX),
      ({ id }) => id,
      () => row(of),
    );
  }

  whole.addEventListener("toggle", () => {
    asked = -Infinity;
    ask();
  });
  return {
    node: whole,
    update(now) {
      chain = now;
      ask();
    },
    close: () => ended.abort(),
  };
}

function row(chain) {
  const cells = HEADS.map((_, at) => el("td", { class: RIGHT.has(at) ? "right" : null }));
  const state = el("span", { class: "state" });
  const why = el("p", { class: "why" });
  cells[2].append(state, why);
  return {
    node: el("tr", {}, ...cells),
    update(range) {
      // The last range goes on beyond the newest block: that is no lack.
      const known = Math.min(range.to, Math.max(chain.head?.number ?? range.to, range.from));
      setText(cells[0], count(range.id));
      setText(cells[1], `${count(range.from)} – ${count(range.to)}`);
      setText(state, quiet(range.state));
      setAttr(state, "data-tone", TONES[range.state] ?? null);
      why.hidden = !range.failure;
      setText(
        why,
        range.failure
          ? `${range.failure.phase}: ${range.failure.cause}. When that is repaired: chronolith range retry --chain ${chain.chainId} ${range.id}`
          : "",
      );
      setText(cells[3], quiet(range.ledgerPhase));
      setText(cells[4], quiet(range.txhashPhase));
      setText(cells[5], count(range.blocks));
      setAttr(
        cells[5],
        "title",
        `${percent(range.blocks, known - range.from + 1)} of the blocks that there are`,
      );
      setText(cells[6], range.transactions === null ? NONE : count(range.transactions));
      setText(cells[7], range.completedTimestamp === null ? NONE : utc(range.completedTimestamp));
    },
  };
}
