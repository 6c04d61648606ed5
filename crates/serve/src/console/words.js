// Values in words: numbers, sizes, times. Nothing here touches the page but what shows an age.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const hundredths = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });

export const NONE = "–";

export function count(value) {
  return Number.isFinite(value) ? whole.format(value) : NONE;
}

/** `3 blocks`, `1 block`. */
export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function rate(value) {
  if (!Number.isFinite(value)) return NONE;
  if (value >= 100) return whole.format(value);
  return (value >= 10 ? tenths : hundredths).format(value);
}

export function bytes(value) {
  if (!Number.isFinite(value)) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < units.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${(unit === 0 ? whole : tenths).format(left)} ${units[unit]}`;
}

/** A share in per cent that says 100 only where nothing is missing. */
export function percent(part, all) {
  if (!(all > 0)) return NONE;
  if (part >= all) return "100 %";
  return `${hundredths.format(Math.min(99.99, Math.floor((part / all) * 10_000) / 100))} %`;
}

export function shortHash(hash) {
  return hash.length > 18 && /^0x[0-9a-f]+$/i.test(hash) ? `${hash.slice(0, 8)}…${hash.slice(-6)}` : hash;
}

/** So many digits are shown as they are. */
const WHOLE_DIGITS = 27;

const POWERS = ["⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"];

/** An integer of any size with separators; one that is too long for a line also as a power of ten. */
export function amount(value) {
  const number = BigInt(value);
  const digits = number.toString().replace("-", "");
  const grouped = number.toLocaleString("en-US");
  if (digits.length <= WHOLE_DIGITS) return { short: grouped, whole: grouped };
  const power = [...String(digits.length - 1)].map((digit) => POWERS[digit]).join("");
  const lead = `${digits[0]}.${digits.slice(1, 4)}`.replace(/\.?0+$/, "");
  // A cut number is not the number.
  const isExact = /^0*$/.test(digits.slice(4));
  return { short: `${isExact ? "" : "≈ "}${number < 0n ? "-" : ""}${lead} × 10${power}`, whole: grouped };
}

/** A quantity of the API, `0x` and digits: it may be larger than a number of JavaScript. */
export function quantity(hex) {
  return BigInt(hex).toLocaleString("en-US");
}

/** An integer divided by a power of ten, all digits kept. */
export function scaled(value, decimals) {
  const number = BigInt(value);
  const digits = (number < 0n ? -number : number).toString().padStart(decimals + 1, "0");
  const whole = BigInt(digits.slice(0, digits.length - decimals)).toLocaleString("en-US");
  const rest = digits.slice(digits.length - decimals).replace(/0+$/, "");
  return `${number < 0n ? "-" : ""}${whole}${rest ? `.${rest}` : ""}`;
}

/** `2026-11-15 12:00:00`, always UTC. */
export function utc(seconds) {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return `${count(seconds)} s`;
  return date.toISOString().slice(0, 19).replace("T", " ");
}

const SPANS = [
  [31_557_600, "y"],
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

/** The largest unit alone, or the two largest: `2 h`, `2 h 5 min`. */
export function span(seconds, parts = 1) {
  let left = Math.floor(Math.abs(seconds));
  const said = [];
  for (const [size, unit] of SPANS) {
    if (left < size && !(size === 1 && said.length === 0)) continue;
    said.push(`${count(Math.floor(left / size))} ${unit}`);
    left %= size;
    if (said.length === parts) break;
  }
  return said.join(" ");
}

// Ages follow the server's clock: the reader's may be wrong.
let serverAhead = 0;

export function setServerNow(seconds) {
  serverAhead = seconds - Date.now() / 1000;
}

export function serverNow() {
  return Date.now() / 1000 + serverAhead;
}

export function ago(seconds) {
  const age = serverNow() - seconds;
  if (Math.abs(age) < 1.5) return "now";
  return age > 0 ? `${span(age)} ago` : `in ${span(age)}`;
}

/** Makes a `time` element show its age; its title has the time itself. */
export function setAge(node, seconds) {
  if (!Number.isFinite(seconds)) {
    for (const name of ["data-at", "title", "datetime"]) node.removeAttribute(name);
    if (node.textContent !== "") node.textContent = "";
    return;
  }
  const said = utc(seconds);
  if (node.dataset.at !== String(seconds)) {
    node.dataset.at = String(seconds);
    node.setAttribute("datetime", `${said.replace(" ", "T")}Z`);
    node.title = `${said} UTC`;
  }
  const age = ago(seconds);
  if (node.textContent !== age) node.textContent = age;
}

/** Ages continue while the server does not answer. */
export function tickAges() {
  for (const node of document.querySelectorAll("time[data-at]")) setAge(node, Number(node.dataset.at));
}
