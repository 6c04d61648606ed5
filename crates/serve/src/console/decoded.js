// A decoded log as nodes: in one line, and as a table of its values.

import { decode } from "./abi.js";
import { copyButton, el } from "./dom.js";
import { addressLink } from "./links.js";
import { amount, counted, shortHash } from "./words.js";

const ZERO = /^0x0{40}$/;
/** Characters of a text and values of a list in one line. */
const TEXT_MAX = 40;
const LIST_MAX = 4;

export { decode };

/** The values in one line; the whole ones are in the table. */
export function valuesInLine(decoded, chainId) {
  return el(
    "span",
    { class: "values" },
    ...decoded.args.map((arg) =>
      el(
        "span",
        { class: "value" },
        el("span", { class: "muted", text: `${plainName(arg.name)} ` }),
        inLine(arg, chainId),
      ),
    ),
  );
}

function plainName(name) {
  return name.replace(/^_/, "");
}

function inLine({ shape, value, isHash }, chainId) {
  if (isHash)
    return el("span", {
      class: "mono",
      title: `Keccak-256 of the value: ${value}`,
      text: `hash ${shortHash(value)}`,
    });
  if (shape.kind === "address")
    return ZERO.test(value)
      ? el("span", { class: "mono", title: value, text: "0x0" })
      : addressShort(chainId, value);
  return el("span", { class: "mono", text: said(shape, value, true), title: said(shape, value, false) });
}

function addressShort(chainId, address) {
  const link = addressLink(chainId, address).querySelector("a");
  return link;
}

/** A value as a text. Amounts are not divided: the decimals of a token are not known here. */
function said(shape, value, isShort) {
  if (shape.kind === "uint" || shape.kind === "int") return isShort ? amount(value).short : value.toString();
  if (shape.kind === "bool") return String(value);
  if (shape.kind === "string")
    return isShort && value.length > TEXT_MAX ? `“${value.slice(0, TEXT_MAX)}…”` : `“${value}”`;
  if (shape.kind === "list") {
    const shown = isShort ? value.slice(0, LIST_MAX) : value;
    const rest = value.length > shown.length ? `, … ${counted(value.length, "value")}` : "";
    return `[${shown.map((each) => said(shape.of, each, isShort)).join(", ")}${rest}]`;
  }
  if (shape.kind === "tuple") {
    const parts = shape.parts.map((part, at) => `${part.name} ${said(part.type, value[at], isShort)}`);
    return `(${parts.join(", ")})`;
  }
  return isShort ? shortHash(value) : value;
}

/** All values with their types, whole. */
export function valueTable(decoded, chainId) {
  const rows = decoded.args.map(({ name, type, shape, value, isHash }) => {
    const text = isHash ? value : said(shape, value, false);
    const isAddress = shape.kind === "address" && !isHash;
    const shown = isAddress ? addressShort(chainId, value) : el("span", { class: "mono whole", text });
    if (isAddress) shown.textContent = value;
    const note = isHash ? el("span", { class: "muted", text: " Keccak-256 of the value" }) : null;
    return el(
      "tr",
      { "data-arg": name },
      el("td", { text: plainName(name) }),
      el("td", { class: "muted mono", text: type }),
      el("td", { class: "words" }, shown, note, copyButton(text)),
    );
  });
  const heads = ["Name", "Type", "Value"].map((head) => el("th", { scope: "col", text: head }));
  return el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows));
}
