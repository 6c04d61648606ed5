// A row for each fee. Inserts through `context.db` are gathered in memory and copied into PostgreSQL: the
// way that Ponder's documentation calls the fastest.

import { ponder } from "ponder:registry";
import { fee } from "ponder:schema";

ponder.on("FeeCollector:FeesCollected", async ({ event, context }) => {
  await context.db.insert(fee).values({
    chainId: context.chain.id,
    blockNumber: event.block.number,
    blockHash: event.block.hash,
    blockTimestamp: event.block.timestamp,
    txHash: event.transaction.hash,
    logIndex: event.log.logIndex,
    token: event.args.token,
    integrator: event.args.integrator,
    integratorFee: event.args.integratorFee,
    lifiFee: event.args.lifiFee,
  });
});
