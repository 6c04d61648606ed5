// Asking the API, and what to do when it refuses, in words.

const TIMEOUT_MS = 30_000;

/** What the reader can do about a refusal, by its code. */
const ADVICE = {
  INVALID_TIMESTAMP: "Give seconds, milliseconds or ISO 8601, such as 1700000000 or 2023-11-14T22:13:20Z.",
  INVALID_DIRECTION: "Choose before, after or closest.",
  INVALID_PARAMETER: "Correct the value that the message names.",
  CHAIN_NOT_FOUND: "Choose one of the chains of the overview.",
  BLOCK_NOT_FOUND: "Check the number, the hash or the time, and the chain.",
  TRANSACTION_NOT_FOUND: "Check the hash and the chain.",
  NOT_INDEXED_YET: "Newer blocks may have it. Try again when the chain has come that far.",
  INVALID_FILTER: "Correct the field that the message names, and search again.",
  NOT_COVERED: "The page of the chain shows what is archived.",
  TOO_LARGE: "Search fewer blocks, or name an address or a topic.",
  CURSOR_CONFLICT: "The chain has changed under this page of the search. Search again from the first page.",
  DATABASE_UNAVAILABLE: "See that PostgreSQL runs and can be reached. This page tries again by itself.",
  UNAUTHORIZED: "Give the key that the operator of this node gave you.",
  RATE_LIMITED: "This is more than the limit allows. Try again in a moment.",
  NOT_READY: "The node has only begun. Try again in a moment.",
};

const ADVICE_BY_STATUS = {
  429: "Too many requests at once. Try again in a moment.",
  500: "This is a fault of the server. Its log says more.",
  503: "The server is busy or not ready. Try again in a moment.",
};

/** The tab keeps the reader's API key until it is closed. */
const KEY = "chronolith-api-key";

/** Sends this API key along from now on; an empty one none. */
export function useKey(key) {
  if (key === "") sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, key);
}

/** Whether a key is sent along: a link that the browser follows by itself sends none. */
export function hasKey() {
  return Boolean(sessionStorage.getItem(KEY));
}

function headersOf(body) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  const key = sessionStorage.getItem(KEY);
  if (key) headers["x-api-key"] = key;
  return headers;
}

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

/** The JSON at a path of this server. `body` makes it a POST. */
export function getJson(path, options = {}) {
  return answerOf(path, options, async (response) => read(response, await response.text()));
}

/** The bytes at a path of this server, whatever they are. */
export function getBlob(path, options = {}) {
  return answerOf(path, options, async (response) =>
    response.ok ? response.blob() : read(response, await response.text()),
  );
}

/** What `take` makes of the answer, or why there is none. */
async function answerOf(path, { signal, timeoutMs = TIMEOUT_MS, body }, take) {
  const patience = AbortSignal.timeout(timeoutMs);
  const ends = new AbortController();
  const end = () => ends.abort();
  patience.addEventListener("abort", end);
  signal?.addEventListener("abort", end);
  if (signal?.aborted) end();
  const headers = headersOf(body);
  try {
    const response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: ends.signal,
      cache: "no-store",
      headers,
    });
    return await take(response);
  } catch (error) {
    if (error instanceof ApiError || signal?.aborted) throw error;
    if (patience.aborted) {
      throw new ApiError(`The server did not answer within ${timeoutMs / 1000} s.`, {
        advice: "Ask for less, or try again.",
      });
    }
    throw new ApiError("The server does not answer.", {
      advice: "See that it runs and that the network is there, then try again.",
    });
  } finally {
    patience.removeEventListener("abort", end);
    signal?.removeEventListener("abort", end);
  }
}

/** The result of a JSON-RPC call. */
export async function call(path, method, params, options = {}) {
  const answer = await getJson(path, { ...options, body: { jsonrpc: "2.0", id: 1, method, params } });
  if (!answer.error) return answer.result;
  const { message, code, data } = answer.error;
  throw new ApiError(message, { status: 200, code: String(code), details: data ?? {} });
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
  const { code, message, details } = refusalIn(body);
  throw new ApiError(message ?? `The server refused (HTTP ${response.status}).`, {
    status: response.status,
    code,
    advice: ADVICE[code] ?? ADVICE_BY_STATUS[response.status] ?? "",
    details,
  });
}

/**
 * Code, message and details of a refusal: problem details, or, on routes that keep the form of their first clients, an
 * object as `error`, or there a text alone.
 */
export function refusalIn(body) {
  const { error, code, detail, title, ...details } = body ?? {};
  if (code !== undefined || detail !== undefined) return { code: code ?? "", message: detail ?? title, details };
  if (typeof error === "string") return { code: "", message: error, details };
  const { code: kind = "", message, ...more } = error ?? {};
  return { code: kind, message: message ?? title, details: more };
}

const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** A command that saves what is at a path. The caller's key stays out of it: a shell has it as `API_KEY`. */
export function curlToFile(path, name) {
  const url = quote(new URL(path, location.origin).href);
  return `curl -fS ${url} -H "x-api-key: $API_KEY" -o ${quote(name)}`;
}

/** A command for a shell; JSON and user's text may hold quotes. */
export function curl(path, body) {
  const url = quote(new URL(path, location.origin).href);
  if (body === undefined) return `curl -s ${url}`;
  return `curl -s ${url} -H 'content-type: application/json' -d ${quote(JSON.stringify(body))}`;
}
