// A chain's board: each of its projections with how far it is, its jobs, who may write, versions, and the
// newest rows.

import {
  NONE,
  count,
  counted,
  el,
  hashButton,
  percent,
  rate,
  setAge,
  setAttr,
  setHash,
  setText,
  span,
  sync,
} from "./dom.js";

/** How long a lock holds without a sign of life, in seconds. */
const LOCK_SECONDS = 15;
/** A projection that is so few final blocks behind has just not been looked at. */
const FOLLOWING_MAX = 64;
/** How far back speed is measured. */
const SPEED_MS = 60_000;

const LOCK_WORDS = {
  writer: "writes rows of the newest blocks",
  finality: "confirms and drops",
  backfill: "hands out history",
};

const JOB_TONES = { dead: "bad", failed: "warn", processing: "good" };
const STATUS_TONES = { confirmed: "good", dropped: "warn" };

/** How a projection is: a word, a tone, why, and what to do. */
export function stateOf(one) {
  if (one.pausedAt !== null) {
    const why = `${one.pausedReason ?? "no reason"}: ${one.pausedDetail ?? "no detail"}`;
    const advice = "Nothing is lost: rows are made from the archive once it continues. When the cause is gone:";
    return { word: "paused", tone: "bad", why, advice, commands: [one.remedy].filter(Boolean) };
  }
  if (one.deadJobs > 0) {
    const why = `${counted(one.deadJobs, "job", "jobs")} failed after ten attempts.`;
    const advice = "Rows of those blocks are missing. Find and fix the cause, then retry them:";
    const dead = one.someJobs.find((job) => job.status === "dead");
    const explain = dead ? `chronolith jobs explain ${dead.id}` : "chronolith jobs list";
    return { word: "jobs failed", tone: "bad", why, advice, commands: [explain, "chronolith jobs retry"] };
  }
  if (one.lagBlocks > FOLLOWING_MAX)
    return { word: "catching up", tone: "warn", why: "", advice: "", commands: [] };
  return { word: "complete", tone: "good", why: "", advice: "", commands: [] };
}

function fact(label, value, more) {
  const dt = el("dt", { text: label });
  return el("div", {}, dt, el("dd", {}, value, ...(more ? [more] : [])));
}

/** The board of one chain. */
export function board(first) {
  const name = el("span");
  const version = el("span", { class: "muted" });
  const facts = chainFacts();
  const projections = el("ul", { class: "projections" });
  const locks = table("Locks", ["Lock", "Holder", "Held for", "Renewed"], [2, 3]);
  const versions = table(
    "Versions of the contract",
    ["Version", "Implementation", "From block", "Named by"],
    [2],
  );
  const fees = table(
    "Newest fee events",
    ["Block", "Age", "Event", "Token", "Party", "Amount", "Status"],
    [0, 1, 5],
  );
  const feeds = table(
    "Feeds, newest values",
    ["Feed", "Stride", "Value", "Block", "Age", "Ring"],
    [1, 3, 4, 5],
  );
  const node = el(
    "li",
    { class: "board", id: `chain-${first.chainId}`, "data-chain": first.chainId },
    el("h2", { tabindex: -1 }, name, " ", el("span", { class: "muted", text: first.chainId }), " ", version),
    facts.node,
    projections,
    el("div", { class: "tables" }, locks.node, versions.node, feeds.node, fees.node),
  );
  return {
    node,
    update(chain) {
      setText(name, chain.name);
      setText(version, chain.version === null ? "" : `contract version ${chain.version}`);
      facts.update(chain);
      sync(
        projections,
        chain.projections.map((one) => ({ one, chain })),
        ({ one }) => one.projection,
        () => card(),
      );
      locks.update(chain.locks, ({ type }) => type, lockRow);
      versions.update(chain.versions, (each) => `${each.implementation}${each.activatedBlock}`, versionRow);
      fees.update(
        chain.recentFees,
        (fee) => `${fee.txHash}${fee.logIndex}-${fee.position}-${fee.blockNumber}`,
        feeRow,
      );
      feeds.update(chain.latestFeeds, (feed) => `${feed.feedId}${feed.stride}`, feedRow);
    },
  };
}

function chainFacts() {
  const source = el("b");
  const seen = el("b", { "data-field": "seen" });
  const lag = el("small");
  const safe = el("b", { "data-field": "safe" });
  const pending = el("b");
  const dropped = el("b");
  const node = el(
    "dl",
    { class: "facts panel" },
    fact("Source's newest block", source),
    fact("Newest block seen", seen, lag),
    fact("Final through", safe),
    fact("Blocks in doubt", pending),
    fact("Blocks dropped", dropped),
  );
  return {
    node,
    update(chain) {
      setText(source, count(chain.sourceHead ?? NaN));
      setText(seen, count(chain.lastSeenBlock ?? NaN));
      const behind = chain.headLagBlocks;
      setText(
        lag,
        behind === null ? "" : behind === 0 ? "at the head" : `${counted(behind, "block")} behind`,
      );
      setText(safe, count(chain.lastSafeBlock ?? NaN));
      setText(pending, count(chain.pendingBlocks));
      setText(dropped, count(chain.droppedBlocks));
    },
  };
}

/** A projection of a chain. */
function card() {
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
      const state = stateOf(one);
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

function cardNumbers() {
  const names = ["To come", "Events", "Pending", "Waiting", "Running", "Failed", "Given up", "Quarantine"];
  const hints = [
    "final blocks whose rows are not all there yet",
    "events that have rows, as the database's statistics know it",
    "events of blocks that are not final",
    "jobs that wait for a worker",
    "jobs in progress",
    "jobs that failed and are tried again",
    "jobs that are not tried any more",
    "logs that could not be projected: table quarantine",
  ];
  const values = names.map(() => el("b"));
  const cells = names.map((name, at) => {
    const cell = fact(name, values[at]);
    setAttr(cell, "title", hints[at]);
    return cell;
  });
  return {
    node: el("dl", { class: "numbers" }, ...cells),
    update(one) {
      const told = [
        count(one.lagBlocks),
        one.eventsAbout === null ? NONE : `${one.eventsAbout > 10_000 ? "≈ " : ""}${count(one.eventsAbout)}`,
        count(one.pendingRows),
        count(one.waitingJobs),
        count(one.runningJobs),
        count(one.failedJobs),
        count(one.deadJobs),
        count(one.quarantined),
      ];
      told.forEach((text, at) => setText(values[at], text));
      setAttr(cells[5], "data-tone", one.failedJobs > 0 ? "warn" : null);
      setAttr(cells[6], "data-tone", one.deadJobs > 0 ? "bad" : null);
      setAttr(cells[7], "data-tone", one.quarantined > 0 ? "warn" : null);
    },
  };
}

/** Jobs, failed ones first; nothing where there are none. */
function jobList() {
  const list = table("Jobs", ["Job", "Blocks", "Done", "State", "Tries", "Worker"], [0, 4]);
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
  const pill = el("span", { class: "pill" });
  cells[2].append(bar);
  cells[3].append(pill);
  return {
    node: el("tr", {}, ...cells),
    update(job) {
      const blocks = job.toBlock - job.fromBlock + 1;
      const done = Math.max(0, job.nextBlock - job.fromBlock);
      setText(cells[0], job.id);
      setText(cells[1], `${count(job.fromBlock)} – ${count(job.toBlock)}`);
      fill.style.width = `${(done / blocks) * 100}%`;
      setAttr(bar, "aria-label", percent(done, blocks));
      setText(pill, job.status);
      setAttr(pill, "data-tone", JOB_TONES[job.status] ?? null);
      setText(cells[4], count(job.attempts));
      setText(cells[5], job.lockedBy ?? (job.status === "pending" ? "waits for one" : NONE));
    },
  };
}

/** A titled table that is not there while it is empty. */
function table(title, heads, right) {
  const isRight = new Set(right);
  const columns = heads.map((text, at) =>
    el("th", { scope: "col", text, class: isRight.has(at) ? "right" : null }),
  );
  const body = el("tbody");
  const node = el(
    "section",
    {},
    el("h4", { text: title }),
    el(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
      el("table", {}, el("thead", {}, el("tr", {}, ...columns)), body),
    ),
  );
  return {
    node,
    update(items, keyOf, row) {
      node.hidden = items.length === 0;
      const made = (item) => {
        const view = row(item);
        [...view.node.cells].forEach((cell, at) => cell.classList.toggle("right", isRight.has(at)));
        return view;
      };
      sync(body, items, keyOf, made);
    },
  };
}

function lockRow({ type }) {
  const holder = el("td");
  const held = el("td");
  const renewed = el("td");
  const words = el("small", { text: LOCK_WORDS[type] ?? "" });
  return {
    node: el(
      "tr",
      { "data-lock": type },
      el("td", {}, el("b", { text: type }), " ", words),
      holder,
      held,
      renewed,
    ),
    update(lock) {
      const isHeld = lock.holder !== null;
      const isLate = isHeld && lock.renewedSeconds > LOCK_SECONDS;
      setText(holder, lock.holder ?? "not held");
      setText(held, isHeld ? span(lock.ageSeconds, 2) : NONE);
      setText(
        renewed,
        isHeld ? `${span(lock.renewedSeconds)} ago${isLate ? ", others may take it" : ""}` : NONE,
      );
      setAttr(renewed, "data-tone", isLate ? "warn" : null);
    },
  };
}

function versionRow({ implementation }) {
  const cells = [0, 1, 2].map(() => el("td"));
  return {
    node: el("tr", {}, cells[0], el("td", {}, hashButton(implementation)), cells[1], cells[2]),
    update(each) {
      setText(cells[0], each.version);
      setText(cells[1], each.activatedBlock === null ? "not seen yet" : count(each.activatedBlock));
      setText(cells[2], each.operator ?? "settings");
    },
  };
}

const NATIVE = /^0x0{40}$/;

function feeRow(fee) {
  const age = el("time");
  const pill = el("span", { class: "pill" });
  const amount = fee.amount === null ? NONE : BigInt(fee.amount).toLocaleString("en-US");
  const token = NATIVE.test(fee.token) ? el("span", { text: "native" }) : hashButton(fee.token);
  const block = el("button", {
    type: "button",
    class: "hash",
    "data-copy": fee.txHash,
    title: `copy ${fee.txHash}`,
  });
  setText(block, count(fee.blockNumber));
  return {
    node: el(
      "tr",
      {},
      el("td", {}, block),
      el("td", {}, age),
      el("td", { text: fee.event }),
      el("td", {}, token),
      el("td", {}, fee.party === null ? NONE : hashButton(fee.party)),
      el("td", { class: "amount", text: amount, title: fee.amount }),
      el("td", {}, pill),
    ),
    update(now) {
      setAge(age, now.timestamp);
      setText(pill, now.status);
      setAttr(pill, "data-tone", STATUS_TONES[now.status] ?? null);
    },
  };
}

function feedRow(feed) {
  const value = hashButton();
  const block = el("td");
  const age = el("time");
  const ring = el("td");
  return {
    node: el(
      "tr",
      {},
      el("td", {}, hashButton(feed.feedId)),
      el("td", { text: feed.stride }),
      el("td", {}, value),
      block,
      el("td", {}, age),
      ring,
    ),
    update(now) {
      setHash(value, now.data);
      setText(block, count(now.blockNumber));
      setAge(age, now.timestamp);
      setText(ring, count(now.rbIndex));
    },
  };
}
