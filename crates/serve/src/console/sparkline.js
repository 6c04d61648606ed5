// A small line without axes: what was observed lately fills its width, its peak is its top.

import { setAttr, svg } from "./dom.js";
import { counted, rate } from "./words.js";

const WIDTH = 100;
const HEIGHT = 20;

export function sparkline(name, unit) {
  const area = svg("path", { class: "area" });
  const stroke = svg("path", { class: "stroke" });
  const node = svg(
    "svg",
    { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
    area,
    stroke,
  );
  return {
    node,
    update(observed) {
      const { points } = observed;
      const peak = observed.peak(name);
      const step = WIDTH / Math.max(1, points.length - 1);
      let line = "";
      let under = "";
      let from = null;
      const close = (x) => {
        if (from !== null) under += `L${x} ${HEIGHT}L${from} ${HEIGHT}Z`;
        from = null;
      };
      points.forEach((point, at) => {
        const x = (at * step).toFixed(1);
        if (point === null) {
          close(((at - 1) * step).toFixed(1));
          return;
        }
        const y = (HEIGHT - 1 - (peak > 0 ? (point[name] / peak) * (HEIGHT - 3) : 0)).toFixed(1);
        const piece = `${from === null ? "M" : "L"}${x} ${y}`;
        line += piece;
        under += piece;
        if (from === null) from = x;
      });
      close(WIDTH);
      setAttr(area, "d", under);
      setAttr(stroke, "d", line);
      const words = `${unit} over the last ${counted(points.length, "second")}, peak ${rate(peak)}`;
      setAttr(node, "aria-label", words);
    },
  };
}
