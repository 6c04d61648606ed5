// Whether what is shown is live: a dot at the top, and a line below it while the server does not answer.

import { announce, byId, setAttr, setText } from "./dom.js";
import { span, tickAges } from "./words.js";

const TICK_MS = 1_000;

let answeredAt = null;
let isLost = false;

/** Ages continue while the server does not answer. */
export function startConnection() {
  setInterval(tickAges, TICK_MS);
}

export function connected() {
  answeredAt = performance.now();
  setAttr(byId("connection"), "data-state", "live");
  setAttr(document.body, "data-stale", null);
  setText(byId("connection-words"), "Live");
  byId("stale").hidden = true;
  if (isLost) announce("The server answers again.");
  isLost = false;
}

export function disconnected(error) {
  setAttr(byId("connection"), "data-state", "lost");
  setAttr(document.body, "data-stale", true);
  setText(byId("connection-words"), "Stale");
  const age =
    answeredAt === null ? "" : ` What is shown is ${span((performance.now() - answeredAt) / 1000)} old.`;
  const isKeyless = error.code === "UNAUTHORIZED";
  // The server's own words have no full stop, and tell of headers.
  const words = isKeyless ? `This node answers only callers with an API key. ${error.advice}` : error.message;
  const said = `${words.replace(/[^.!?]$/, "$&.")}${isKeyless ? "" : " Trying again each second."}`;
  setText(byId("stale-words"), `${said}${age}`);
  byId("stale").hidden = false;
  byId("key-form").hidden = !isKeyless;
  if (!isLost) announce(said);
  isLost = true;
}
