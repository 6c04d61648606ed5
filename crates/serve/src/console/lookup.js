// The time lookup: which block was before, after or closest to a time.

import { ApiError, curl, getJson } from "./api.js";
import { ago, byId, copy, count, counted, el, hashButton, serverNow, span, utc } from "./dom.js";

let running = null;

/** `searchBlock(chainId, number)` takes a found block to the log search. */
export function startLookup(searchBlock) {
  const time = byId("lookup-time");
  byId("lookup-picker").addEventListener("input", (event) => {
    const picked = event.target.value;
    if (picked) time.value = `${picked.length === 16 ? `${picked}:00` : picked}Z`;
  });
  byId("lookup-now").addEventListener("click", () => {
    time.value = String(Math.floor(serverNow()));
    time.focus();
  });
  byId("lookup-form").addEventListener("submit", (event) => {
    event.preventDefault();
    lookUp(searchBlock);
  });
}

async function lookUp(searchBlock) {
  running?.abort();
  const mine = (running = new AbortController());
  const result = byId("lookup-result");
  const chainId = byId("lookup-chain").value;
  const asked = byId("lookup-time").value.trim();
  const direction = byId("lookup-direction").value;
  const path = `/v1/chains/${encodeURIComponent(chainId)}/block/${direction}/${encodeURIComponent(asked)}?inclusive=${byId("lookup-inclusive").checked}`;
  result.setAttribute("aria-busy", "true");
  try {
    const found = await getJson(path, { signal: mine.signal });
    result.replaceChildren(...answer(found, { chainId, asked, direction, path, searchBlock }));
  } catch (error) {
    if (mine.signal.aborted) return;
    result.replaceChildren(errorBox(error));
  } finally {
    if (running === mine) result.setAttribute("aria-busy", "false");
  }
}

function answer(found, { chainId, asked, direction, path, searchBlock }) {
  const away = distance(asked, found.timestamp);
  const marks = [
    found.finalized ? "final" : "not final, may roll back",
    found.settled
      ? "settled: later blocks do not change this answer"
      : "not settled: a later block may change this answer",
    `served up to ${count(found.indexedUpTo)}`,
  ];
  const logs = el("button", { type: "button", class: "plain", text: "Its logs" });
  logs.addEventListener("click", () => searchBlock(chainId, found.number));
  const request = el("button", { type: "button", class: "plain", text: "Copy as curl" });
  request.addEventListener("click", () => copy(curl(path), "the request"));
  return [
    el(
      "p",
      { class: "found" },
      el("b", { "data-field": "lookup-number", "data-number": found.number, text: count(found.number) }),
      " ",
      hashButton(found.hash),
    ),
    el(
      "p",
      {},
      `${utc(found.timestamp)} UTC, ${ago(found.timestamp)}`,
      away === null ? "" : `; ${away} (${direction})`,
    ),
    el("p", { class: "muted", text: marks.join(" · ") }),
    el("div", { class: "actions" }, logs, request),
  ];
}

/** How far the block is from the time that was asked for, where this page can read that time. */
function distance(asked, timestamp) {
  const number = /^\d+$/.test(asked) ? Number(asked) : NaN;
  const seconds = Number.isNaN(number) ? Date.parse(asked) / 1000 : number >= 1e11 ? number / 1000 : number;
  if (Number.isNaN(seconds)) return null;
  const away = timestamp - seconds;
  if (Math.abs(away) < 1) return "at that time";
  return `${span(away, 2)} ${away < 0 ? "before" : "after"} that time`;
}

/** A refusal: the API's own words, its code, and what to do. */
export function errorBox(error) {
  if (!(error instanceof ApiError)) throw error;
  const code = [error.code, error.status ? `HTTP ${error.status}` : ""].filter(Boolean).join(", ");
  return el(
    "div",
    { class: "error" },
    el(
      "p",
      {},
      el("strong", { "data-field": "message", text: error.message }),
      code ? el("code", { text: code }) : null,
    ),
    el("p", { text: [reached(error.details), error.advice].filter(Boolean).join(" ") }),
  );
}

/** How far the chain has come, where the refusal says it. */
function reached({ indexedUpTo, sourceHead }) {
  if (!Number.isFinite(indexedUpTo)) return "";
  const behind = Number.isFinite(sourceHead) ? sourceHead - indexedUpTo : 0;
  return `Served up to block ${count(indexedUpTo)}${behind > 0 ? `, ${counted(behind, "block")} behind the source` : ""}.`;
}
