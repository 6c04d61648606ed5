// Lag, ingest and reorgs of a chain over time. The server remembers a day; where it does not, what this page saw
// since it was loaded is shown.

import { ApiError, getJson } from "./api.js";
import { el, setText, sync } from "./dom.js";
import { timeChart } from "./time_chart.js";
import { count, rate, serverNow, span } from "./words.js";

const EVERY_MS = 10_000;
/** The least that an axis spans, in seconds. */
const SPAN_MIN = 60;
const WINDOWS = [
  ["15 min", 900],
  ["1 h", 3_600],
  ["6 h", 21_600],
  ["24 h", 86_400],
];
/** Samples further apart than this many of their steps leave a gap. */
const GAP_STEPS = 3;

export function chainHistory() {
  const lag = timeChart({
    title: "Lag behind the clock",
    unit: "",
    say: (value) => span(value, 2),
    isTime: true,
  });
  const ingest = timeChart({ title: "Ingest", unit: "blocks/s", say: rate });
  const depth = timeChart({ title: "Reorgs", unit: "deep", say: count, kind: "stems", isWhole: true });
  const source = el("p", { class: "hint" });
  const choices = el("div", { class: "choices", role: "group", "aria-label": "Time shown" });
  const charts = el("div", { class: "charts" }, lag.node, ingest.node, depth.node);
  const node = el("div", { class: "panel pad" }, choices, charts, source);
  const ended = new AbortController();
  let asked = -Infinity;
  let samples = null;
  let chosen = 3_600;
  let redraw = () => {};

  sync(
    choices,
    WINDOWS,
    ([text]) => text,
    ([text, seconds]) => {
      const button = el("button", {
        type: "button",
        class: "plain",
        text,
        "aria-pressed": String(seconds === chosen),
      });
      button.addEventListener("click", () => {
        chosen = seconds;
        for (const each of choices.children) each.setAttribute("aria-pressed", String(each === button));
        redraw();
      });
      return { node: button, update: () => {} };
    },
  );

  async function ask(chainId) {
    asked = performance.now();
    try {
      const told = await getJson(`/v1/chains/${encodeURIComponent(chainId)}/history`, {
        signal: ended.signal,
      });
      samples = told.samples;
    } catch (error) {
      // An older server has no such route: it is not asked again.
      if (error instanceof ApiError && error.status === 404) asked = Infinity;
    }
  }

  return {
    node,
    update(chain, observed) {
      if (performance.now() - asked > EVERY_MS) ask(chain.chainId);
      redraw = () => {
        const all = samples === null ? observed.samples : joined(samples, observed.samples);
        const to = serverNow();
        const first = all[0]?.at ?? to;
        const from = Math.min(to - SPAN_MIN, Math.max(first, to - chosen));
        const shown = all.filter(({ at }) => at >= from);
        lag.update({
          points: withGaps(shown.map(({ at, lagSeconds }) => ({ at, value: lagSeconds }))),
          from,
          to,
        });
        ingest.update({ points: withGaps(rates(shown)), from, to });
        const reorgs = (chain.reorgs ?? [])
          .filter(({ at }) => at >= from)
          .map(({ at, depth: value }) => ({ at, value }));
        depth.update({ points: reorgs.sort((a, b) => a.at - b.at), from, to });
        setText(
          source,
          samples === null
            ? "Seen by this page since it was loaded."
            : "Since the node was started, at most 24 h.",
        );
      };
      redraw();
    },
    close: () => ended.abort(),
  };
}

/** The server's samples, and after its last one what was seen since. */
function joined(samples, observed) {
  const last = samples[samples.length - 1]?.at ?? -Infinity;
  return [...samples, ...observed.filter(({ at }) => at > last)];
}

/** Blocks a second between samples; a restart begins anew. */
function rates(samples) {
  return samples.slice(1).map(({ at, blocks }, place) => {
    const before = samples[place];
    const seconds = at - before.at;
    return { at, value: blocks < before.blocks || seconds <= 0 ? null : (blocks - before.blocks) / seconds };
  });
}

/** A line does not go over what nobody saw. */
function withGaps(points) {
  return points.flatMap((point, place) => {
    const [before, earlier] = [points[place - 1], points[place - 2]];
    if (!before || !earlier) return [point];
    const usual = Math.max(before.at - earlier.at, 10);
    const isGap = point.at - before.at > GAP_STEPS * usual && point.at - before.at > 400;
    return isGap ? [{ at: before.at + 1, value: null }, point] : [point];
  });
}
