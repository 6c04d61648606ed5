// Samples of a chain as points of a line: joined, as rates, and with gaps where nothing is known. Nothing here touches
// the page.

/** Seconds between samples of the last hour, and between older ones, as `/v1/chains/{id}/history` has them. */
const STEP = 10;
const COARSE_STEP = 300;
const FINE = 3_600;
/** Samples further apart than this many of their steps leave a gap. */
const GAP_STEPS = 3;

/** The server's samples, and after its last one what was seen since. */
export function joined(samples, observed) {
  const last = samples[samples.length - 1]?.at ?? -Infinity;
  return [...samples, ...observed.filter(({ at }) => at > last)];
}

/** Blocks a second between samples; a restart begins anew. */
export function rates(samples) {
  return samples.slice(1).map(({ at, blocks }, place) => {
    const before = samples[place];
    const seconds = at - before.at;
    return { at, value: blocks < before.blocks || seconds <= 0 ? null : (blocks - before.blocks) / seconds };
  });
}

/** A line does not go over times without samples: a point without a value ends it. */
export function withGaps(points, now) {
  return points.flatMap((point, place) => {
    const before = points[place - 1];
    if (!before) return [point];
    const step = now - before.at > FINE ? COARSE_STEP : STEP;
    const isGap = point.at - before.at > GAP_STEPS * step;
    return isGap ? [{ at: before.at + 1, value: null }, point] : [point];
  });
}
