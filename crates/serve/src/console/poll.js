// Asking again each second, and saying whether that works.

import { getJson } from "./api.js";
import { announce, byId, setAttr, setText, span, tickAges } from "./dom.js";

const POLL_MS = 1_000;
const POLL_TIMEOUT_MS = 8_000;

/**
 * Shows what is at a path, each second. `lost(error, isFirst)` is called for every answer that fails, and may
 * say it in fewer words.
 */
export function startPolling(path, show, lost = () => {}) {
  let polling = false;
  let nextPoll = 0;
  let answeredAt = null;

  async function poll() {
    if (polling) return;
    polling = true;
    clearTimeout(nextPoll);
    const began = performance.now();
    try {
      const answer = await getJson(path, { timeoutMs: POLL_TIMEOUT_MS });
      show(answer);
      connected();
    } catch (error) {
      disconnected(error);
    } finally {
      polling = false;
      nextPoll = setTimeout(poll, Math.max(100, POLL_MS - (performance.now() - began)));
    }
  }

  function connected() {
    const wasLost = byId("connection").dataset.state === "lost";
    answeredAt = performance.now();
    setAttr(byId("connection"), "data-state", "live");
    setAttr(document.body, "data-stale", null);
    setText(byId("connection-words"), "Live");
    if (wasLost) announce("The server answers again.");
  }

  function disconnected(error) {
    const wasLost = byId("connection").dataset.state === "lost";
    const brief = lost(error, !wasLost) ?? error.message;
    setAttr(byId("connection"), "data-state", "lost");
    setAttr(document.body, "data-stale", true);
    const since =
      answeredAt === null ? "" : ` What is shown is ${span((performance.now() - answeredAt) / 1000)} old.`;
    // The server's own words have no full stop.
    const said = brief.replace(/[^.!?]$/, "$&.");
    setText(byId("connection-words"), `${said} Trying again each second.${since}`);
    if (!wasLost) announce(`${said} Trying again each second.`);
  }

  document.addEventListener("visibilitychange", () => {
    // A hidden page is slowed down by the browser; one that is looked at again should not wait.
    if (!document.hidden) poll();
  });
  setInterval(tickAges, POLL_MS);
  poll();
}
