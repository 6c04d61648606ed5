// Stellar's own client calls every method of a server and prints the results: the test that serves real ledgers
// (crates/serve/tests/stellar_sdk.rs) compares them with the ledgers.
//   stellar.mjs URL FIRST_LEDGER

import { rpc } from "@stellar/stellar-sdk";

const [url, first] = [process.argv[2], Number(process.argv[3])];
const server = new rpc.Server(url, { allowHttp: true });
const xdr = (value) => value.toXdr("base64");

/** All items of a method that answers in pages. */
async function pages(ask, list) {
  const items = [];
  let at = { startLedger: first };
  for (;;) {
    const page = await ask(at);
    if (page[list].length === 0) return items;
    items.push(...page[list]);
    at = { cursor: page.cursor };
  }
}

const paged = ({ startLedger, cursor }, limit) =>
  cursor ? { pagination: { cursor, limit } } : { startLedger, pagination: { limit } };

const health = await server.getHealth();
const network = await server.getNetwork();
const latest = await server.getLatestLedger();
const ledgers = await pages((at) => server.getLedgers(paged(at, 7)), "ledgers");
const listed = await pages((at) => server.getTransactions(paged(at, 13)), "transactions");
const transactions = [];
for (const { txHash } of listed) transactions.push(await server.getTransaction(txHash));
const events = await pages((at) => server.getEvents({ ...at, filters: [], limit: 50 }), "events");
// These ledgers do not begin with the first one, so whether the transaction exists is unknown.
const missing = await server.getTransaction("ab".repeat(32)).then((tx) => tx.status, (error) => error.code);

const transaction = (tx) => ({
  status: tx.status,
  txHash: tx.txHash,
  ledger: tx.ledger,
  applicationOrder: tx.applicationOrder,
  feeBump: tx.feeBump,
  envelope: xdr(tx.envelopeXdr),
  result: xdr(tx.resultXdr),
  meta: xdr(tx.resultMetaXdr),
});

const read = {
  health: health.status,
  passphrase: network.passphrase,
  latest: { id: latest.id, sequence: latest.sequence, header: xdr(latest.headerXdr), meta: xdr(latest.metadataXdr) },
  ledgers: ledgers.map((one) => ({ sequence: one.sequence, hash: one.hash, meta: xdr(one.metadataXdr) })),
  listed: listed.map(transaction),
  transactions: transactions.map(transaction),
  events: events.map((one) => ({ id: one.id, txHash: one.txHash, topics: one.topic.map(xdr), value: xdr(one.value) })),
  missing,
};
process.stdout.write(JSON.stringify(read));
