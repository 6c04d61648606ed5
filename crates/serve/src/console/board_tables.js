// The tables of a chain's board: locks, versions of the contract, newest fee events, newest values of feeds.

import { el, hashButton, setAttr, setHash, setText, sync } from "./dom.js";
import { addressLink, blockLink, transactionPath } from "./links.js";
import { NONE, amount, count, scaled, setAge, span } from "./words.js";

/** How long a lock holds without a sign of life, in seconds. */
const LOCK_SECONDS = 15;

const LOCK_WORDS = {
  writer: "writes rows of the newest blocks",
  finality: "confirms and drops",
  backfill: "hands out history",
};

const STATUS_TONES = { confirmed: "good", dropped: "warn" };

/** A titled table that is not there while it is empty. */
export function boardTable(title, heads, right) {
  const isRight = new Set(right);
  const columns = heads.map((text, at) =>
    el("th", { scope: "col", text, class: isRight.has(at) ? "right" : null }),
  );
  const body = el("tbody");
  const table = el("table", {}, el("thead", {}, el("tr", {}, ...columns)), body);
  const node = el(
    "section",
    {},
    el("h4", { text: title }),
    el("div", { class: "scroll", role: "region", "aria-label": title }, table),
  );
  return {
    node,
    update(items, keyOf, row) {
      node.hidden = items.length === 0;
      const made = (item) => {
        const view = row(item);
        [...view.node.cells].forEach((cell, at) => cell.classList.toggle("right", isRight.has(at)));
        return view;
      };
      sync(body, items, keyOf, made);
    },
  };
}

/** All tables of a chain. */
export function boardTables(chainId) {
  const locks = boardTable("Locks", ["Lock", "Holder", "Held for", "Renewed"], [2, 3]);
  const versions = boardTable(
    "Versions of the contract",
    ["Version", "Implementation", "From block", "Named by"],
    [2],
  );
  const fees = boardTable(
    "Newest fee events",
    ["Block", "Age", "Event", "Token", "Party", "Amount", "Status"],
    [0, 1, 5],
  );
  const feeds = boardTable(
    "Feeds, newest values",
    ["Feed", "Stride", "Value", "Block", "Age", "Ring"],
    [1, 3, 4, 5],
  );
  const keyOf = (fee) => `${fee.txHash}${fee.logIndex}-${fee.position}-${fee.blockNumber}`;
  return {
    node: el("div", { class: "tables" }, fees.node, feeds.node, versions.node, locks.node),
    update(chain) {
      fees.update(chain.recentFees, keyOf, (fee) => feeRow(chainId, fee));
      feeds.update(
        chain.latestFeeds,
        (feed) => `${feed.feedId}${feed.stride}`,
        (feed) => feedRow(chainId, feed),
      );
      versions.update(
        chain.versions,
        (each) => `${each.implementation}${each.activatedBlock}`,
        (each) => versionRow(chainId, each),
      );
      locks.update(chain.locks, ({ type }) => type, lockRow);
    },
  };
}

function lockRow({ type }) {
  const holder = el("td");
  const held = el("td");
  const renewed = el("td");
  const words = el("small", { text: LOCK_WORDS[type] ?? "" });
  return {
    node: el(
      "tr",
      { "data-lock": type },
      el("td", {}, el("b", { text: type }), " ", words),
      holder,
      held,
      renewed,
    ),
    update(lock) {
      const isHeld = lock.holder !== null;
      const isLate = isHeld && lock.renewedSeconds > LOCK_SECONDS;
      setText(holder, lock.holder ?? "not held");
      setText(held, isHeld ? span(lock.ageSeconds, 2) : NONE);
      setText(
        renewed,
        isHeld ? `${span(lock.renewedSeconds)} ago${isLate ? ", others may take it" : ""}` : NONE,
      );
      setAttr(renewed, "data-tone", isLate ? "warn" : null);
    },
  };
}

function versionRow(chainId, { implementation }) {
  const cells = [0, 1, 2].map(() => el("td"));
  return {
    node: el("tr", {}, cells[0], el("td", {}, addressLink(chainId, implementation)), cells[1], cells[2]),
    update(each) {
      setText(cells[0], each.version);
      setText(cells[1], each.activatedBlock === null ? "not seen yet" : count(each.activatedBlock));
      setText(cells[2], each.operator ?? "settings");
    },
  };
}

const NATIVE = /^0x0{40}$/;
const NATIVE_DECIMALS = 18;
/** Digits after the point that a table has room for. */
const SHOWN_DECIMALS = 6;

const RAW_UNITS = "raw units";

/**
 * The native token has 18 decimals; those of others are not known, and their amounts are not divided: their `unit`
 * says so.
 */
function feeAmount(fee) {
  if (fee.amount === null) return { text: NONE, title: null, unit: null };
  const title = `${amount(fee.amount).whole} ${RAW_UNITS}`;
  if (!NATIVE.test(fee.token))
    return {
      text: amount(fee.amount).short,
      title: `${title}: the decimals of this token are not known`,
      unit: RAW_UNITS,
    };
  const [before, after = ""] = scaled(fee.amount, NATIVE_DECIMALS).split(".");
  const cut = after.slice(0, SHOWN_DECIMALS);
  return { text: `${cut === after ? "" : "≈ "}${before}${cut ? `.${cut}` : ""}`, title, unit: null };
}

function feeRow(chainId, fee) {
  const age = el("time");
  const state = el("span", { class: "state" });
  const token = NATIVE.test(fee.token) ? el("span", { text: "native" }) : addressLink(chainId, fee.token);
  const party = fee.party === null ? NONE : addressLink(chainId, fee.party);
  const { text, title, unit } = feeAmount(fee);
  const block = el("a", {
    class: "hash",
    href: transactionPath(chainId, fee.txHash, fee.blockNumber),
    title: `Transaction ${fee.txHash}`,
    text: count(fee.blockNumber),
  });
  return {
    node: el(
      "tr",
      {},
      el("td", {}, block),
      el("td", {}, age),
      el("td", { text: fee.event }),
      el("td", {}, token),
      el("td", {}, party),
      el(
        "td",
        { class: "amount", title, "data-amount": fee.amount },
        text,
        unit === null ? null : el("span", { class: "muted", text: ` ${unit}` }),
      ),
      el("td", {}, state),
    ),
    update(now) {
      setAge(age, now.timestamp);
      setText(state, now.status);
      setAttr(state, "data-tone", STATUS_TONES[now.status] ?? null);
    },
  };
}

function feedRow(chainId, feed) {
  const value = hashButton();
  const block = el("td");
  const age = el("time");
  const ring = el("td");
  let shown = null;
  return {
    node: el(
      "tr",
      {},
      el("td", {}, hashButton(feed.feedId)),
      el("td", { text: feed.stride }),
      el("td", {}, value),
      block,
      el("td", {}, age),
      ring,
    ),
    update(now) {
      setHash(value, now.data);
      if (shown !== now.blockNumber) block.replaceChildren(blockLink(chainId, now.blockNumber));
      shown = now.blockNumber;
      setAge(age, now.timestamp);
      setText(ring, count(now.rbIndex));
    },
  };
}
