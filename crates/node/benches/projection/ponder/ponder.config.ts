// One contract on one chain, set up for speed. Where the chain is read and where the rows go comes from
// the environment.

import { createConfig } from "ponder";
import { parseAbi } from "viem";

const abi = parseAbi([
  "event FeesCollected(address indexed token, address indexed integrator, uint256 integratorFee, uint256 lifiFee)",
]);

const { BENCH_RPC_URL: url = "", BENCH_RPC_URLS: urls = "1" } = process.env;

export default createConfig({
  database: { kind: "postgres", connectionString: process.env.BENCH_DATABASE_URL },
  chains: {
    bench: {
      id: Number(process.env.BENCH_CHAIN_ID),
      // Ponder begins with 20 requests a second for each URL and raises that by 5 % at a time: with one
      // URL it takes five times as long. Named so often, the one node is asked as fast as Ponder can ask.
      rpc: Array.from({ length: Number(urls) }, () => url),
      // What the node allows: told, Ponder need not find it out.
      ethGetLogsBlockRange: Number(process.env.BENCH_BLOCKS_MAX),
      pollingInterval: 100,
      // Nothing of an earlier run is there to be used: one write less.
      disableCache: true,
    },
  },
  contracts: {
    FeeCollector: {
      chain: "bench",
      abi,
      address: process.env.BENCH_CONTRACT as `0x${string}`,
      startBlock: 0,
    },
  },
});
