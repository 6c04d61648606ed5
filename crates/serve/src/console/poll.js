// Asking again each second, while the page is looked at.

import { getJson } from "./api.js";

const POLL_MS = 1_000;
const POLL_TIMEOUT_MS = 8_000;

/**
 * Asks for a path each second. `answered(answer)` gets what came, `failed(error)` why nothing did. Returns a function
 * that ends it.
 */
export function startPolling(path, answered, failed) {
  let polling = false;
  let nextPoll = 0;
  const ended = new AbortController();

  async function poll() {
    if (polling || ended.signal.aborted) return;
    polling = true;
    clearTimeout(nextPoll);
    const began = performance.now();
    const asked = await getJson(path, { timeoutMs: POLL_TIMEOUT_MS, signal: ended.signal }).then(
      (answer) => ({ answer }),
      (error) => ({ error }),
    );
    polling = false;
    if (ended.signal.aborted) return;
    // A hidden page asks for nothing.
    if (!document.hidden) nextPoll = setTimeout(poll, Math.max(100, POLL_MS - (performance.now() - began)));
    if (asked.error) failed(asked.error);
    else answered(asked.answer);
  }

  function looked() {
    if (!document.hidden) poll();
  }

  document.addEventListener("visibilitychange", looked);
  poll();
  return () => {
    ended.abort();
    clearTimeout(nextPoll);
    document.removeEventListener("visibilitychange", looked);
  };
}
