// All rows in one answer, in an order that does not depend on their arrival.

import { Hono } from "hono";
import { asc } from "ponder";
import { db } from "ponder:api";
import { holder, transfer } from "ponder:schema";

const app = new Hono();

app.get("/rows", async (c) => {
  const transfers = await db.select().from(transfer).orderBy(asc(transfer.block), asc(transfer.logIndex));
  const holders = await db.select().from(holder).orderBy(asc(holder.address));
  const text = JSON.stringify({ transfers, holders }, (_, value) => (typeof value === "bigint" ? `${value}` : value));
  return c.body(text, 200, { "content-type": "application/json" });
});

export default app;
