// Ponder wants an interface; nothing is asked of it.

import { Hono } from "hono";

export default new Hono();
