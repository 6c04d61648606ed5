// Logs decoded by the declaration of their event.
//
// It is strict: a log is decoded only where the number of its topics fits, every value is as a compiler would write
// it, and no byte of the data is left over. Anything else stays as it came.

import { declarationsOf } from "./events.js";

const WORD = 64;
const parsed = new Map();

class Unfit extends Error {}

/** `{ name, declaration, args: [{ name, type, value, isHash }] }`; null where no known declaration fits exactly. */
export function decode({ topics = [], data = "0x" }) {
  for (const declaration of declarationsOf(topics[0])) {
    try {
      return fitted(declaration, topics, data);
    } catch (error) {
      if (!(error instanceof Unfit)) throw error;
    }
  }
  return null;
}

function fitted(declaration, topics, data) {
  if (!parsed.has(declaration)) parsed.set(declaration, parse(declaration));
  const { name, inputs } = parsed.get(declaration);
  const indexed = inputs.filter((input) => input.indexed);
  need(indexed.length === topics.length - 1);
  const inData = inputs.filter((input) => !input.indexed);
  const reader = new Reader(data);
  const values = new Map(tuple(reader, inData, 0).map((value, at) => [inData[at], value]));
  need(reader.isAllRead());
  indexed.forEach((input, at) => {
    const topic = topics[at + 1];
    need(/^0x[0-9a-f]{64}$/i.test(topic));
    // Of what has no fixed size only the hash is there.
    values.set(input, isWord(input.type) ? word(input.type, topic.slice(2)) : topic);
  });
  const args = inputs.map((input) => ({
    name: input.name,
    type: input.text,
    shape: input.type,
    value: values.get(input),
    isHash: Boolean(input.indexed) && !isWord(input.type),
  }));
  return { name, declaration, args };
}

function need(holds) {
  if (!holds) throw new Unfit();
}

// Declarations.

function parse(declaration) {
  const open = declaration.indexOf("(");
  const inputs = split(declaration.slice(open + 1, declaration.lastIndexOf(")"))).map(input);
  return { name: declaration.slice(0, open), inputs };
}

/** The parts between commas that are in no bracket. */
function split(list) {
  const parts = [];
  let depth = 0;
  let part = "";
  for (const letter of list) {
    depth += { "(": 1, ")": -1 }[letter] ?? 0;
    if (letter === "," && depth === 0) {
      parts.push(part.trim());
      part = "";
    } else part += letter;
  }
  if (part.trim() !== "") parts.push(part.trim());
  return parts;
}

function input(text) {
  const end = text.startsWith("(") ? text.lastIndexOf(")") + 1 : 0;
  const space = text.indexOf(" ", end);
  const type = space < 0 ? text : text.slice(0, space);
  const words = space < 0 ? [] : text.slice(space + 1).split(" ");
  return {
    text: type,
    type: typeOf(type),
    indexed: words[0] === "indexed",
    name: words.filter((each) => each !== "indexed")[0] ?? "",
  };
}

function typeOf(text) {
  const list = /^(.*)\[(\d*)\]$/.exec(text);
  if (list) return { kind: "list", of: typeOf(list[1]), size: list[2] === "" ? null : Number(list[2]) };
  if (text.startsWith("(")) return { kind: "tuple", parts: split(text.slice(1, -1)).map(input) };
  if (text === "address" || text === "bool" || text === "string" || text === "bytes") return { kind: text };
  const [, kind, size] = /^(uint|int|bytes)(\d+)$/.exec(text);
  return { kind: kind === "bytes" ? "fixed" : kind, size: Number(size) };
}

function isWord({ kind }) {
  return !["string", "bytes", "list", "tuple"].includes(kind);
}

function isDynamic(type) {
  if (type.kind === "list") return type.size === null || isDynamic(type.of);
  if (type.kind === "tuple") return type.parts.some((part) => isDynamic(part.type));
  return type.kind === "string" || type.kind === "bytes";
}

/** Digits of a value in the head of its tuple. */
function headOf(type) {
  if (isDynamic(type)) return WORD;
  if (type.kind === "list") return type.size * headOf(type.of);
  if (type.kind === "tuple") return type.parts.reduce((all, part) => all + headOf(part.type), 0);
  return WORD;
}

// Data.

class Reader {
  constructor(data) {
    need(/^0x([0-9a-f]{2})*$/i.test(data));
    this.digits = data.slice(2);
    this.read = 0;
  }

  take(at, length) {
    need(at >= 0 && at + length <= this.digits.length);
    this.read += length;
    return this.digits.slice(at, at + length);
  }

  /** A number of bytes, as a number of digits: larger ones than the data are no such number. */
  length(at) {
    const value = BigInt(`0x${this.take(at, WORD)}`);
    need(value * 2n <= BigInt(this.digits.length));
    return Number(value) * 2;
  }

  /** Bytes that two values share are read twice: then the sum is another. */
  isAllRead() {
    return this.read === this.digits.length;
  }
}

function tuple(reader, parts, base) {
  let at = base;
  return parts.map(({ type }) => {
    const place = at;
    at += headOf(type);
    return isDynamic(type) ? value(reader, type, base + reader.length(place)) : value(reader, type, place);
  });
}

function value(reader, type, at) {
  if (type.kind === "tuple") return tuple(reader, type.parts, at);
  if (type.kind === "list") {
    const size = type.size ?? reader.length(at) / 2;
    const first = type.size === null ? at + WORD : at;
    // A list of millions in a few bytes is a lie.
    need(size * headOf(type.of) <= reader.digits.length);
    return tuple(
      reader,
      Array.from({ length: size }, () => ({ type: type.of })),
      first,
    );
  }
  if (isWord(type)) return word(type, reader.take(at, WORD));
  const length = reader.length(at);
  const digits = reader.take(at + WORD, length);
  const padding = (WORD - (length % WORD)) % WORD;
  need(/^0*$/.test(reader.take(at + WORD + length, padding)));
  return type.kind === "string" ? text(digits) : `0x${digits}`;
}

function text(digits) {
  const bytes = Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Unfit();
  }
}

/** A value of 32 bytes. */
function word({ kind, size }, digits) {
  if (kind === "fixed") {
    need(/^0*$/.test(digits.slice(size * 2)));
    return `0x${digits.slice(0, size * 2)}`;
  }
  const number = BigInt(`0x${digits}`);
  if (kind === "address") {
    need(number >> 160n === 0n);
    return `0x${digits.slice(24)}`.toLowerCase();
  }
  if (kind === "bool") {
    need(number < 2n);
    return number === 1n;
  }
  const cut = kind === "int" ? BigInt.asIntN(size, number) : BigInt.asUintN(size, number);
  // A smaller type is filled up with zeros, or with its sign.
  need(BigInt.asUintN(256, cut) === number);
  return cut;
}
