// What is archived of each dataset, and how far it is proven. The overview has the blocks; the parts of a block are
// asked for while the page is open.

import { call } from "./api.js";
import { CELLS_WIDE, KIND_WORDS, coverageBar, coverageWords, legend, spansOf } from "./coverage.js";
import { el, setAttr, setText, sync } from "./dom.js";
import { isStellar } from "./links.js";
import { count, counted } from "./words.js";

const EVERY_MS = 5_000;
// More rows than this say nothing that the bar does not.
const ROWS_MAX = 100;

const DATASET_WORDS = {
  clock: "blocks: number, hash, time",
  headers: "whole headers",
  logs: "logs",
  tx_hashes: "transaction hashes",
  transactions: "whole transactions",
  payload: "raw blocks",
};

export function datasetCoverage() {
  const list = el("ul", { class: "datasets" });
  const low = el("span");
  const high = el("span");
  const colours = legend();
  const parts = el("p", { class: "hint", "data-field": "kept-parts", hidden: true });
  const summary = el("summary");
  const body = el("tbody");
  const more = el("p", { class: "muted" });
  const heads = ["From", "To", "Blocks", "How far it is known"].map((text, at) =>
    el("th", { scope: "col", text, class: at < 3 ? "right" : null }),
  );
  const table = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body);
  const intervals = el(
    "details",
    {},
    summary,
    el("div", { class: "scroll", role: "region", "aria-label": "Intervals" }, table),
    more,
  );
  const node = el(
    "div",
    { class: "panel pad" },
    list,
    el("p", { class: "axis" }, low, high),
    colours.node,
    parts,
    intervals,
  );
  const ended = new AbortController();
  let asked = -Infinity;
  let told = null;
  let shown = null;

  async function ask(path) {
    asked = performance.now();
    try {
      told = await call(path, "chronolith_getCoverage", [], { signal: ended.signal });
    } catch {
      // What the overview says is shown on; whether the server answers stands on top of the page.
    }
  }

  function fill(spans) {
    setText(summary, counted(spans.length, "interval"));
    if (!intervals.open) return;
    // Holes first where not all have room: they are what is looked for.
    const few = [...spans].sort((a, b) => (b.kind === "hole") - (a.kind === "hole")).slice(0, ROWS_MAX);
    sync(
      body,
      few.sort((a, b) => a.from - b.from),
      ({ from, kind }) => `${from}${kind}`,
      interval,
    );
    const rest = spans.length - few.length;
    setText(
      more,
      rest > 0 ? `And ${counted(rest, "more interval")}; chronolith_getCoverage has them all.` : "",
    );
  }

  intervals.addEventListener("toggle", () => shown && fill(shown));
  return {
    node,
    update(chain, path) {
      if (!isStellar(chain) && performance.now() - asked > EVERY_MS) ask(path);
      const blocks = spansOf(chain);
      const rows = (chain.datasets ?? ["clock"]).map((dataset) => {
        const own = told?.finalized?.[dataset];
        return { dataset, spans: own ? spansOf(chain, own) : blocks };
      });
      sync(list, rows, ({ dataset }) => dataset, datasetRow);
      colours.update(new Set(rows.flatMap(({ spans }) => spans.map(({ kind }) => kind))));
      setText(parts, partWords(chain));
      parts.hidden = parts.textContent === "";
      setText(low, count(blocks[0]?.from));
      setText(high, count(blocks[blocks.length - 1]?.to));
      shown = (rows.find(({ dataset }) => dataset === "logs") ?? rows[0])?.spans ?? blocks;
      fill(shown);
    },
    close: () => ended.abort(),
  };
}

/** Which part of a dataset the bars are about, where the chain keeps no more of it. */
function partWords({ datasets = [], scope = "all" }) {
  const words = [];
  if (datasets.includes("logs") && scope !== "all") words.push(`Of the logs, those of ${scope} are kept.`);
  if (datasets.includes("transactions") && !datasets.includes("tx_hashes"))
    words.push("Of the transactions, those that kept logs name are kept.");
  return words.join(" ");
}

function datasetRow({ dataset }) {
  const bar = coverageBar(CELLS_WIDE);
  const part = el("span", { class: "toned", "data-field": "coverage" });
  const name = el("span", { text: dataset, title: DATASET_WORDS[dataset] ?? dataset });
  return {
    node: el("li", { "data-dataset": dataset }, name, bar.node, part),
    update({ spans }) {
      const words = coverageWords(spans);
      bar.update(spans);
      setText(part, words.holes ? `${words.part}, ${words.holes}` : words.part);
      setAttr(part, "data-tone", words.holes ? "bad" : null);
    },
  };
}

function interval({ kind }) {
  const cells = [0, 1, 2].map(() => el("td", { class: "right" }));
  const key = el("span", { class: `key level-${kind}` });
  return {
    node: el("tr", {}, ...cells, el("td", {}, key, KIND_WORDS[kind])),
    update({ from, to }) {
      [from, to, to - from + 1].forEach((value, at) => setText(cells[at], count(value)));
    },
  };
}
