// What is archived of a chain, and how far it is proven: as a bar and in words.

import { el, setAttr } from "./dom.js";
import { counted, percent } from "./words.js";

// Worse kinds hide better ones in the same cell, so that one missing block of twenty million is seen.
const KINDS = ["ahead", "roots", "receipts", "bloom", "linked", "claimed", "tail", "hole"];
/** How many cells a bar has: two or three pixels each, so that one of them can be seen. */
export const CELLS_ROW = 60;
export const CELLS_WIDE = 400;

export const KIND_WORDS = {
  roots: "proven by receipts and transactions",
  receipts: "proven by receipts",
  bloom: "proven by bloom",
  linked: "proven by links alone",
  claimed: "one source's word",
  tail: "tail, not final",
  hole: "missing",
  ahead: "not fetched yet",
};

/**
 * What is where, from the first block that is wanted to the newest that is known: spans
 * `{from, to, kind}` without gaps, both ends included. `coverage` are the archived intervals.
 */
export function spansOf(chain, coverage = chain.coverage ?? []) {
  const covered = [...coverage].sort((a, b) => a.from - b.from);
  const spans = [];
  let next = Math.min(chain.startBlock ?? 0, covered[0]?.from ?? Infinity);
  for (const { from, to, level } of covered) {
    if (from > next) spans.push({ from: next, to: from - 1, kind: "hole" });
    spans.push({ from, to, kind: KINDS.includes(level) ? level : "claimed" });
    next = to + 1;
  }
  const served = chain.head?.number ?? -1;
  const tail = Math.min(chain.tailBlocks ?? 0, served + 1);
  const tailFrom = Math.max(next, served - tail + 1);
  if (tail > 0 && served >= next) {
    if (tailFrom > next) spans.push({ from: next, to: tailFrom - 1, kind: "ahead" });
    spans.push({ from: tailFrom, to: served, kind: "tail" });
    next = served + 1;
  }
  const newest = Math.max(served, chain.sourceHead ?? -1);
  if (newest >= next) spans.push({ from: next, to: newest, kind: "ahead" });
  return spans;
}

/** Neighbouring cells of one kind: `{start, cells, kind}`. Bounded, however many spans there are. */
function runsOf(spans, size) {
  if (spans.length === 0) return [];
  const low = spans[0].from;
  const blocks = spans[spans.length - 1].to - low + 1;
  const cells = new Array(size).fill(0);
  for (const { from, to, kind } of spans) {
    const rank = KINDS.indexOf(kind);
    const first = Math.floor(((from - low) / blocks) * size);
    const last = Math.min(size, Math.ceil(((to + 1 - low) / blocks) * size)) - 1;
    for (let cell = first; cell <= last; cell += 1) cells[cell] = Math.max(cells[cell], rank);
  }
  const runs = [];
  cells.forEach((rank, cell) => {
    const run = runs[runs.length - 1];
    if (run && run.rank === rank) run.cells += 1;
    else runs.push({ start: cell, cells: 1, rank });
  });
  return runs.map(({ start, cells: width, rank }) => ({ start, cells: width, kind: KINDS[rank] }));
}

// A chain that follows its source is a few blocks behind at most times, and complete all the same.
const FOLLOWING_MAX = 64;

/** How much is there, in words, and as a share from 0 to 1. */
export function coverageWords(spans) {
  const sizeOf = ({ from, to }) => to - from + 1;
  const isWanted = (each) =>
    each.kind !== "tail" && !(each.kind === "ahead" && sizeOf(each) <= FOLLOWING_MAX);
  const archived = spans.filter(({ kind }) => !["hole", "tail", "ahead"].includes(kind));
  const holes = spans.filter(({ kind }) => kind === "hole");
  const sum = (list) => list.reduce((all, each) => all + sizeOf(each), 0);
  const [there, wanted, missing] = [sum(archived), sum(spans.filter(isWanted)), sum(holes)];
  return {
    part: archived.length === 0 ? "nothing yet" : percent(there, wanted),
    share: wanted > 0 ? there / wanted : 0,
    missing,
    holes: holes.length === 0 ? "" : `${counted(holes.length, "hole")}, ${counted(missing, "block")}`,
  };
}

export function coverageBar(size) {
  const node = el("div", { class: "bar", role: "img" });
  let drawn = "";
  return {
    node,
    update(spans) {
      const runs = runsOf(spans, size);
      const words = coverageWords(spans);
      setAttr(
        node,
        "aria-label",
        words.holes ? `${words.part} archived, ${words.holes} missing` : `${words.part} archived, no holes`,
      );
      const key = runs.map((run) => `${run.start}${run.kind}`).join();
      if (key === drawn) return;
      drawn = key;
      node.replaceChildren(
        ...runs.map(({ start, cells, kind }) => {
          const part = el("span", { class: `level-${kind}`, title: KIND_WORDS[kind] });
          part.style.left = `${(start / size) * 100}%`;
          part.style.width = `${(cells / size) * 100}%`;
          return part;
        }),
      );
    },
  };
}

/** What the colours mean: only those that are on the page. */
export function legend() {
  const node = el("ul", { class: "legend", "aria-label": "Colours of coverage" });
  let shown = "";
  return {
    node,
    update(kinds) {
      const list = Object.keys(KIND_WORDS).filter((kind) => kinds.has(kind));
      if (list.join() === shown) return;
      shown = list.join();
      node.replaceChildren(
        ...list.map((kind) => el("li", {}, el("span", { class: `key level-${kind}` }), KIND_WORDS[kind])),
      );
    },
  };
}
