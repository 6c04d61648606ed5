// One chain: how it is, how far it is, what is archived and proven, lag and reorgs over time, endpoints, and what is
// kept.

import { chainFacts } from "./chain_facts.js";
import { chainHistory } from "./chain_history.js";
import { reasonBox, stateOf } from "./chain_state.js";
import { datasetCoverage } from "./dataset_coverage.js";
import { copyButton, el, setAttr, setCopy, setText, sync } from "./dom.js";
import { endpointTable } from "./endpoints.js";
import { blockPath, isStellar, logsPath, rpcPath, searchPath } from "./links.js";
import { chainNamed, hasAnswered, observedOf } from "./live.js";
import { rangeList } from "./ranges.js";
import { reorgItem, reorgKey } from "./reorgs.js";
import { setTitle } from "./router.js";
import { NONE, bytes, count, counted, rate, serverNow, setAge, utc } from "./words.js";

export function chainPage({ chainId }) {
  const name = el("h1", { text: chainId });
  const id = el("span", { class: "muted", text: "" });
  const state = el("span", { class: "state" });
  const rpc = el("code", { class: "rpc" });
  const copyRpc = copyButton();
  const reason = reasonBox();
  const why = el("div", { class: "reason", hidden: true }, reason.node);
  const lost = el("p", { class: "error", hidden: true });
  const tools = el("div", { class: "tools" });
  const tiles = numbers();
  const coverage = datasetCoverage();
  const past = chainHistory();
  const reorgs = el("ol", { class: "reorgs", id: "reorgs" });
  const noReorgs = el("p", { class: "muted", text: "None since the start." });
  const endpoints = endpointTable();
  const facts = chainFacts();
  const ranges = rangeList();
  const section = (title, ...nodes) =>
    el("section", { "aria-label": title }, el("h2", { text: title }), ...nodes);
  const rest = el(
    "div",
    { class: "view" },
    why,
    tiles.node,
    section("Coverage", coverage.node),
    section("Over time", past.node),
    section("Endpoints", endpoints.node),
    section("Reorgs", noReorgs, reorgs),
    facts.node,
    ranges.node,
  );
  const node = el(
    "div",
    { class: "live", "data-chain": chainId },
    el(
      "div",
      {},
      el(
        "nav",
        { class: "crumbs", "aria-label": "Breadcrumb" },
        el("a", { href: "/", text: "Chains" }),
      ),
      el("div", { class: "title" }, name, id, state, tools),
      el("p", { class: "endpoint muted" }, "RPC ", rpc, copyRpc),
    ),
    lost,
    rest,
  );
  return {
    node,
    title: chainId,
    update() {
      const chain = chainNamed(chainId);
      lost.hidden = chain !== undefined || !hasAnswered();
      rest.hidden = chain === undefined;
      if (!chain) {
        setText(lost, `This node serves no chain ${chainId}. See the overview for those that it does.`);
        return;
      }
      const now = stateOf(chain);
      setTitle(chain.name);
      setText(name, chain.name);
      setText(id, chain.chainId);
      setText(state, now.word);
      setAttr(state, "data-tone", now.tone);
      setText(rpc, new URL(rpcPath(chain), location.origin).href);
      setCopy(copyRpc, rpc.textContent, "the RPC address");
      why.hidden = now.why === "";
      setAttr(why, "data-tone", now.tone);
      reason.update(now);
      sync(tools, actions(chain), ({ text }) => text, action);
      tiles.update(chain);
      coverage.update(chain, rpcPath(chain));
      past.update(chain, observedOf(chain.chainId));
      const list = chain.reorgs ?? [];
      noReorgs.hidden = list.length > 0;
      sync(
        reorgs,
        list.map((reorg) => ({ chain, reorg })),
        reorgKey,
        (each) => reorgItem(each, false),
      );
      endpoints.update(chain.endpoints ?? []);
      facts.update(chain);
      ranges.update(chain);
    },
    close: () => {
      coverage.close();
      past.close();
      ranges.close();
    },
  };
}

function actions(chain) {
  const logs = {
    text: "Logs",
    href: logsPath({ chain: chain.chainId, fromBlock: "latest", toBlock: "latest" }),
  };
  const all = [
    { text: "Newest block", href: blockPath(chain.chainId, "latest") },
    {
      text: "Block at a time",
      href: searchPath(
        utc(chain.head?.timestamp ?? serverNow())
          .replace(" ", "T")
          .concat("Z"),
        { chain: chain.chainId },
      ),
    },
  ];
  // The search for logs takes topics and addresses of EVM chains.
  return isStellar(chain) ? all : [...all, logs];
}

function action({ text }) {
  const link = el("a", { class: "plain", text });
  return { node: link, update: ({ href }) => setAttr(link, "href", href) };
}

/** The numbers that are looked for first. */
function numbers() {
  const tile = (label, field) => {
    const value = el("b", { "data-field": field });
    const more = el("span", { class: "muted" });
    return { node: el("div", {}, el("dt", { text: label }), el("dd", {}, value, more)), value, more };
  };
  const head = tile("Head", "head-number");
  const finalized = tile("Finalized", "finalized-number");
  const lag = tile("Lag", "lag-blocks");
  const speed = tile("Ingest", "rate");
  const logs = tile("Logs", "logs");
  const size = tile("Archive", "bytes");
  const headAge = el("time");
  const finalizedAge = el("time");
  const headLink = el("a");
  head.value.append(headLink);
  head.more.append(headAge);
  finalized.more.append(finalizedAge);
  const node = el(
    "dl",
    { class: "tiles panel" },
    ...[head, finalized, lag, speed, logs, size].map((each) => each.node),
  );
  return {
    node,
    update(chain) {
      const observed = observedOf(chain.chainId);
      setText(headLink, count(chain.head?.number));
      setAttr(
        headLink,
        "href",
        chain.head ? blockPath(chain.chainId, chain.head.number) : null,
      );
      setAttr(head.value, "title", chain.head?.hash);
      setAttr(head.value, "data-hash", chain.head?.hash);
      setAge(headAge, chain.head?.timestamp);
      setText(finalized.value, count(chain.finalized?.number));
      setAge(finalizedAge, chain.finalized?.timestamp);
      setText(lag.value, chain.lagBlocks === null ? NONE : counted(chain.lagBlocks, "block"));
      setText(lag.more, `source at ${count(chain.sourceHead)}`);
      setText(speed.value, `${rate(observed.average("blocks"))} blocks/s`);
      setText(speed.more, `${rate(observed.average("logs"))} logs/s`);
      const { storage = {} } = chain;
      setText(logs.value, count(storage.logs));
      setText(logs.more, chain.scope === "all" ? "all logs kept" : `scope ${chain.scope}`);
      setText(size.value, bytes(storage.bytes));
      setText(size.more, storage.logs > 0 ? `${(storage.bytes / storage.logs).toFixed(1)} B per log` : "");
    },
  };
}
