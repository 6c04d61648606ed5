// The handler of each transfer.

import { ponder } from "ponder:registry";
import { holder, transfer } from "ponder:schema";

ponder.on("Token:Transfer", async ({ event, context }) => {
  const { from, to, value } = event.args;
  await context.db.insert(transfer).values({
    block: event.block.number,
    logIndex: event.log.logIndex,
    timestamp: event.block.timestamp,
    transactionHash: event.transaction.hash,
    from,
    to,
    value,
  });
  for (const [address, change] of [[from, -value], [to, value]] as const) {
    await context.db
      .insert(holder)
      .values({ address, balance: change, transfers: 1 })
      .onConflictDoUpdate((row) => ({ balance: row.balance + change, transfers: row.transfers + 1 }));
  }
});
