// Why there is no answer: the API's words, its code, and what to do next.

import { ApiError } from "./api.js";
import { el } from "./dom.js";
import { count, counted } from "./words.js";

/** `retry(from, to)` gives the address of a search over blocks that the refusal names as working. */
export function errorBox(error, { retry } = {}) {
  if (!(error instanceof ApiError)) throw error;
  const code = [error.code, error.status ? `HTTP ${error.status}` : ""].filter(Boolean).join(", ");
  const { covered, retryRange, requestId } = error.details;
  const range = retryRange ?? covered;
  const again =
    retry && Array.isArray(range)
      ? el(
          "p",
          {},
          el("a", {
            href: retry(range[0], range[1]),
            text: `Search blocks ${count(range[0])} to ${count(range[1])}`,
          }),
        )
      : null;
  return el(
    "div",
    { class: "error", role: "alert" },
    el(
      "p",
      {},
      el("strong", { "data-field": "message", text: sentence(error.message) }),
      code ? el("code", { text: code }) : null,
    ),
    el("p", { text: [reached(error.details), error.advice].filter(Boolean).join(" ") }),
    again,
    requestId ? el("p", { class: "hint", text: `Request ${requestId}` }) : null,
  );
}

/** Messages of the API begin small. */
function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A message and what to do next. Messages of the API end without a full stop, those of the page with one. */
function withAdvice({ message, advice }) {
  const words = sentence(message);
  return [/[.!?]$/.test(words) ? words : `${words}.`, advice].filter(Boolean).join(" ");
}

/** How far the chain has come, where the refusal says it. */
function reached({ indexedUpTo, sourceHead }) {
  if (!Number.isFinite(indexedUpTo)) return "";
  const behind = Number.isFinite(sourceHead) ? sourceHead - indexedUpTo : 0;
  return `Served up to block ${count(indexedUpTo)}${behind > 0 ? `, ${counted(behind, "block")} behind the source` : ""}.`;
}

/**
 * A refusal in a few words, for a list of many chains. That something is not known here is not that it does not
 * exist.
 */
export function refusalWords(error) {
  if (!(error instanceof ApiError)) throw error;
  switch (error.code) {
    case "BLOCK_NOT_FOUND":
    case "TRANSACTION_NOT_FOUND":
      return { word: "does not exist", why: "", tone: null };
    case "NOT_INDEXED_YET":
    case "NOT_COVERED":
      return { word: "not known here", why: sentence(error.message), tone: "warn" };
    default:
      return {
        word: error.status === 0 ? "no answer" : "refused",
        why: withAdvice(error),
        tone: "warn",
      };
  }
}
