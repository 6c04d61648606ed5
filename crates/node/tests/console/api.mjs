// What the API says, beside what the page shows of it.

import { DEADLINE_MS, fail } from "./browser.mjs";

const PROBE_MS = 1_000;
const OVERVIEW = "/v1/overview";

export class Api {
  constructor(base, chainId) {
    this.origin = new URL(base).origin;
    this.chainId = chainId;
  }

  /** An answer, also where it refuses. */
  async get(route) {
    const response = await fetch(this.origin + route);
    return { status: response.status, body: await response.json() };
  }

  /** An answer that must be there. */
  async must(route) {
    const { status, body } = await this.get(route);
    if (status !== 200) fail(`the API refuses ${route}: ${JSON.stringify(body)}`);
    return body;
  }

  async call(method, params) {
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
    const response = await fetch(`${this.origin}/${this.chainId}`, { method: "POST", body });
    const answer = await response.json();
    if (answer.error) fail(`${method}: ${JSON.stringify(answer.error)}`);
    return answer.result;
  }

  async chain() {
    return this.chainIn(await this.must("/v1/overview"));
  }

  chainIn(overview) {
    const chain = overview.chains.find((each) => String(each.chainId) === this.chainId);
    return chain ?? fail(`the API has no chain ${this.chainId}`);
  }

  /**
   * Waits until the page shows what its own poll of `path` brought. `expect(answer)` says what that is, or null while
   * the API is not there yet; `probe` looks for it on the page.
   */
  async untilShown(page, what, expect, probe, path = OVERVIEW) {
    const ends = Date.now() + DEADLINE_MS;
    let expected = null;
    while (Date.now() < ends) {
      const response = await this.nextPoll(page, what, path);
      expected = expect(await response.json());
      if (expected === null) continue;
      // The next poll may bring a newer head: then that one is looked for.
      const shown = page.waitForFunction(probe, expected, { timeout: PROBE_MS });
      if (
        await shown.then(
          () => true,
          () => false,
        )
      )
        return expected;
    }
    return fail(`${what}: not within ${DEADLINE_MS / 1000} s, expected ${JSON.stringify(expected)}`);
  }

  /** The answer to the page's next poll. */
  async nextPoll(page, what, path = OVERVIEW) {
    const answered = page.waitForResponse((response) => response.url().endsWith(path), {
      timeout: DEADLINE_MS,
    });
    return answered.catch(() => fail(`${what}: the page has not asked for ${path} for ${DEADLINE_MS / 1000} s`));
  }
}

/** Digits of a text as a number. */
export const digits = (text) => Number(text.replace(/\D/g, ""));
