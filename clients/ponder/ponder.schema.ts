// Every transfer, and the balances after all of them.

import { onchainTable, primaryKey } from "ponder";

export const transfer = onchainTable(
  "transfer",
  (t) => ({
    block: t.bigint().notNull(),
    logIndex: t.integer().notNull(),
    timestamp: t.bigint().notNull(),
    transactionHash: t.hex().notNull(),
    from: t.hex().notNull(),
    to: t.hex().notNull(),
    value: t.bigint().notNull(),
  }),
  (table) => ({ key: primaryKey({ columns: [table.block, table.logIndex] }) }),
);

export const holder = onchainTable("holder", (t) => ({
  address: t.hex().primaryKey(),
  balance: t.bigint().notNull(),
  transfers: t.integer().notNull(),
}));
