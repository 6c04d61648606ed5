// A chart over time with axes: seconds since 1970 to the right in UTC, values from 0 up with round ticks.

import { el, setText, svg } from "./dom.js";
import { clockTicks, valueTicks } from "./ticks.js";
import { utc } from "./words.js";

const HEIGHT = 160;
const LEFT = 66;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 22;
/** Pixels between two times, so that they do not touch. */
const TICK_WIDTH = 84;

/**
 * `title`, `unit` and `say(value)` are for people; `kind` is `line`, or `stems` for events. `isTime` and `isWhole`
 * choose the ticks. `update({ points: [{ at, value }], from, to })`: a null value is a gap.
 */
export function timeChart({ title, unit, say, kind = "line", isTime = false, isWhole = false }) {
  const now = el("b", { class: "figure", "data-field": "now" });
  const peak = el("span", { class: "muted", "data-field": "peak" });
  const caption = el("figcaption", {}, el("span", { text: title }), now, peak);
  const drawing = svg("svg", { class: "chart", role: "img", height: HEIGHT });
  const tip = el("p", { class: "tip", hidden: true });
  const node = el("figure", { class: "figure-chart" }, caption, el("div", { class: "plot" }, drawing, tip));
  let shown = null;
  let width = 0;

  new ResizeObserver(([entry]) => {
    width = Math.floor(entry.contentRect.width);
    if (shown) draw();
  }).observe(drawing);
  drawing.addEventListener("pointermove", point);
  drawing.addEventListener("pointerleave", () => {
    tip.hidden = true;
    drawing.querySelector(".cross")?.remove();
  });

  const x = (at) => LEFT + ((at - shown.from) / Math.max(1, shown.to - shown.from)) * (width - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - (value / shown.top) * (HEIGHT - TOP - BOTTOM);
  const clamp = (at) => Math.min(width - 26, Math.max(LEFT + 4, at));

  function draw() {
    if (width < LEFT + RIGHT + 40) return;
    const rows = shown.ticks.flatMap((value) => [
      svg("line", {
        class: value === 0 ? "base" : "grid",
        x1: LEFT,
        x2: width - RIGHT,
        y1: y(value),
        y2: y(value),
      }),
      svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end", text: say(value) }),
    ]);
    const times = clockTicks(shown.from, shown.to, Math.max(2, Math.floor((width - LEFT) / TICK_WIDTH)));
    const columns = times.flatMap(({ at, text }) => [
      svg("line", { class: "grid", x1: x(at), x2: x(at), y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 4 }),
      svg("text", { x: clamp(x(at)), y: HEIGHT - 5, "text-anchor": "middle", text }),
    ]);
    drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    drawing.replaceChildren(...rows, ...columns, ...(kind === "line" ? lines() : stems()));
  }

  function lines() {
    let stroke = "";
    let area = "";
    let first = null;
    let last = null;
    const close = () => {
      if (first !== null) area += `L${last} ${y(0)}L${first} ${y(0)}Z`;
      first = null;
    };
    for (const { at, value } of shown.points) {
      if (value === null) {
        close();
        continue;
      }
      const place = x(at).toFixed(1);
      const piece = `${first === null ? "M" : "L"}${place} ${y(value).toFixed(1)}`;
      stroke += piece;
      area += piece;
      if (first === null) first = place;
      last = place;
    }
    close();
    return [svg("path", { class: "area", d: area }), svg("path", { class: "stroke", d: stroke })];
  }

  function stems() {
    return shown.points.flatMap(({ at, value }) => [
      svg("line", { class: "stem", x1: x(at), x2: x(at), y1: y(0), y2: y(value) }),
      svg("circle", { class: "head", cx: x(at), cy: y(value), r: 3.5 }),
    ]);
  }

  function point(event) {
    const known = shown?.points.filter(({ value }) => value !== null) ?? [];
    if (known.length === 0) return;
    const left = event.clientX - drawing.getBoundingClientRect().left;
    const far = (one) => Math.abs(x(one.at) - left);
    const nearest = known.reduce((best, one) => (far(one) < far(best) ? one : best));
    drawing.querySelector(".cross")?.remove();
    const place = x(nearest.at);
    drawing.append(
      svg(
        "g",
        { class: "cross" },
        svg("line", { x1: place, x2: place, y1: TOP, y2: HEIGHT - BOTTOM }),
        svg("circle", { cx: place, cy: y(nearest.value), r: 3 }),
      ),
    );
    setText(tip, `${say(nearest.value)} ${unit} at ${utc(nearest.at).slice(11)} UTC`);
    tip.hidden = false;
    tip.style.left = `${Math.max(0, Math.min(place, width - 190))}px`;
  }

  return {
    node,
    update({ points, from, to }) {
      const known = points.filter(({ value }) => value !== null);
      const most = known.reduce((max, { value }) => Math.max(max, value), 0);
      const ticks = valueTicks(most, 4, { isTime, isWhole });
      shown = { points, from, to, ticks, top: ticks[ticks.length - 1] };
      const last = points[points.length - 1];
      const value = last && last.value !== null ? `${say(last.value)} ${unit}`.trim() : "unknown";
      setText(now, kind === "line" ? value : String(known.length));
      const highest = known.length > 0 ? `peak ${say(most)} ${unit}`.trim() : "";
      setText(peak, highest);
      drawing.setAttribute("aria-label", `${title}, ${utc(from)} to ${utc(to)} UTC: ${highest || "nothing"}`);
      draw();
    },
  };
}
