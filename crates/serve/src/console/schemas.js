// Schemas in words and tables.

import { el } from "./dom.js";

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
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1);
    return [el("a", { href: `#schema-${name}`, text: name })];
  }
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices) return joined(choices.map(shape), " or ");
  if (schema.const !== undefined) return [el("code", { text: JSON.stringify(schema.const) })];
  if (schema.enum) return joined(schema.enum.map((value) => [el("code", { text: value })]), " or ");
  if (schema.prefixItems) return ["[", ...joined(schema.prefixItems.map(shape), ", "), "]"];
  if (schema.items && schema.type === "array") return ["list of ", ...shape(schema.items)];
  const types = [schema.type ?? "anything"].flat().join(" or ");
  return [schema.format ? `${types} (${schema.format})` : types];
}

/** A schema with its fields, limits and an example. */
export function schemaTable(schema) {
  const nodes = [];
  if (schema.description) nodes.push(el("p", {}, ...prose(schema.description)));
  if (!schema.properties) nodes.push(el("p", {}, "It is ", ...shape(schema), "."));
  else nodes.push(fields(schema));
  if (schema.pattern) nodes.push(el("p", {}, "It looks like ", el("code", { text: schema.pattern }), "."));
  if (schema["x-result"]) nodes.push(el("p", {}, "The result is ", ...shape(schema["x-result"]), "."));
  for (const example of schema.examples ?? []) {
    nodes.push(el("pre", { class: "code", tabindex: "0", text: JSON.stringify(example, null, 2) }));
  }
  return nodes;
}

function fields(schema) {
  // Those that are always there come first, in the order of `required`.
  const names = new Set([...(schema.required ?? []), ...Object.keys(schema.properties)]);
  const rows = [...names].map((name) => [name, schema.properties[name]]).map(([name, field]) =>
    el(
      "tr",
      {},
      el("td", {}, el("code", { text: name }), schema.required?.includes(name) ? "" : " (optional)"),
      el("td", {}, ...shape(field)),
      el("td", {}, ...prose(field.description)),
    ),
  );
  return table(["Field", "Type", "What"], rows);
}

/** A table that scrolls by itself where the page is narrow. */
export function table(names, rows) {
  const head = el("tr", {}, ...names.map((name) => el("th", { scope: "col", text: name })));
  return el(
    "div",
    { class: "fields", tabindex: "0", role: "region", "aria-label": names[0] },
    el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows)),
  );
}

/** Opens what the address names: a closed part cannot be scrolled to. */
export function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!(target instanceof HTMLDetailsElement)) return;
  target.open = true;
  target.scrollIntoView();
}

addEventListener("hashchange", openTarget);
