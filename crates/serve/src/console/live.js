// What is known of all chains right now: the overview, asked for each second on every page, and what was observed
// since this page was loaded.

import { connected, disconnected, startConnection } from "./connection.js";
import { Observed } from "./observed.js";
import { startPolling } from "./poll.js";
import { namesOf } from "./query.js";
import { setServerNow, tickAges } from "./words.js";

let overview = null;
const observed = new Map();
const listeners = new Set();

/** The chains of the last answer; none before the first. */
export function chains() {
  return overview?.chains ?? [];
}

export function hasAnswered() {
  return overview !== null;
}

/** A chain by id or name, as an address may name it. */
export function chainNamed(text) {
  const wanted = String(text).toLowerCase();
  const all = chains();
  return (
    all.find((chain) => String(chain.chainId) === wanted) ??
    all.find((chain) => namesOf(chain).includes(wanted))
  );
}

export function observedOf(chainId) {
  return observed.get(String(chainId)) ?? new Observed();
}

/** Calls with every answer, and with the last one at once. Returns a function that ends it. */
export function listen(listener) {
  listeners.add(listener);
  if (overview !== null) listener(overview);
  return () => listeners.delete(listener);
}

export function startLive() {
  startConnection();
  startPolling(
    "/v1/overview",
    (answer) => {
      connected();
      arrived(answer);
    },
    (error) => {
      disconnected(error);
      for (const each of observed.values()) each.gap();
    },
  );
}

function arrived(answer) {
  overview = answer;
  setServerNow(answer.now);
  const at = performance.now();
  for (const chain of chains()) {
    const id = String(chain.chainId);
    if (!observed.has(id)) observed.set(id, new Observed());
    observed.get(id).push(at, answer.now, chain);
  }
  for (const listener of listeners) listener(answer);
  tickAges();
}
