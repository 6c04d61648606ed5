// One projection of a chain: through which block its rows are complete, what is to come, and its jobs.

import { el, setAttr, setText, sync } from "./dom.js";
import { NONE, count, counted, percent, rate, span } from "./words.js";
import { boardTable } from "./board_tables.js";

/** A projection that is so few final blocks behind has just not been looked at. */
const FOLLOWING_MAX = 64;
/** How far back speed is measured. */
const SPEED_MS = 60_000;

const JOB_TONES = { dead: "bad", failed: "warn", processing: "good" };

/** How a projection is: a word, a tone, why, and what to do. */
export function projectionState(one) {
  if (one.pausedAt !== null) {
    const why = `${one.pausedReason ?? "no reason"}: ${one.pausedDetail ?? "no detail"}`;
    const advice =
      "Nothing is lost: rows are made from the archive once it continues. When the cause is gone:";
    return { word: "paused", tone: "bad", why, advice, commands: [one.remedy].filter(Boolean) };
  }
  if (one.deadJobs > 0) {
    const why = `${counted(one.deadJobs, "job")} failed after ten attempts.`;
    const advice = "Rows of those blocks are missing. Find and fix the cause, then retry them:";
    const dead = one.someJobs.find((job) => job.status === "dead");
    const explain = dead ? `chronolith jobs explain ${dead.id}` : "chronolith jobs list";
    return { word: "jobs failed", tone: "bad", why, advice, commands: [explain, "chronolith jobs retry"] };
  }
  if (one.lagBlocks > FOLLOWING_MAX)
    return { word: "catching up", tone: "warn", why: "", advice: "", commands: [] };
  return { word: "complete", tone: "good", why: "", advice: "", commands: [] };
}

export function projectionCard() {
  const title = el("h3");
  const pill = el("span", { class: "pill" });
  const speed = new Speed();
  const pace = el("span", { class: "muted" });
  const done = el("b", { "data-field": "complete-through" });
  const before = el("span", { class: "muted" });
  const part = el("small");
  const bar = track();
  const numbers = cardNumbers();
  const reason = el("p", { class: "reason", "data-tone": "bad" });
  const jobs = jobList();
  const node = el(
    "li",
    { class: "panel card" },
    el("div", { class: "head" }, title, pill, pace),
    reason,
    el("p", { class: "through" }, before, done, " ", part),
    bar.node,
    numbers.node,
    jobs.node,
  );
  return {
    node,
    update({ one, chain }) {
      const state = projectionState(one);
      setAttr(node, "data-projection", one.projection);
      setText(title, one.projection);
      setText(pill, state.word);
      setAttr(pill, "data-tone", state.tone);
      // What to do about it stands on top of the page.
      reason.hidden = state.why === "";
      setText(reason, state.why);
      const isBegun = one.completeThrough !== null;
      setText(before, isBegun ? "complete through " : "nothing is complete yet ");
      setText(done, isBegun ? count(one.completeThrough) : "");
      const wanted = (chain.lastSafeBlock ?? -1) - one.startBlock + 1;
      setText(part, `${percent(Math.max(0, wanted - one.lagBlocks), wanted)} of what is final`);
      const measured = speed.words(one);
      setText(pace, state.tone === "warn" ? measured : "");
      bar.update(one, chain);
      numbers.update(one);
      jobs.update(one);
    },
  };
}

/** How fast a projection catches up, and how long it will take. */
class Speed {
  seen = [];

  words({ completeThrough, lagBlocks }) {
    const at = performance.now();
    this.seen.push({ at, block: completeThrough ?? 0 });
    this.seen = this.seen.filter((one) => at - one.at < SPEED_MS);
    const [first] = this.seen;
    const speed = ((completeThrough ?? 0) - first.block) / ((at - first.at) / 1000);
    if (!(speed > 0)) return "";
    return `${rate(speed)} blocks/s, about ${span(lagBlocks / speed)} left`;
  }
}

/** From the first block that counts to the newest: what is complete, what is to come, what is not final. */
function track() {
  const parts = ["receipts", "ahead", "tail"].map((kind) => el("span", { class: `level-${kind}` }));
  const bar = el("div", { class: "bar", role: "img" }, ...parts);
  const low = el("span");
  const high = el("span");
  return {
    node: el("div", {}, bar, el("p", { class: "axis muted" }, low, high)),
    update(one, chain) {
      const end = Math.max(chain.lastSeenBlock ?? 0, chain.sourceHead ?? 0, one.startBlock) + 1;
      const safe = Math.max((chain.lastSafeBlock ?? -1) + 1, one.startBlock);
      const done = Math.max((one.completeThrough ?? -1) + 1, one.startBlock);
      const edges = [one.startBlock, done, Math.max(safe, done), end];
      const all = end - one.startBlock;
      parts.forEach((part, at) => {
        const width = ((edges[at + 1] - edges[at]) / all) * 100;
        part.style.left = `${((edges[at] - edges[0]) / all) * 100}%`;
        // One block of twenty million is seen all the same.
        part.style.width = edges[at + 1] > edges[at] ? `max(2px, ${width}%)` : "0";
      });
      setText(low, count(one.startBlock));
      setText(high, count(end - 1));
      const words = `${counted(edges[1] - edges[0], "block")} complete, ${count(edges[2] - edges[1])} final and to come, ${count(edges[3] - edges[2])} not final`;
      setAttr(bar, "aria-label", words);
      setAttr(bar, "title", words);
    },
  };
}

/** What needs a look first. A number that is 0 is named among those below. */
const NUMBERS = [
  { key: "deadJobs", name: "Jobs given up", tone: "bad", hint: "jobs that are not tried any more" },
  {
    key: "quarantined",
    name: "Logs set aside",
    tone: "warn",
    hint: "logs that could not be projected: table quarantine",
  },
  { key: "failedJobs", name: "Jobs tried again", tone: "warn", hint: "jobs that failed and are tried again" },
  { key: "lagBlocks", name: "Blocks to come", hint: "final blocks whose rows are not all there yet" },
  { key: "eventsAbout", name: "Events", hint: "events that have rows, as the database's statistics know it" },
  { key: "pendingRows", name: "Pending events", hint: "events of blocks that are not final" },
  { key: "runningJobs", name: "Jobs running", hint: "jobs in progress" },
  { key: "waitingJobs", name: "Jobs waiting", hint: "jobs that wait for a worker" },
];
/** From here on the statistics of the database are a guess. */
const GUESSED_MIN = 10_000;

function cardNumbers() {
  const list = el("dl", { class: "numbers" });
  const zeros = el("p", { class: "hint", "data-field": "zeros" });
  return {
    node: el("div", {}, list, zeros),
    update(one) {
      const known = NUMBERS.filter(({ key }) => one[key] !== null);
      sync(
        list,
        known.filter(({ key }) => one[key] !== 0).map((number) => ({ number, value: one[number.key] })),
        ({ number }) => number.key,
        numberCell,
      );
      const none = known.filter(({ key }) => one[key] === 0).map(({ name }) => name.toLowerCase());
      setText(zeros, none.length > 0 ? `None: ${none.join(", ")}.` : "");
    },
  };
}

function numberCell({ number: { key, name, tone, hint } }) {
  const value = el("b", { class: "figure" });
  const node = el(
    "div",
    { title: hint, "data-number": key, "data-tone": tone },
    el("dt", { text: name }),
    el("dd", { "data-tone": tone }, value),
  );
  return {
    node,
    update: ({ value: now }) =>
      setText(value, `${key === "eventsAbout" && now > GUESSED_MIN ? "≈ " : ""}${count(now)}`),
  };
}

/** Jobs, failed ones first; nothing where there are none. */
function jobList() {
  const list = boardTable("Jobs", ["Job", "Blocks", "Done", "State", "Tries", "Worker"], [0, 4]);
  const more = el("p", { class: "muted" });
  const node = el("div", { class: "jobs" }, list.node, more);
  return {
    node,
    update(one) {
      const shown = one.someJobs.length;
      node.hidden = shown === 0;
      list.update(one.someJobs, ({ id }) => id, jobRow);
      const rest = one.jobs + one.deadJobs - shown;
      setText(more, rest > 0 ? `And ${counted(rest, "more job")}; chronolith jobs list has them all.` : "");
    },
  };
}

function jobRow() {
  const cells = Array.from({ length: 6 }, () => el("td"));
  const fill = el("span", { class: "level-receipts" });
  const bar = el("div", { class: "bar", role: "img" }, fill);
  const state = el("span", { class: "state" });
  cells[2].append(bar);
  cells[3].append(state);
  return {
    node: el("tr", {}, ...cells),
    update(job) {
      const blocks = job.toBlock - job.fromBlock + 1;
      const done = Math.max(0, job.nextBlock - job.fromBlock);
      setText(cells[0], job.id);
      setText(cells[1], `${count(job.fromBlock)} – ${count(job.toBlock)}`);
      fill.style.width = `${(done / blocks) * 100}%`;
      setAttr(bar, "aria-label", percent(done, blocks));
      setText(state, job.status);
      setAttr(state, "data-tone", JOB_TONES[job.status] ?? null);
      setText(cells[4], count(job.attempts));
      setText(cells[5], job.lockedBy ?? (job.status === "pending" ? "waits for one" : NONE));
    },
  };
}
