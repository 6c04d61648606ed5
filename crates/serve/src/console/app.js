// The console: which page is at which address. It only reads; everything that it knows is in the public API.

import { blockPage } from "./block.js";
import { chainPage } from "./chain.js";
import { byId, setText } from "./dom.js";
import { startHeader, setPage } from "./header.js";
import { listen, startLive } from "./live.js";
import { logsPage } from "./logs.js";
import { overviewPage } from "./overview.js";
import { projectionsPage } from "./projections.js";
import { startRouter } from "./router.js";
import { searchPage } from "./search.js";
import { transactionPage } from "./transaction.js";
import { startWide } from "./wide.js";
import { span } from "./words.js";

startHeader({ live: true });
startWide();
startLive();
listen(({ version, uptimeSeconds }) =>
  setText(byId("about"), `Chronolith ${version}, up for ${span(uptimeSeconds, 2)}. All times are UTC.`),
);
startRouter(
  [
    ["/", "overview", overviewPage],
    ["/chains/{chainId}", "overview", chainPage],
    ["/chains/{chainId}/blocks/{block}", "", blockPage],
    ["/chains/{chainId}/transactions/{hash}", "", transactionPage],
    ["/logs", "logs", logsPage],
    ["/search", "", searchPage],
    ["/projections", "projections", projectionsPage],
  ],
  setPage,
);
