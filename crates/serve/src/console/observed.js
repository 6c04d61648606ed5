// What this page saw of a chain: rates of the last two minutes, and its lag since the page was loaded.

const POINTS = 120;
const AVERAGED_MS = 10_000;
/** Seconds between samples of the lag, and how many are kept: two hours. */
const SAMPLE_STEP = 2;
const SAMPLES = 3_600;

/** Differences of counters between answers. A restart or a pause of the answers leaves a gap. */
export class Observed {
  counters = [];
  points = [];
  samples = [];

  /** `at` is a monotonic time in milliseconds, `now` the server's clock in seconds. */
  push(at, now, chain) {
    this.#rate(at, chain.ingested ?? { blocks: 0, logs: 0 });
    const last = this.samples[this.samples.length - 1];
    if (last && now >= last.at && now - last.at < SAMPLE_STEP) return;
    const head = chain.head;
    this.samples.push({
      at: now,
      head: head?.number ?? null,
      lagSeconds: head ? Math.max(0, now - head.timestamp) : null,
      blocks: chain.ingested?.blocks ?? 0,
    });
    if (this.samples.length > SAMPLES) this.samples.shift();
  }

  #rate(at, { blocks, logs }) {
    const last = this.counters[this.counters.length - 1];
    if (last) {
      const seconds = (at - last.at) / 1000;
      const restarted = blocks < last.blocks || logs < last.logs;
      if (restarted) this.counters.length = 0;
      const known = !restarted && seconds > 0;
      this.#add(
        known ? { blocks: (blocks - last.blocks) / seconds, logs: (logs - last.logs) / seconds } : null,
      );
    }
    this.counters.push({ at, blocks, logs });
    while (this.counters.length > 2 && at - this.counters[0].at > AVERAGED_MS) this.counters.shift();
  }

  /** No answer came: what happened meanwhile has no place on the line. */
  gap() {
    if (this.counters.length > 0 && this.points.length > 0) this.#add(null);
    this.counters.length = 0;
  }

  #add(point) {
    this.points.push(point);
    if (this.points.length > POINTS) this.points.shift();
  }

  /** Over the last seconds; `NaN` before there are two samples. */
  average(name) {
    const first = this.counters[0];
    const last = this.counters[this.counters.length - 1];
    if (!first || first === last) return NaN;
    return (last[name] - first[name]) / ((last.at - first.at) / 1000);
  }

  peak(name) {
    return this.points.reduce((max, point) => Math.max(max, point ? point[name] : 0), 0);
  }
}
