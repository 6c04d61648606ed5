// The list of chains: a row each, its details on demand, and how a chain is in one word.

import { CELLS_DETAILS, CELLS_ROW, chart, coverageBar, coverageWords, line, spansOf } from "./charts.js";
import {
  NONE,
  bytes,
  count,
  counted,
  el,
  hashButton,
  rate,
  setAge,
  setAttr,
  setHash,
  setText,
  sync,
  utc,
} from "./dom.js";
import { rangesOf } from "./ranges.js";

// More rows than this say nothing that the bar does not.
const RANGES_MAX = 100;

const KIND_WORDS = {
  roots: "proven by receipts and transactions",
  receipts: "proven by receipts",
  bloom: "proven by bloom",
  linked: "proven by links",
  claimed: "one source's word",
  tail: "tail, not final",
  hole: "missing",
  ahead: "not fetched yet",
};

const TRIED_AGAIN = "It is tried again by itself. If it stays, look at the endpoints.";

const ENDPOINT_TONES = { well: "good", cooling: "warn", unfit: "bad" };

/** How a chain is: a word, a tone, why, and what to do. */
export function stateOf(chain) {
  const halted = /^halted\b/i.test(chain.notReadyReason ?? "");
  if (!halted && /^projections:/.test(chain.notReadyReason ?? "")) return projectionsState(chain);
  if (chain.paused || halted) {
    const word = halted ? "halted" : "paused";
    const advice = halted
      ? "What is archived is served on. No block is taken until an operator acts: look into the reason, with the runbook for it, and stop the program. Then resume keeps what is archived, and rewind drops what is above block N:"
      : "What is archived is served on. The chain continues by itself when the reason is gone.";
    const commands = halted
      ? [
          `chronolith resume --chain ${chain.chainId} --reason "…"`,
          `chronolith rewind --chain ${chain.chainId} --to N --reason "…"`,
        ]
      : [];
    return { word, tone: "bad", why: reasons(chain), advice, commands };
  }
  if (!chain.ready) {
    return { word: "not ready", tone: "warn", why: reasons(chain), advice: TRIED_AGAIN, commands: [] };
  }
  if (chain.error) {
    return { word: "failing", tone: "warn", why: reasons(chain), advice: TRIED_AGAIN, commands: [] };
  }
  return { word: "ready", tone: "good", why: "", advice: "", commands: [] };
}

/** The chain itself is well: only its rows are not what they should be. */
function projectionsState(chain) {
  const word = chain.paused ? "projection paused" : "no projections";
  const advice = chain.paused
    ? "Blocks are taken and served on. Rows of this projection are not made until an operator acts: see Projections."
    : "Blocks are taken and served on. Rows follow by themselves when the database answers again.";
  const tone = chain.paused ? "bad" : "warn";
  return { word, tone, why: chain.notReadyReason.replace(/^projections: /, ""), advice, commands: [] };
}

/** The same reason may be told by several fields; the longest has it all. */
function reasons(chain) {
  const all = [chain.notReadyReason, chain.pausedReason, chain.error].filter(Boolean);
  const told = all.filter(
    (each, at) =>
      !all.some((other, place) => place !== at && other.includes(each) && (other !== each || place < at)),
  );
  return told.join("; ") || "no reason was given";
}

/** Why a chain is as it is, and what to do: the same in the list of what needs attention and in details. */
export function reasonBox() {
  const why = el("p", { class: "why" });
  const advice = el("p", { class: "advice" });
  const commands = el("ul", { class: "commands" });
  return {
    node: el("div", {}, why, advice, commands),
    update(state) {
      // The word stands beside it already.
      setText(why, state.why.replace(/^halted: /i, ""));
      setText(advice, state.advice);
      sync(
        commands,
        state.commands,
        (command) => command,
        (command) => ({
          node: el(
            "li",
            {},
            el("button", {
              type: "button",
              class: "hash",
              "data-copy": command,
              title: "copy",
              text: command,
            }),
          ),
          update: () => {},
        }),
      );
    },
  };
}

/** The row of one chain. `isOpen` says whether its details begin open. */
export function chainRow(first, isOpen) {
  const id = `chain-${first.chainId}`;
  const name = el("span", { class: "name" });
  const toggle = el(
    "button",
    { type: "button", class: "disclose", "aria-expanded": "false", "aria-controls": `${id}-details` },
    el("span", { class: "label" }, name, " ", el("span", { class: "muted", text: first.chainId })),
  );
  const facts = factsOf();
  const details = el("div", { class: "details", id: `${id}-details`, role: "group", hidden: true });
  const node = el(
    "li",
    { class: "chain", id, "data-chain": first.chainId },
    el("div", { class: "row" }, el("h3", {}, toggle), facts.node),
    details,
  );
  let inside = null;
  let shown = null;

  function open(wanted) {
    setAttr(toggle, "aria-expanded", String(wanted));
    details.hidden = !wanted;
    setAttr(node, "data-open", wanted);
    if (!wanted) return;
    if (!inside) {
      inside = detailsOf();
      details.append(...inside.nodes);
    }
    if (shown) inside.update(shown);
  }

  toggle.addEventListener("click", () => open(details.hidden));
  open(isOpen);
  return {
    node,
    open,
    focus: () => toggle.focus(),
    isOpen: () => !details.hidden,
    update({ chain, rates }) {
      const state = stateOf(chain);
      shown = { chain, rates, state, spans: spansOf(chain) };
      setText(name, chain.name);
      setAttr(details, "aria-label", `Details of ${chain.name}`);
      setAttr(node, "data-tone", state.tone);
      facts.update(shown);
      if (!details.hidden) inside.update(shown);
    },
  };
}

function fact(label, className, ...children) {
  return el("div", { class: className }, el("dt", { text: label }), el("dd", {}, ...children));
}

/** What is always shown of a chain. */
function factsOf() {
  const pill = el("span", { class: "pill" });
  const endpoints = el("small");
  const head = el("b", { "data-field": "head-number" });
  const headHash = hashButton();
  setAttr(headHash, "data-field", "head-hash");
  const headAge = el("time");
  const finalized = el("b", { "data-field": "finalized-number" });
  const finalizedAge = el("time");
  const lag = el("b");
  const source = el("small");
  const bar = coverageBar(CELLS_ROW);
  const covered = el("small");
  const drawing = line("blocks", "blocks/s");
  const rates = el("small");
  const node = el(
    "dl",
    { class: "facts" },
    fact("State", "state", pill, endpoints),
    fact("Head", "head", head, el("small", {}, headHash, " ", headAge)),
    fact("Finalized", "finalized", finalized, el("small", {}, finalizedAge)),
    fact("Lag in blocks", "lag", lag, source),
    fact("Coverage", "coverage", bar.node, covered),
    fact("Ingest", "ingest", drawing.node, rates),
  );
  return {
    node,
    update({ chain, rates: measured, state, spans }) {
      setText(pill, state.word);
      setAttr(pill, "data-tone", state.tone);
      const all = chain.endpoints ?? [];
      const well = all.filter((endpoint) => endpoint.state === "well").length;
      setText(
        endpoints,
        all.length === 0 ? "no endpoints" : `${well} of ${counted(all.length, "endpoint")} well`,
      );
      setText(head, count(chain.head?.number));
      setHash(headHash, chain.head?.hash ?? "");
      setAge(headAge, chain.head?.timestamp);
      setText(finalized, count(chain.finalized?.number));
      setAge(finalizedAge, chain.finalized?.timestamp);
      setText(lag, count(chain.lagBlocks ?? NaN));
      setText(source, `source ${count(chain.sourceHead)}`);
      bar.update(spans);
      const words = coverageWords(spans);
      setText(covered, words.holes ? `${words.part} · ${words.holes}` : words.part);
      setAttr(covered, "data-tone", words.holes ? "bad" : null);
      drawing.update(measured);
      setText(
        rates,
        `${rate(measured.average("blocks"))} blocks/s · ${rate(measured.average("logs"))} logs/s`,
      );
    },
  };
}

/** What is shown of a chain that is open. */
function detailsOf() {
  const box = reasonBox();
  const reason = el("div", { class: "reason" }, box.node);
  const coverage = coverageDetails();
  const blocks = chart("blocks", "blocks/s", rate);
  const logs = chart("logs", "logs/s", rate);
  const ingested = el("p", { class: "muted" });
  const ranges = rangesOf();
  const endpoints = endpointTable();
  const storage = pairs();
  const kept = pairs();
  return {
    nodes: [
      reason,
      coverage.node,
      ranges.node,
      el("section", {}, el("h4", { text: "Ingest" }), blocks.node, logs.node, ingested),
      el("section", {}, el("h4", { text: "Storage" }), storage.node),
      el("section", {}, el("h4", { text: "Chain" }), kept.node),
      endpoints.node,
    ],
    update({ chain, rates, state, spans }) {
      reason.hidden = state.why === "";
      setAttr(reason, "data-tone", state.tone);
      box.update(state);
      coverage.update(spans);
      ranges.update(chain);
      blocks.update(rates);
      logs.update(rates);
      const { ingested: sum } = chain;
      setText(ingested, `${counted(sum?.blocks, "block")} and ${counted(sum?.logs, "log")} since the start`);
      endpoints.update(chain.endpoints ?? []);
      storage.update(storageOf(chain.storage ?? {}));
      kept.update(settingsOf(chain));
    },
  };
}

const TIERS = ["batches", "sealed", "merged once", "merged twice"];

function storageOf(storage) {
  const rows = [["Segments", count(storage.segments)]];
  (storage.tiers ?? []).forEach((segments, tier) =>
    rows.push([`· tier ${tier}, ${TIERS[tier] ?? "merged again"}`, count(segments)]),
  );
  rows.push(
    ["Runs", count(storage.runs)],
    ["Packs", count(storage.packs)],
    ["Logs", count(storage.logs)],
    ["Size", bytes(storage.bytes)],
  );
  if (storage.logs > 0) rows.push(["Size per log", `${(storage.bytes / storage.logs).toFixed(1)} B`]);
  return rows;
}

function settingsOf(chain) {
  const told = (block) => (block ? `${utc(block.timestamp)}` : NONE);
  return [
    ["Head at", told(chain.head)],
    ["Finalized at", told(chain.finalized)],
    ["Finalized hash", chain.finalized?.hash ?? NONE],
    ["Source head", count(chain.sourceHead)],
    ["Tail", counted(chain.tailBlocks, "block")],
    ["Finality", chain.finality],
    ["Start block", count(chain.startBlock)],
    ["Datasets", (chain.datasets ?? []).join(", ")],
    ["Scope", chain.scope],
  ];
}

/** A list of names and values; a long hash is shown as one. */
function pairs() {
  const node = el("dl", { class: "pairs" });
  return {
    node,
    update(rows) {
      const looksLikeHash = (value) => /^0x[0-9a-f]{40,}$/i.test(value);
      sync(
        node,
        rows,
        ([name, value]) => `${name}${looksLikeHash(value)}`,
        ([name, value]) => {
          const isHash = looksLikeHash(value);
          const shown = isHash ? hashButton() : el("span");
          return {
            node: el("div", {}, el("dt", { text: name }), el("dd", {}, shown)),
            update: ([, now]) => (isHash ? setHash(shown, now) : setText(shown, now)),
          };
        },
      );
    },
  };
}

function coverageDetails() {
  const bar = coverageBar(CELLS_DETAILS);
  const low = el("span");
  const high = el("span");
  const body = el("tbody");
  const more = el("p", { class: "muted" });
  const heads = ["From", "To", "Blocks", "How far it is known"].map((text, at) =>
    el("th", { scope: "col", text, class: at < 3 ? "right" : null }),
  );
  const table = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body);
  const summary = el("summary");
  const list = el(
    "details",
    { class: "ranges" },
    summary,
    el(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Ranges of coverage" },
      table,
      more,
    ),
  );
  const node = el(
    "section",
    { class: "across" },
    el("h4", { text: "Coverage" }),
    bar.node,
    el("p", { class: "axis muted" }, low, high),
    list,
  );
  return {
    node,
    update(spans) {
      bar.update(spans);
      setText(low, count(spans[0]?.from));
      setText(high, count(spans[spans.length - 1]?.to));
      setText(summary, counted(spans.length, "range"));
      // The rows of a closed list are not worth making.
      if (!list.open) {
        list.ontoggle = () => fill(spans);
        return;
      }
      list.ontoggle = null;
      fill(spans);
    },
  };

  function fill(spans) {
    // Holes first where not all have room: they are what is looked for.
    const chosen =
      spans.length <= RANGES_MAX
        ? spans
        : [...spans].sort((a, b) => (b.kind === "hole") - (a.kind === "hole")).slice(0, RANGES_MAX);
    sync(
      body,
      chosen.sort((a, b) => a.from - b.from),
      ({ from, kind }) => `${from}${kind}`,
      ({ kind }) => {
        const cells = [0, 1, 2].map(() => el("td", { class: "right" }));
        const key = el("span", { class: `key level-${kind}` });
        return {
          node: el("tr", {}, ...cells, el("td", {}, key, KIND_WORDS[kind])),
          update({ from, to }) {
            [from, to, to - from + 1].forEach((value, at) => setText(cells[at], count(value)));
          },
        };
      },
    );
    setText(
      more,
      spans.length > RANGES_MAX
        ? `And ${counted(spans.length - RANGES_MAX, "more range")}; chronolith_getCoverage has them all.`
        : "",
    );
  }
}

function endpointTable() {
  const body = el("tbody");
  const heads = ["Endpoint", "State", "Requests", "Failures", "Last error"];
  const right = new Set([2, 3, 4]);
  const table = el(
    "table",
    {},
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ...heads.map((text, at) => el("th", { scope: "col", text, class: right.has(at) ? "right" : null })),
      ),
    ),
    body,
  );
  const none = el("p", { class: "muted", text: "None: nothing is fetched over JSON-RPC." });
  const node = el(
    "section",
    { class: "across" },
    el("h4", { text: "Endpoints" }),
    none,
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Endpoints" }, table),
  );
  return {
    node,
    update(endpoints) {
      none.hidden = endpoints.length > 0;
      table.hidden = endpoints.length === 0;
      sync(
        body,
        endpoints,
        (endpoint) => endpoint.name,
        () => {
          const cells = heads.map((_, at) =>
            el("td", { class: right.has(at) ? "right" : at === 5 ? "words" : null }),
          );
          const pill = el("span", { class: "pill" });
          cells[1].append(pill);
          return {
            node: el("tr", {}, ...cells),
            update(endpoint) {
              setText(cells[0], endpoint.name);
              setText(pill, endpoint.state);
              setAttr(pill, "data-tone", ENDPOINT_TONES[endpoint.state] ?? "warn");
              setText(cells[2], count(endpoint.requests));
              setText(cells[3], count(endpoint.failures));
              setText(cells[4], endpoint.lastError ?? NONE);
            },
          };
        },
      );
    },
  };
}
