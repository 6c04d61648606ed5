// The endpoints of a chain, with how many of their requests fail.

import { el, setAttr, setText, sync } from "./dom.js";
import { count, percent } from "./words.js";

/** From this share of failures on an endpoint is not well, whatever it is called. */
const WARN_SHARE = 0.05;
const BAD_SHARE = 0.5;
/** Fewer requests say little. */
const REQUESTS_MIN = 20;

const STATES = {
  well: ["healthy", "good"],
  cooling: ["backing off", "warn"],
};

/** A word and a tone. */
export function endpointState({ state, requests, failures }) {
  const [word, tone] = STATES[state] ?? [state, "warn"];
  const share = requests >= REQUESTS_MIN ? failures / requests : 0;
  if (share >= BAD_SHARE) return { word: "mostly failing", tone: "bad" };
  if (share >= WARN_SHARE && tone === "good") return { word: "failing often", tone: "warn" };
  return { word, tone };
}

const HEADS = ["Endpoint", "State", "Requests", "Failures", "Share", "Last error"];
const RIGHT = new Set([2, 3, 4]);

export function endpointTable() {
  const body = el("tbody");
  const heads = HEADS.map((text, at) =>
    el("th", { scope: "col", text, class: RIGHT.has(at) ? "right" : null }),
  );
  const table = el("table", { class: "endpoints" }, el("thead", {}, el("tr", {}, ...heads)), body);
  const none = el("p", { class: "empty", text: "None: nothing is fetched over JSON-RPC." });
  const node = el(
    "div",
    { class: "panel" },
    none,
    el("div", { class: "scroll", role: "region", "aria-label": "Endpoints" }, table),
  );
  return {
    node,
    update(endpoints) {
      none.hidden = endpoints.length > 0;
      table.hidden = endpoints.length === 0;
      sync(body, endpoints, ({ name }) => name, row);
    },
  };
}

function row() {
  const cells = HEADS.map((_, at) =>
    el("td", { class: RIGHT.has(at) ? "right" : at === 5 ? "words" : null }),
  );
  const state = el("span", { class: "state" });
  const share = el("span", { class: "toned", "data-field": "share" });
  cells[1].append(state);
  cells[4].append(share);
  return {
    node: el("tr", {}, ...cells),
    update(endpoint) {
      const { word, tone } = endpointState(endpoint);
      setText(cells[0], endpoint.name);
      setText(state, word);
      setAttr(state, "data-tone", tone);
      setText(cells[2], count(endpoint.requests));
      setText(cells[3], count(endpoint.failures));
      setText(share, endpoint.failures === 0 ? "0 %" : percent(endpoint.failures, endpoint.requests));
      setAttr(share, "data-tone", endpoint.failures === 0 || tone === "good" ? null : tone);
      setText(cells[5], endpoint.lastError ?? "none");
      cells[5].classList.toggle("muted", !endpoint.lastError);
    },
  };
}
