// Coverage as a bar, ingest as a line; and the rates behind the line.

import { count, counted, el, percent, setAttr, setText } from "./dom.js";

// Worse kinds hide better ones in the same cell, so that one missing block of twenty million is seen.
const KINDS = ["ahead", "roots", "receipts", "bloom", "linked", "claimed", "tail", "hole"];
/** How many cells a bar has: two or three pixels each, so that one of them can be seen. */
export const CELLS_ROW = 100;
export const CELLS_DETAILS = 400;

/**
 * What is where, from the first block that is wanted to the newest that is known: spans
 * `{from, to, kind}` without gaps, both ends included.
 */
export function spansOf(chain) {
  const covered = [...(chain.coverage ?? [])].sort((a, b) => a.from - b.from);
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

/** How much is there, in words. */
export function coverageWords(spans) {
  const sizeOf = ({ from, to }) => to - from + 1;
  const isWanted = (each) =>
    each.kind !== "tail" && !(each.kind === "ahead" && sizeOf(each) <= FOLLOWING_MAX);
  const archived = spans.filter(({ kind }) => !["hole", "tail", "ahead"].includes(kind));
  const holes = spans.filter(({ kind }) => kind === "hole");
  const sum = (list) => list.reduce((all, each) => all + sizeOf(each), 0);
  const part = percent(sum(archived), sum(spans.filter(isWanted)));
  const missing = sum(holes);
  return {
    part: archived.length === 0 ? "nothing archived" : part,
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
        words.holes ? `${words.part} archived, ${words.holes} missing` : `${words.part}, no holes`,
      );
      const key = runs.map((run) => `${run.start}${run.kind}`).join();
      if (key === drawn) return;
      drawn = key;
      node.replaceChildren(
        ...runs.map(({ start, cells, kind }) => {
          const part = el("span", { class: `level-${kind}` });
          part.style.left = `${(start / size) * 100}%`;
          part.style.width = `${(cells / size) * 100}%`;
          return part;
        }),
      );
    },
  };
}

// Rates.

const POINTS = 120;
const AVERAGED_MS = 10_000;

/** Differences of counters between polls. A restart or a pause of the answers leaves a gap. */
export class Rates {
  constructor() {
    this.samples = [];
    this.points = [];
  }

  /** `at` is a monotonic time in milliseconds. */
  push(at, { blocks, logs }) {
    const last = this.samples[this.samples.length - 1];
    if (last) {
      const seconds = (at - last.at) / 1000;
      const restarted = blocks < last.blocks || logs < last.logs;
      if (restarted) this.samples.length = 0;
      const known = !restarted && seconds > 0;
      this.add(
        known ? { blocks: (blocks - last.blocks) / seconds, logs: (logs - last.logs) / seconds } : null,
      );
    }
    this.samples.push({ at, blocks, logs });
    while (this.samples.length > 2 && at - this.samples[0].at > AVERAGED_MS) this.samples.shift();
  }

  /** No answer came: what happened meanwhile has no place on the line. */
  gap() {
    if (this.points.length > 0) this.add(null);
    this.samples.length = 0;
  }

  add(point) {
    this.points.push(point);
    if (this.points.length > POINTS) this.points.shift();
  }

  /** Over the last seconds; `NaN` before there are two samples. */
  average(name) {
    const first = this.samples[0];
    const last = this.samples[this.samples.length - 1];
    if (!first || first === last) return NaN;
    return (last[name] - first[name]) / ((last.at - first.at) / 1000);
  }

  max(name) {
    return this.points.reduce((max, point) => Math.max(max, point ? point[name] : 0), 0);
  }
}

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 100;

/** A line over the last two minutes; its greatest value is its top. */
export function line(name, label) {
  const svg = document.createElementNS(SVG, "svg");
  setAttr(svg, "viewBox", `0 0 ${POINTS - 1} ${HEIGHT}`);
  setAttr(svg, "preserveAspectRatio", "none");
  setAttr(svg, "role", "img");
  setAttr(svg, "class", "line");
  const area = document.createElementNS(SVG, "path");
  setAttr(area, "class", "area");
  const stroke = document.createElementNS(SVG, "path");
  setAttr(stroke, "class", "stroke");
  svg.append(area, stroke);
  return {
    node: svg,
    update(rates) {
      const max = rates.max(name) || 1;
      const first = POINTS - rates.points.length;
      let under = "";
      let path = "";
      let from = null;
      const close = (x) => {
        if (from !== null) under += `L${x} ${HEIGHT}L${from} ${HEIGHT}Z`;
        from = null;
      };
      rates.points.forEach((point, index) => {
        const x = first + index;
        if (point === null) {
          close(x - 1);
          return;
        }
        const y = (HEIGHT - 3 - (point[name] / max) * (HEIGHT - 8)).toFixed(1);
        under += `${from === null ? "M" : "L"}${x} ${y}`;
        path += `${from === null ? "M" : "L"}${x} ${y}`;
        if (from === null) from = x;
      });
      close(POINTS - 1);
      setAttr(area, "d", under);
      setAttr(stroke, "d", path);
      setAttr(svg, "aria-label", `${label} over the last two minutes, at most ${count(rates.max(name))}`);
    },
  };
}

/** A line with its name, its value now and its greatest value. */
export function chart(name, label, say) {
  const value = el("b");
  const max = el("span", { class: "muted" });
  const drawing = line(name, label);
  const node = el("figure", { class: "chart" }, el("figcaption", {}, value, ` ${label}`, max), drawing.node);
  return {
    node,
    update(rates) {
      setText(value, say(rates.average(name)));
      setText(max, rates.points.length === 0 ? "" : `most ${say(rates.max(name))}`);
      drawing.update(rates);
    },
  };
}
