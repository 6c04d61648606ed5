// Where things are: the address of each page, and links to blocks, transactions and logs.

import { copyButton, el } from "./dom.js";
import { count, shortHash } from "./words.js";

const part = encodeURIComponent;

export const chainPath = (chainId) => `/chains/${part(chainId)}`;
export const blockPath = (chainId, block) => `${chainPath(chainId)}/blocks/${part(block)}`;

/** `block` is told where it is known: then its logs are found also where transactions are not kept. */
export function transactionPath(chainId, hash, block) {
  const query = block === undefined ? "" : `?block=${part(block)}`;
  return `${chainPath(chainId)}/transactions/${part(hash)}${query}`;
}

/** A path with those parameters that have a value. */
export function withQuery(path, params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== "") query.set(name, value);
  }
  // Commas and colons are as allowed as their codes, and can be read.
  const text = query.toString().replaceAll("%2C", ",").replaceAll("%3A", ":");
  return text === "" ? path : `${path}?${text}`;
}

export const logsPath = (params) => withQuery("/logs", params);
export const searchPath = (q, more = {}) => withQuery("/search", { q, ...more });

export function blockLink(chainId, number) {
  return el("a", { href: blockPath(chainId, number), class: "hash", text: count(number) });
}

/** A hash that leads to its page, shortened, with a button that copies it. */
export function hashLink(href, hash) {
  const link = el("a", { href, class: "hash", title: hash, text: shortHash(hash) });
  return el("span", { class: "linked" }, link, copyButton(hash));
}

/** An address leads to its logs. */
export function addressLink(chainId, address) {
  return hashLink(logsPath({ chain: chainId, address, fromBlock: "earliest", order: "desc" }), address);
}

/** Ids of Stellar networks are derived from their passphrase, and no EVM chain has one so large. */
export function isStellar(chain) {
  return BigInt(chain.chainId) > BigInt(Number.MAX_SAFE_INTEGER);
}

export function rpcPath(chain) {
  return isStellar(chain) ? `/stellar/${chain.configuredName ?? chain.name}` : `/${chain.chainId}`;
}
