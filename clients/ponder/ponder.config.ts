// One token on one chain. The environment names the node and the database; nothing else differs between the two
// runs.

import { createConfig } from "ponder";
import { parseAbi } from "viem";

const abi = parseAbi(["event Transfer(address indexed from, address indexed to, uint256 value)"]);

export default createConfig({
  database: { kind: "pglite", directory: process.env.CLIENTS_DATABASE },
  chains: { local: { id: 31337, rpc: process.env.CLIENTS_RPC_URL, pollingInterval: 200, disableCache: true } },
  contracts: {
    Token: { chain: "local", abi, address: process.env.CLIENTS_TOKEN as `0x${string}`, startBlock: 0 },
  },
});
