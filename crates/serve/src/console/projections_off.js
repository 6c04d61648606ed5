// How projections are turned on, where there are none.

import { el } from "./dom.js";

export function howToTurnOn() {
  const part = (text) =>
    el("button", { type: "button", class: "hash", "data-copy": text, title: "copy", text });
  const code = (text) => el("code", { text });
  const steps = [
    [
      "Name the contracts of a chain in the settings file: for fees ",
      part('"fees": true'),
      " in its entry, for ADFS its ",
      code("contractAddress"),
      " with ",
      code("topicNames"),
      ", ",
      code("versions"),
      " and ",
      code("implVersionMap"),
      ".",
    ],
    [
      "Say where PostgreSQL 15 or newer is: ",
      part("export PG_URL=postgres://postgres@127.0.0.1:5432/chronolith"),
    ],
    ["Make roles and tables, once: ", part("chronolith db init")],
    ["Start the node again: ", part("chronolith run")],
  ];
  return el(
    "section",
    { id: "off", "aria-labelledby": "off-title", hidden: true },
    el("h2", { id: "off-title", text: "Nothing is projected here" }),
    el(
      "div",
      { class: "panel steps" },
      el("p", {
        text: "Projections put events of contracts into PostgreSQL as rows: pending as soon as a block is known, confirmed when it is final, dropped when it was replaced. To turn them on:",
      }),
      el("ol", {}, ...steps.map((step) => el("li", {}, ...step))),
    ),
  );
}
