// Creates the history that the clients read: an ERC-20 with some hundred transfers in a few large blocks, another
// contract with similar logs, and transactions of every type that the node supports.
//   node feed.mjs NODE_URL

import { pathToFileURL } from "node:url";
import { createWalletClient, http } from "viem";
import { mnemonicToAccount } from "viem/accounts";
import { anvil } from "viem/chains";
import { APPROVAL, NOISE, NOISE_CODE, TOKEN, TOKEN_CODE, TRANSFER, transferInput, word } from "./contracts.mjs";
import { call, headOf, hex } from "./rpc.mjs";

const FAT_BLOCKS = 12;
const THIN_BLOCKS = 45;
const TRANSFERS_PER_BLOCK = 40;
const NOISE_PER_BLOCK = 6;
const GAS = "0x30d40";

/** Sends without waiting for a block; the node keeps the order of arrival. */
function sender(url, accounts) {
  const send = (transaction) => call(url, "eth_sendTransaction", { gas: GAS, ...transaction });
  const transfer = (from, to, value, more) =>
    send({ from: accounts[from], to: TOKEN, data: transferInput(accounts[to], value), ...more });
  const noise = (from, first, number) => {
    const topics = [first, accounts[from], accounts[number % accounts.length], hex(number)];
    return send({ from: accounts[from], to: NOISE, data: `0x${topics.map(word).join("")}` });
  };
  return { send, transfer, noise };
}

/** Fields that make a transaction one of the three types that a node signs by itself. */
function typed(number) {
  const accessList = [{ address: TOKEN, storageKeys: [`0x${word(number)}`] }];
  const price = { gasPrice: "0x77359400" };
  return [price, { maxFeePerGas: "0x77359400", maxPriorityFeePerGas: "0x1" }, { ...price, accessList }][number % 3];
}

/** A transaction that delegates an account's code. Nodes do not sign these: a library does. */
async function delegate(url) {
  const account = mnemonicToAccount("test test test test test test test test test test test junk", { addressIndex: 9 });
  const wallet = createWalletClient({ account, chain: anvil, transport: http(url) });
  const authorization = await wallet.signAuthorization({ contractAddress: NOISE, executor: "self" });
  await wallet.sendTransaction({ authorizationList: [authorization], to: account.address, data: "0x", gas: 200_000n });
}

async function fatBlock(url, accounts, block) {
  const { send, transfer, noise } = sender(url, accounts);
  const others = accounts.length - 1;
  for (let at = 0; at < TRANSFERS_PER_BLOCK; at++) {
    const [from, to] = [at % others, (at * 7 + block) % others];
    await transfer(from, to, block * 1_000 + at, typed(at));
  }
  for (let at = 0; at < NOISE_PER_BLOCK; at++) {
    await noise(at, at % 2 ? APPROVAL : TRANSFER, block * 100 + at);
  }
  // A reverted one, and one without input: transactions without logs.
  await transfer(1, 2, 10n ** 30n);
  await send({ from: accounts[3], to: accounts[4], value: hex(block) });
  await call(url, "evm_mine");
}

/** One block with two transfers and something else. `salt` makes it unlike all others. */
export async function thinBlock(url, salt) {
  const accounts = await call(url, "eth_accounts");
  const { transfer, noise } = sender(url, accounts);
  await transfer(salt % 9, (salt + 1) % 9, 5_000_000 + salt);
  await noise(2, TRANSFER, salt);
  await transfer((salt + 2) % 9, salt % 9, 6_000_000 + salt);
  await call(url, "evm_mine");
}

/** A transfer that is not sent yet, for a block that replaces another one. */
export async function otherTransfer(url, value) {
  const accounts = await call(url, "eth_accounts");
  return { from: accounts[5], to: TOKEN, data: transferInput(accounts[6], value), gas: GAS };
}

async function deploy(url, accounts) {
  const { send } = sender(url, accounts);
  const sent = [];
  for (const data of [TOKEN_CODE, NOISE_CODE]) sent.push(await send({ from: accounts[0], data, gas: "0xf4240" }));
  await call(url, "evm_mine");
  for (const [at, expected] of [TOKEN, NOISE].entries()) {
    const receipt = await call(url, "eth_getTransactionReceipt", sent[at]);
    if (receipt.contractAddress !== expected) throw new Error(`deployed elsewhere (at=${receipt.contractAddress})`);
  }
}

async function feed(url) {
  const accounts = await call(url, "eth_accounts");
  await deploy(url, accounts);
  const { transfer } = sender(url, accounts);
  for (let to = 1; to < accounts.length; to++) await transfer(0, to, 10n ** 18n, typed(to));
  await call(url, "evm_mine");
  for (let block = 0; block < FAT_BLOCKS; block++) await fatBlock(url, accounts, block);
  await delegate(url);
  await call(url, "evm_mine");
  // The newest block has logs, the two before it have none, and so on.
  for (let block = 1; block <= THIN_BLOCKS; block++) {
    if (block % 3) await call(url, "evm_mine");
    else await thinBlock(url, block);
  }
  const logs = await call(url, "eth_getLogs", { fromBlock: "0x0", toBlock: "latest" });
  const transfers = logs.filter((log) => log.address === TOKEN);
  const expected = accounts.length + FAT_BLOCKS * TRANSFERS_PER_BLOCK + (THIN_BLOCKS / 3) * 2;
  if (transfers.length !== expected) throw new Error(`${transfers.length} transfers, not ${expected}`);
  console.log(`fed: ${await headOf(url)} blocks, ${transfers.length} transfers, ${logs.length} logs`);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await feed(process.argv[2]);
