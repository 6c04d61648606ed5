// The columns that every side of the bench fills. Ponder writes their names with underscores.

import { onchainTable, primaryKey } from "ponder";

export const fee = onchainTable(
  "fee",
  (t) => ({
    chainId: t.integer().notNull(),
    blockNumber: t.int8({ mode: "bigint" }).notNull(),
    blockHash: t.hex().notNull(),
    blockTimestamp: t.int8({ mode: "bigint" }).notNull(),
    txHash: t.hex().notNull(),
    logIndex: t.integer().notNull(),
    token: t.hex().notNull(),
    integrator: t.hex().notNull(),
    integratorFee: t.bigint().notNull(),
    lifiFee: t.bigint().notNull(),
  }),
  (table) => ({ key: primaryKey({ columns: [table.chainId, table.txHash, table.logIndex] }) }),
);
