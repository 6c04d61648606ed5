// The page of the description: it shows every operation and schema, each form is answered, and it fits
// a phone.

/** Whether an operation is answered with a page, which has a link instead of a form. */
function isPage(operation) {
  return Boolean(operation.responses["200"].content?.["text/html"]);
}

/** `fail(message)` ends it all. The page must not have been used before. */
export async function triesEverything(page, origin, { fail, phone }) {
  page.on("pageerror", (error) => fail(`/docs: an error on the page: ${error.stack}`));
  page.on("console", (message) => {
    // A refused request is noted too: the examples are of another chain.
    if (message.text().includes("Content Security Policy")) fail(`/docs: ${message.text()}`);
  });
  const description = await (await fetch(`${origin}/openapi.json`)).json();
  const operations = Object.values(description.paths).flatMap((item) => Object.values(item));
  await page.goto(`${origin}/docs#schema-Log`);
  // What the address names is opened.
  await page.waitForSelector("#schema-Log[open]");
  const counted = [await page.locator(".operation").count(), await page.locator(".schema").count()];
  const expected = [operations.length, Object.keys(description.components.schemas).length];
  if (String(counted) !== String(expected)) fail(`/docs shows ${counted} operations and schemas, expected ${expected}`);

  await page.evaluate(() => document.querySelectorAll("details").forEach((part) => (part.open = true)));
  for (const operation of operations.filter((each) => !isPage(each))) {
    const form = page.locator(`#op-${operation.operationId} form`);
    await form.locator("button[type=submit]").click();
    const said = await form.locator("[data-field=status]").textContent();
    const status = said.split(",")[0];
    if (!operation.responses[status]) fail(`/docs: ${operation.operationId} was answered with ${said}`);
  }
  await page.setViewportSize(phone);
  const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  if (beyond > 0) fail(`/docs is ${beyond} pixels wider than a phone`);
  console.log(`ok (j) /docs: ${counted[0]} operations, ${counted[1]} schemas`);
}
