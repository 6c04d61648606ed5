// What is kept of a chain, and how much that is: names and values.

import { copyButton, el, hashButton, setAttr, setCopy, setHash, setText, sync } from "./dom.js";
import { blockPath } from "./links.js";
import { NONE, bytes, count, counted, shortHash, utc } from "./words.js";

const TIERS = ["batches", "sealed", "merged once", "merged twice"];

export function chainFacts() {
  const chain = pairs();
  const storage = pairs();
  const part = (title, list) =>
    el(
      "section",
      { "aria-label": title },
      el("h2", { text: title }),
      el("div", { class: "panel pad" }, list.node),
    );
  return {
    node: el("div", { class: "pair" }, part("Settings and head", chain), part("Storage", storage)),
    update(now) {
      chain.update(chainRows(now));
      storage.update(storageRows(now.storage ?? {}));
    },
  };
}

function chainRows(chain) {
  const told = (block) => (block ? `${utc(block.timestamp)} UTC` : NONE);
  return [
    ["Datasets", (chain.datasets ?? []).join(", ")],
    ["Logs kept", chain.scope],
    ["Start block", count(chain.startBlock)],
    ["Finality", chain.finality],
    ["Waiting for finality", counted(chain.tailBlocks, "block")],
    ["Source head", count(chain.sourceHead)],
    ["Head hash", chain.head?.hash ?? NONE, linkTo(chain)],
    ["Head at", told(chain.head)],
    ["Finalized hash", chain.finalized?.hash ?? NONE, linkTo(chain)],
    ["Finalized at", told(chain.finalized)],
  ];
}

function storageRows(storage) {
  return [
    ["Size", bytes(storage.bytes)],
    ["Logs", count(storage.logs)],
    ["Segments", count(storage.segments)],
    ...(storage.tiers ?? []).map((segments, tier) => [
      `Tier ${tier}, ${TIERS[tier] ?? "merged again"}`,
      count(segments),
    ]),
    ["Runs of the hash index", count(storage.runs)],
    ["Packs", count(storage.packs)],
  ];
}

const looksLikeHash = (value) => /^0x[0-9a-f]{40,}$/i.test(value);

const linkTo = (chain) => (hash) => blockPath(chain.chainId, hash);

/** A list of names and values; a long hash is shown short, as a link where it has a page. */
export function pairs() {
  const node = el("dl", { class: "pairs" });
  return {
    node,
    update(rows) {
      sync(node, rows, ([name, value]) => `${name}${looksLikeHash(value)}`, pair);
    },
  };
}

function pair([name, value, hrefOf]) {
  const isHash = looksLikeHash(value);
  if (isHash && hrefOf) return linkedPair(name);
  const shown = isHash ? hashButton() : el("span");
  return {
    node: el("div", {}, el("dt", { text: name }), el("dd", {}, shown)),
    update: ([, now]) => (isHash ? setHash(shown, now) : setText(shown, now)),
  };
}

function linkedPair(name) {
  const link = el("a", { class: "hash" });
  const copy = copyButton();
  return {
    node: el("div", {}, el("dt", { text: name }), el("dd", {}, link, copy)),
    update([, hash, hrefOf]) {
      setText(link, shortHash(hash));
      setAttr(link, "href", hrefOf(hash));
      setAttr(link, "title", hash);
      setCopy(copy, hash);
    },
  };
}
