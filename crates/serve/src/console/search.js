// What the search box found: a list for each thing that the text may mean, with the answer of every chain. All chains
// are asked at once, and each says for itself what it knows; that a chain does not know something is not told as if
// it did not exist.

import { byId, el, setAttr, setText, sync } from "./dom.js";
import { chainPath, isStellar, searchPath } from "./links.js";
import { chainNamed, chains, hasAnswered } from "./live.js";
import { meanings } from "./query.js";
import { refusalWords } from "./refusal.js";
import { go } from "./router.js";
import { questionsOf } from "./search_questions.js";
import { counted } from "./words.js";

/** Requests that wait for an answer at the same time. */
const AT_ONCE = 6;

export function searchPage(_params, query) {
  const text = (query.get("q") ?? "").trim();
  const scope = query.get("chain") ?? "";
  const options = {
    direction: query.get("direction") ?? "before",
    inclusive: query.get("inclusive") ?? "true",
  };
  const title = el(
    "h1",
    {},
    text === "" ? "Search" : "Results for ",
    el("span", { class: "mono asked", text }),
  );
  const select = el(
    "select",
    { id: "search-scope", "aria-label": "Chains to ask" },
    el("option", { value: "", text: "all chains" }),
  );
  const list = el("div", { class: "view", id: "found" });
  const node = el(
    "div",
    {},
    el("div", { class: "title" }, title, el("div", { class: "tools" }, select)),
    list,
  );
  const ended = new AbortController();
  let isAsked = false;
  byId("search-box").value = text;
  select.addEventListener("change", () => go(searchPath(text, { chain: select.value, ...given(query) })));

  function ask() {
    const all = chains();
    sync(select, [{ chainId: "", name: "all chains" }, ...all], ({ chainId }) => chainId, chainOption);
    select.value = scope === "" ? "" : String(chainNamed(scope)?.chainId ?? "");
    const found = meanings(text, all);
    const questions = found.flatMap((meaning) => questionsOf(meaning, options));
    if (text === "" || questions.length === 0) {
      list.replaceChildren(hint(text));
      return;
    }
    const asked = questions.map((question) => ({
      question,
      section: section(question, { text, scope, options }),
    }));
    list.replaceChildren(...asked.map(({ section: { node: each } }) => each));
    const jobs = asked.flatMap(({ question, section: place }) => {
      const one = question.chain ?? (scope === "" ? undefined : chainNamed(scope));
      const targets = one ? [one] : question.kind === "chain" ? [] : all;
      place.begin(targets.length);
      return targets.map((chain) => () => answer(question, chain, place));
    });
    work(jobs);
  }

  async function answer(question, chain, place) {
    if (question.isForEvm && isStellar(chain)) {
      place.skip(chain, "Transactions of Stellar networks are searched over their RPC");
      return;
    }
    try {
      const nodes = await question.ask(chain, ended.signal);
      if (ended.signal.aborted) return;
      if (nodes === null) place.none(chain);
      else if (typeof nodes === "string") place.skip(chain, nodes);
      else place.found(chain, nodes);
    } catch (error) {
      if (!ended.signal.aborted) place.refused(chain, error);
    }
  }

  return {
    node,
    title: text === "" ? "Search" : `${text.slice(0, 20)} · Search`,
    update() {
      if (isAsked || !hasAnswered()) return;
      isAsked = true;
      ask();
    },
    close: () => {
      ended.abort();
      byId("search-box").value = "";
    },
  };
}

function given(query) {
  return { direction: query.get("direction"), inclusive: query.get("inclusive") };
}

function chainOption({ chainId, name }) {
  return { node: el("option", { value: chainId, text: name }), update: () => {} };
}

async function work(jobs) {
  const rest = [...jobs];
  const worker = async () => {
    for (let job = rest.shift(); job; job = rest.shift()) await job();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

/** What one question found: first the chains that have it, then those that cannot say, then those that have it not. */
function section(question, place) {
  const status = el("p", { class: "hint", role: "status" });
  const hits = el("ul", { class: "hits" });
  const unsure = el("ul", { class: "unsure" });
  const not = el("ul", { class: "not" });
  const absent = el("details", { hidden: true }, el("summary"), not);
  const panel = el("div", { class: "panel" }, hits, unsure);
  const extra = question.controls?.(place) ?? null;
  const node = el(
    "section",
    { "data-question": question.kind, "aria-label": question.title },
    el("div", { class: "title" }, el("h2", { text: question.title }), extra),
    status,
    panel,
    absent,
  );
  const counts = { all: 0, done: 0, found: 0, unsure: 0, not: 0 };

  function told() {
    counts.done += 1;
    const waits = counts.all - counts.done;
    const parts = [`found on ${counted(counts.found, "chain")}`];
    if (counts.unsure > 0) parts.push(`${counted(counts.unsure, "chain")} cannot say`);
    if (waits > 0) parts.push(`${counted(waits, "chain")} still asked`);
    setText(
      status,
      `${parts.join(", ")}.`.replace(/^./, (letter) => letter.toUpperCase()),
    );
    panel.hidden = counts.found + counts.unsure === 0;
    absent.hidden = counts.not === 0;
    setText(
      absent.firstChild,
      `${counted(counts.not, "chain")} ${counts.not === 1 ? "has" : "have"} no such ${question.noun}`,
    );
    setAttr(node, "data-done", waits === 0);
  }

  const item = (chain, ...nodes) =>
    el(
      "li",
      { "data-chain": chain.chainId },
      el("a", { class: "of", href: chainPath(chain.chainId), text: chain.name }),
      el("div", { class: "hit" }, ...nodes),
    );
  return {
    node,
    begin(all) {
      counts.all = all;
      for (const ready of question.nodes ?? []) hits.append(el("li", {}, ready));
      panel.hidden = (question.nodes ?? []).length === 0;
      setText(status, all > 0 ? `Asking ${counted(all, "chain")} …` : "");
      if (all === 0) setAttr(node, "data-done", true);
    },
    found(chain, nodes) {
      counts.found += 1;
      hits.append(item(chain, ...nodes));
      told();
    },
    none(chain) {
      counts.not += 1;
      not.append(item(chain, el("span", { class: "muted", text: `no such ${question.noun}` })));
      told();
    },
    skip(chain, words) {
      counts.unsure += 1;
      unsure.append(item(chain, el("span", { class: "muted", text: words })));
      told();
    },
    refused(chain, error) {
      const { word, why, tone } = refusalWords(error);
      if (tone === null) {
        this.none(chain);
        return;
      }
      counts.unsure += 1;
      unsure.append(
        item(
          chain,
          el("span", { class: "state", "data-tone": tone, text: word }),
          el("span", { class: "muted", text: why }),
        ),
      );
      told();
    },
  };
}

function hint(text) {
  const kinds = [
    ["A block", "20266, 0x4f2a, latest, or a hash of 64 digits"],
    ["A transaction", "a hash of 64 digits"],
    ["A topic of logs", "64 digits, or the name of a known event, such as Transfer"],
    ["A contract", "an address of 40 digits: its logs"],
    ["A time, UTC", "2026-11-19, 2026-11-19T14:00:00Z, seconds or milliseconds"],
    ["A chain", "its name or id; before any of these, it asks only that chain"],
  ];
  const rows = kinds.map(([kind, how]) => el("div", {}, el("dt", { text: kind }), el("dd", { text: how })));
  const words =
    text === ""
      ? "The search box takes:"
      : "That is no address, hash, block, time or chain. The search box takes:";
  return el(
    "section",
    { "aria-label": "What can be searched for" },
    el("p", { class: text === "" ? "muted" : "error", text: words }),
    el("dl", { class: "panel facts" }, ...rows),
  );
}
