// Schemas in words and tables, with those that they use to unfold in place.

import { el } from "./dom.js";
import { refName } from "./docs-model.js";

/** Values of an enumeration that are listed; others are at its schema. */
const VALUES_MAX = 8;

/** Text with `code` in it, as nodes. */
export function prose(text = "") {
  return text.split("`").map((part, at) => (at % 2 === 1 ? el("code", { text: part }) : part));
}

function joined(parts, between) {
  return parts.flatMap((nodes, at) => (at > 0 ? [between, ...nodes] : nodes));
}

/** What a schema asks for, in a few words, with links to others. */
export function shape(schema) {
  if (schema === undefined) return ["anything"];
  const name = refName(schema);
  if (name) return [el("a", { href: `#schema-${name}`, text: name })];
  const choices = choicesOf(schema);
  if (choices.length > 0) return joined(choices.map(shape), " or ");
  if (schema.const !== undefined) return [el("code", { text: JSON.stringify(schema.const) })];
  if (schema.enum) return oneOf(schema.enum.filter((value) => value !== null && value !== ""));
  if (schema.prefixItems) return ["[", ...joined(schema.prefixItems.map(shape), ", "), "]"];
  const types = [schema.type ?? "anything"].flat();
  if (schema.items && types.includes("array")) {
    return ["list of ", ...shape(itemsOf(schema)), types.includes("null") ? " or null" : ""];
  }
  return shapeOf(types.join(" or "), schema);
}

function shapeOf(types, schema) {
  return [schema.format ? `${types} (${schema.format})` : types];
}

/** The alternatives of a schema, each once, null last. */
function choicesOf(schema) {
  const all = (schema.oneOf ?? schema.anyOf ?? []).flatMap((choice) =>
    refName(choice) || !(choice.oneOf ?? choice.anyOf) ? [choice] : choicesOf(choice),
  );
  const isNull = (choice) => choice.type === "null";
  const others = all.filter((choice) => !isNull(choice));
  return all.some(isNull) ? [...others, { type: "null" }] : others;
}

/** What a list holds; that null stands for anything is said in words. */
function itemsOf(schema) {
  const choices = choicesOf(schema.items).filter((choice) => choice.type !== "null");
  return choices.length > 0 ? { anyOf: choices } : schema.items;
}

function oneOf(values) {
  const shown = values.slice(0, VALUES_MAX).map((value) => [el("code", { text: value })]);
  const more = values.length > VALUES_MAX ? [` and ${values.length - VALUES_MAX} more`] : [];
  return [...joined(shown, " or "), ...more];
}

/** What else holds for a value: its default and its bounds. */
export function bounds(schema) {
  const number = (value) => value.toLocaleString("en-US");
  const said = [];
  if (schema.default !== undefined) said.push(`default ${schema.default}`);
  const { minimum, maximum, maxItems } = schema;
  // The largest number of 64 bits is no bound that a reader wants.
  if (maximum !== undefined && maximum < 2 ** 53) said.push(`${number(minimum ?? 0)} to ${number(maximum)}`);
  if (maxItems > 0) said.push(`at most ${number(maxItems)}`);
  return said.join(", ");
}

/** The schemas with fields that a schema names, each once. */
function objectsIn(schema, follow, seen = new Map()) {
  if (!schema) return seen;
  const name = refName(schema);
  const whole = follow(schema);
  if (whole?.properties) {
    const key = name ?? "";
    if (!seen.has(key)) seen.set(key, whole);
    return seen;
  }
  for (const part of [...(whole.oneOf ?? []), ...(whole.anyOf ?? []), ...(whole.prefixItems ?? [])])
    objectsIn(part, follow, seen);
  if (whole.items) objectsIn(whole.items, follow, seen);
  return seen;
}

/** A table of the fields of an object; what they are made of unfolds below them. */
export function fieldTable(schema, follow, label) {
  // Those that are always there come first, in the order of `required`.
  const names = new Set([...(schema.required ?? []), ...Object.keys(schema.properties)]);
  const rows = [...names].map((name) => fieldRow({ name, field: schema.properties[name], schema }, follow));
  return el("table", { class: "fields", "aria-label": label }, el("tbody", {}, ...rows));
}

function fieldRow({ name, field, schema }, follow) {
  const isOptional = !schema.required?.includes(name);
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, el("code", { text: name }), isOptional ? el("small", { text: "optional" }) : null),
    el("td", {}, ...described(field, follow)),
  );
}

/** Type, bounds, description and unfoldable parts of a value. */
export function described(field, follow, { isOpen = false } = {}) {
  const more = bounds(field);
  const text = field.description ?? (refName(field) && !follow(field).properties ? follow(field).description : "");
  return [
    el("p", { class: "type" }, ...shape(field), more ? `, ${more}` : ""),
    text ? el("p", {}, ...prose(text)) : null,
    ...[...objectsIn(field, follow)].map(([name, schema]) => unfold({ name, schema, isOpen }, follow)),
  ].filter(Boolean);
}

/** The fields of a schema, made when they are opened: schemas may name themselves. */
function unfold({ name, schema, isOpen }, follow) {
  const title = name ? `Fields of ${name}` : "Fields";
  const node = el("details", { class: "unfold" }, el("summary", { text: title }));
  const fill = () => {
    if (node.open && node.children.length === 1) node.append(fieldTable(schema, follow, title));
  };
  node.addEventListener("toggle", fill);
  if (isOpen) {
    node.open = true;
    fill();
  }
  return node;
}

/** All of a schema: what it is, its fields, its form and an example. */
export function wholeSchema(schema, follow) {
  const nodes = [];
  if (schema.description) nodes.push(el("p", {}, ...prose(schema.description)));
  if (schema.properties) nodes.push(fieldTable(schema, follow, "Fields"));
  else nodes.push(el("p", { class: "type" }, ...shape(schema), bounds(schema) ? `, ${bounds(schema)}` : ""));
  if (schema.pattern) nodes.push(el("p", { class: "muted" }, "Pattern ", el("code", { text: schema.pattern })));
  for (const example of schema.examples ?? []) {
    nodes.push(
      el("pre", {
        class: "code",
        tabindex: "0",
        role: "region",
        "aria-label": "Example",
        text: JSON.stringify(example, null, 2),
      }),
    );
  }
  return nodes;
}
