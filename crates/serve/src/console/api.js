// Asking the API, and what to do when it refuses, in words.

const TIMEOUT_MS = 30_000;

/** What the reader can do about a refusal, by its code. */
const ADVICE = {
  INVALID_TIMESTAMP: "Give seconds, milliseconds or ISO 8601, such as 1700000000 or 2023-11-14T22:13:20Z.",
  INVALID_DIRECTION: "Choose before, after or closest.",
  CHAIN_NOT_FOUND: "Choose one of the chains in the list.",
  BLOCK_NOT_FOUND: "No block lies on that side of the time. Try the other direction, or inclusive.",
  NOT_INDEXED_YET: "Ask again when the chain has come that far.",
  INVALID_FILTER: "Correct the field that the message names, and search again.",
  NOT_COVERED: "The coverage of the chain shows what is there. Search inside of it.",
  TOO_LARGE: "Search fewer blocks, or name an address or a topic.",
  CURSOR_CONFLICT: "The chain has changed under this cursor. Search again from the first page.",
};

const ADVICE_BY_STATUS = {
  429: "Too many requests at once. Try again in a moment.",
  500: "This is a fault of the server. Its log says more.",
  503: "The server is busy or not ready. Try again in a moment.",
};

/** A refusal, or no answer at all: then `status` is 0. */
export class ApiError extends Error {
  constructor(message, { status = 0, code = "", advice = "", details = {} } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.advice = advice;
    this.details = details;
  }
}

/** The JSON at a path of this server. */
export async function getJson(path, { signal, timeoutMs = TIMEOUT_MS } = {}) {
  const patience = AbortSignal.timeout(timeoutMs);
  const ends = new AbortController();
  const end = () => ends.abort();
  patience.addEventListener("abort", end);
  signal?.addEventListener("abort", end);
  try {
    const response = await fetch(path, {
      signal: ends.signal,
      cache: "no-store",
      headers: { accept: "application/json" },
    });
    return read(response, await response.text());
  } catch (error) {
    if (error instanceof ApiError || signal?.aborted) throw error;
    if (patience.aborted) {
      throw new ApiError(`The server did not answer within ${timeoutMs / 1000} s.`, {
        advice: "Ask for less, or try again.",
      });
    }
    throw new ApiError("The server does not answer.", {
      advice: "Is it running, and is the network there? Try again.",
    });
  } finally {
    patience.removeEventListener("abort", end);
    signal?.removeEventListener("abort", end);
  }
}

function read(response, text) {
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    throw new ApiError(`The server answered with something that is not JSON (HTTP ${response.status}).`, {
      status: response.status,
      advice: "Something in between may have answered instead of it.",
    });
  }
  if (response.ok) return body;
  const { code = "", message, ...details } = body?.error ?? {};
  throw new ApiError(message ?? `The server refused (HTTP ${response.status}).`, {
    status: response.status,
    code,
    advice: ADVICE[code] ?? ADVICE_BY_STATUS[response.status] ?? "",
    details,
  });
}

/** A command for a shell; JSON and user's text may hold quotes. */
export function curl(path, body) {
  const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const url = quote(new URL(path, location.origin).href);
  if (body === undefined) return `curl -s ${url}`;
  return `curl -s ${url} -H 'content-type: application/json' -d ${quote(JSON.stringify(body))}`;
}
