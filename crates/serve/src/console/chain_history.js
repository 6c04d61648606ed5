// Lag, ingest and reorgs of a chain over time. The server remembers a day; where it does not, what this page saw
// since it was loaded is shown.

import { ApiError, getJson } from "./api.js";
import { el, setText, sync } from "./dom.js";
import { joined, rates, withGaps } from "./samples.js";
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
          points: withGaps(
            shown.map(({ at, lagSeconds }) => ({ at, value: lagSeconds })),
            to,
          ),
          from,
          to,
        });
        ingest.update({ points: withGaps(rates(shown), to), from, to });
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
