// Round numbers for axes.

const TIME_STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
];

const YEAR = 31_557_600;

/** From 0 to at least `max`, in about `wanted` round steps: those of seconds, or 1, 2 and 5 × 10^n. */
export function valueTicks(max, wanted, { isTime = false, isWhole = false } = {}) {
  const top = max > 0 ? max : 1;
  const rough = Math.max(isWhole || isTime ? 1 : 0, top / wanted);
  const step = isTime ? timeStep(rough) : roundStep(rough);
  const steps = Math.max(1, Math.ceil(top / step - 1e-9));
  return Array.from({ length: steps + 1 }, (_, at) => at * step);
}

function roundStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5, 10].find((each) => each * power >= rough * (1 - 1e-9));
  return factor * power;
}

function timeStep(rough) {
  const known = TIME_STEPS.find((step) => step >= rough);
  if (known) return known;
  const unit = rough > YEAR / 4 ? YEAR : 86_400;
  return roundStep(Math.ceil(rough / unit)) * unit;
}

/** Round times between two, about `most` of them: `{ at, text }` in UTC. */
export function clockTicks(from, to, most) {
  const step = timeStep(Math.max(1, (to - from) / most));
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const iso = new Date(at * 1000).toISOString();
    const text = step >= 86_400 ? iso.slice(5, 10) : iso.slice(11, step < 60 ? 19 : 16);
    ticks.push({ at, text });
  }
  return ticks;
}
