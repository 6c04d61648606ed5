// Reorgs: each a row with two small branches from the block that stayed, and in a sentence; its hashes when opened.

import { el, hashButton, svg } from "./dom.js";
import { blockPath, chainPath, hashLink } from "./links.js";
import { count, counted, setAge } from "./words.js";

/** Blocks of a branch that are drawn; a longer one is dashed. */
const DRAWN_MAX = 4;
const GAP = 20;
const SIZE = 10;
/** How much smaller than that it is drawn. */
const SCALE = 0.5;

/** `3 blocks replaced above 20,266`. */
export function reorgWords({ depth, to }) {
  return `${counted(depth, "block")} replaced above ${count(to.number)}`;
}

/** Which one it is, whatever else the API says of it later. */
export function reorgKey({ chain, reorg: { at, from, to } }) {
  return `${chain.chainId}-${at}-${from.hash}-${to.hash}`;
}

/** One of a list; lists of several chains name the chain. */
export function reorgItem({ chain, reorg }, namesChain) {
  const age = el("time", { class: "muted when" });
  const drawing = el("span", { class: "fork" });
  const more = el("div", { class: "branches" });
  const name = namesChain
    ? el("a", { class: "of", href: chainPath(chain.chainId), text: chain.name })
    : null;
  const node = el(
    "li",
    {
      class: "reorg",
      "data-chain-id": chain.chainId,
      "data-dropped": reorg.from.hash,
      "data-depth": reorg.depth,
    },
    drawing,
    name,
    el("span", { class: "told", text: reorgWords(reorg) }),
    age,
    el("details", {}, el("summary", { text: "Hashes" }), more),
  );
  let shown = "";
  return {
    node,
    update(now) {
      setAge(age, now.reorg.at);
      const { dropped = [], adopted = [] } = now.reorg;
      const key = `${dropped.length}-${adopted.length}`;
      if (key === shown) return;
      shown = key;
      drawing.replaceChildren(fork(now.reorg));
      more.replaceChildren(...branches(now.chain, now.reorg));
    },
  };
}

/** The branch that stayed goes straight on, the one that was dropped bends down. */
function fork(reorg) {
  const old = Math.max(1, Math.min(DRAWN_MAX, reorg.depth));
  // How many were adopted is drawn only where it is told.
  const fresh = Math.min(DRAWN_MAX, reorg.adopted?.length ?? 0);
  const width = (DRAWN_MAX + 1) * GAP;
  const at = (step) => 8 + step * GAP;
  const isCut = reorg.depth > DRAWN_MAX;
  const bend = `M${at(0)} 10C${at(0) + 12} 10 ${at(0) + 8} 32 ${at(1)} 32H${at(old)}`;
  const nodes = [
    svg("path", {
      class: "way adopted",
      "stroke-dasharray": fresh === 0 ? "3 3" : null,
      d: `M${at(0)} 10H${at(fresh || old)}`,
    }),
    svg("path", { class: "way dropped", "stroke-dasharray": isCut ? "3 3" : null, d: bend }),
    block("common", at(0), 10),
  ];
  for (let step = 1; step <= fresh; step += 1) nodes.push(block("adopted", at(step), 10));
  for (let step = 1; step <= old; step += 1) nodes.push(block("dropped", at(step), 32));
  const words = reorg.adopted?.length
    ? `${counted(reorg.adopted.length, "block")} adopted`
    : "others adopted";
  const label = `Two branches above block ${count(reorg.to.number)}: ${counted(reorg.depth, "block")} dropped, ${words}`;
  return svg(
    "svg",
    {
      viewBox: `0 0 ${width} 42`,
      width: width * SCALE,
      height: 42 * SCALE,
      role: "img",
      "aria-label": label,
    },
    ...nodes,
  );
}

function block(kind, x, y) {
  return svg("rect", {
    class: `block ${kind}`,
    x: x - SIZE / 2,
    y: y - SIZE / 2,
    width: SIZE,
    height: SIZE,
    rx: 2.5,
  });
}

/** The hashes; where the lists are not told, those that always are. */
function branches(chain, { from, to, depth, dropped = [], adopted = [] }) {
  const known = (hash) => hashLink(blockPath(chain.chainId, hash), hash);
  const list = (words, blocks, shown) =>
    el(
      "div",
      {},
      el("h4", { text: words }),
      el("ol", {}, ...blocks.map(({ number, hash }) => el("li", {}, `${count(number)} `, shown(hash)))),
    );
  const old = dropped.length > 0 ? dropped : [from];
  const cut = old.length < depth ? ` (${old.length} of ${depth} known)` : "";
  const parts = [list("Stayed", [to], known), list(`Dropped${cut}`, old, hashButton)];
  if (adopted.length > 0) parts.push(list("Adopted", adopted, known));
  return parts;
}
