// Whether an answer is the one that the description shows.

/** What depends on the moment, or on the machine. */
const MOVING = new Set([
  "at",
  "asOf",
  "now",
  "uptimeSeconds",
  "updatedAt",
  "createdAt",
  "createdTimestamp",
  "created_at",
  "requests",
  "failures",
  "name",
  "samples",
  "bytes",
  "segments",
  "batches",
  "tiers",
  "runs",
  "packs",
  "ingested",
  "coverage",
  "lagBlocks",
  "lastSuccessSeconds",
  "queueDepth",
  "tailBlocks",
  "lagSeconds",
  "genesisTimestamp",
]);

/**
 * Entries that show more than the node of this test has: other chains, reorgs, projections; ledgers that are new.
 * Of these every field of the example must be there.
 */
const OTHER = new Set([
  "op-overview",
  "op-projections",
  "op-getRanges",
  "getStatus",
  "getHealth",
  "op-getHistory",
  "op-health",
]);

/** Where an answer differs from its example, both as texts; null where it does not. */
export function difference(id, exampleText, answerText) {
  const [example, answer] = [parsed(exampleText), parsed(answerText)];
  if (example === undefined) return differenceOfLines(exampleText, answerText);
  // Every simulated ledger closed long ago: such a network is not healthy.
  if (id === "getHealth") return /latency .* is too high/.test(answer.error?.message) ? null : JSON.stringify(answer);
  return compare(example, answer, { at: "", isExact: !OTHER.has(id) });
}

function compare(example, answer, { at, isExact }) {
  const differs = () => `${at}: ${JSON.stringify(answer)} instead of ${JSON.stringify(example)}`;
  if (Array.isArray(example)) {
    if (!Array.isArray(answer)) return differs();
    if (isExact && answer.length < example.length) return differs();
    return first(
      example.map((one, place) =>
        place < answer.length ? compare(one, answer[place], { at: `${at}[${place}]`, isExact }) : null,
      ),
    );
  }
  if (example !== null && typeof example === "object") {
    if (answer === null || typeof answer !== "object") return isExact ? differs() : null;
    return first(
      Object.keys(example).map((name) => {
        if (!(name in answer)) return `${at}.${name} is not there`;
        return compare(example[name], answer[name], { at: `${at}.${name}`, isExact: isExact && !MOVING.has(name) });
      }),
    );
  }
  if (!isExact) return null;
  // Long texts are cut in the description.
  if (typeof example === "string" && example.endsWith("…"))
    return String(answer).startsWith(example.slice(0, -1)) ? null : differs();
  return Object.is(example, answer) ? null : differs();
}

function first(differences) {
  return differences.find((one) => one !== null) ?? null;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Lines that are left out are a line with `…` alone. */
function differenceOfLines(example, answer) {
  const [begin, end] = example.split("…\n");
  if (end === undefined) return example === answer ? null : `${answer} instead of ${example}`;
  return answer.startsWith(begin) && answer.endsWith(end)
    ? null
    : `it neither begins with ${begin} nor ends with ${end}`;
}
