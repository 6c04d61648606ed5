// What a text in the search box may mean. It only looks at the text and the list of chains, and asks nobody.

const HASH = /^(0x)?[0-9a-f]{64}$/i;
const ADDRESS = /^(0x)?[0-9a-f]{40}$/i;
const HEX_NUMBER = /^0x[0-9a-f]{1,13}$/i;
const NUMBER = /^\d{1,3}([,_ ]\d{3})+$|^\d{1,15}$/;
const ISO = /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?\s?(Z|[+-]\d{2}:?\d{2})?$/i;
const TAGS = new Set(["latest", "finalized", "safe", "earliest"]);
/** From here on a number is more likely a time: September 2001, and as milliseconds 1973. */
const SECONDS_MIN = 1e9;
const MILLIS_MIN = 1e11;
/** The year 2286: a larger number of seconds is no time that one looks for. */
const SECONDS_MAX = 1e10;

const withPrefix = (hex) => (/^0x/i.test(hex) ? hex : `0x${hex}`).toLowerCase();

/** A time in seconds; `NaN` where it is none. Without a zone it is UTC. */
export function secondsOf(text) {
  const given = text.trim();
  if (/^\d+$/.test(given)) return Number(given) >= MILLIS_MIN ? Number(given) / 1000 : Number(given);
  if (!ISO.test(given)) return NaN;
  return Date.parse(isoOf(given)) / 1000;
}

/** A date as the API takes it: with seconds and with a zone. */
export function isoOf(text) {
  const joined = text
    .trim()
    .replace(/^(\d{4}-\d{2}-\d{2}) (?=\d)/, "$1T")
    .replace(/\s/g, "");
  const isZoned = !joined.includes("T") || /(Z|[+-]\d{2}:?\d{2})$/i.test(joined);
  const date = new Date(isZoned ? joined : `${joined}Z`);
  return Number.isNaN(date.getTime()) ? joined : date.toISOString().replace(".000Z", "Z");
}

export function isTime(text) {
  return ISO.test(text.trim()) && !Number.isNaN(secondsOf(text));
}

/**
 * What a text may be, the likeliest first: `{ kind, ... }` of `hash`, `address`, `block`, `time` or `chain`. With a
 * chain's name before it, only that chain is meant: then each has `chain`.
 */
export function meanings(text, chains) {
  const given = text.trim();
  if (given === "") return [];
  const words = given.split(/\s+/);
  // A chain's name may have several words.
  for (let taken = words.length - 1; taken > 0; taken -= 1) {
    const scope = exactly(words.slice(0, taken).join(" "), chains);
    const inside = scope ? plain(words.slice(taken).join(" ")) : [];
    if (inside.length > 0) return inside.map((meaning) => ({ ...meaning, chain: scope }));
  }
  const named = chainsLike(given, chains).map((chain) => ({ kind: "chain", chain }));
  const found = plain(given);
  // A number is more often a block than the id of a chain, unless it is exactly that.
  return exactly(given, chains) ? [...named, ...found] : [...found, ...named];
}

function plain(text) {
  if (HASH.test(text)) return [{ kind: "hash", hash: withPrefix(text) }];
  if (ADDRESS.test(text)) return [{ kind: "address", address: withPrefix(text) }];
  if (TAGS.has(text.toLowerCase())) return [{ kind: "block", block: text.toLowerCase() }];
  if (HEX_NUMBER.test(text)) return [{ kind: "block", block: Number(text) }];
  if (isTime(text)) return [{ kind: "time", time: isoOf(text), seconds: secondsOf(text) }];
  if (!NUMBER.test(text)) return [];
  const number = Number(text.replace(/[,_ ]/g, ""));
  const block = { kind: "block", block: number };
  const isSeconds = number >= SECONDS_MIN && number < SECONDS_MAX;
  if (!isSeconds && number < MILLIS_MIN) return [block];
  return [{ kind: "time", time: String(number), seconds: secondsOf(String(number)) }, block];
}

/** What people call it, and its name in the settings. */
export function namesOf({ name, configuredName = name }) {
  return [name.toLowerCase(), configuredName.toLowerCase()];
}

function exactly(text, chains) {
  const wanted = text.toLowerCase();
  return chains.find((chain) => String(chain.chainId) === wanted || namesOf(chain).includes(wanted));
}

/** Chains whose name has the text in it, or whose id begins with it; those that begin with it first. */
function chainsLike(text, chains) {
  const wanted = text.toLowerCase();
  const place = (chain) => {
    if (String(chain.chainId) === wanted) return 0;
    const places = namesOf(chain).map((name) => name.indexOf(wanted));
    const found = places.filter((at) => at >= 0);
    if (found.length > 0) return Math.min(...found);
    return String(chain.chainId).startsWith(wanted) ? 0 : -1;
  };
  return chains.filter((chain) => place(chain) >= 0).sort((a, b) => place(a) - place(b));
}
