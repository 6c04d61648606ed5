// The two contracts of the test chain, as instructions that are assembled at deployment: no compiler is needed.

/** The first and the second contract of the node's first account: addresses follow from that. */
export const TOKEN = "0x5fbdb2315678afecb367f032d93f642f64180aa3";
export const NOISE = "0xe7f1725e7734ce288f8367e1bb143e90bb3f0512";

/** Transfer(address,address,uint256) and Approval(address,address,uint256). */
export const TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
export const APPROVAL = "0x8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925";

const SUPPLY = "d3c21bcecceda1000000"; // a million, with 18 decimals

const CODES = {
  STOP: "00", ADD: "01", SUB: "03", LT: "10", EQ: "14", ISZERO: "15", SHR: "1c", CALLER: "33",
  CALLDATALOAD: "35", CALLDATASIZE: "36", CALLDATACOPY: "37", CODECOPY: "39", MSTORE: "52",
  SLOAD: "54", SSTORE: "55", JUMPI: "57", JUMPDEST: "5b", DUP1: "80", DUP2: "81", SWAP1: "90",
  LOG0: "a0", LOG1: "a1", LOG2: "a2", LOG3: "a3", LOG4: "a4", RETURN: "f3", REVERT: "fd",
};

/** Hex words are pushed as they are; everything else is an instruction. */
function assemble(source) {
  const lines = source.split("\n").map((line) => line.split(";")[0]);
  const words = lines.join(" ").split(/\s+/).filter(Boolean);
  const push = (word) => {
    const digits = word.slice(2);
    return (0x5f + digits.length / 2).toString(16) + digits;
  };
  return words.map((word) => (word.startsWith("0x") ? push(word) : CODES[word])).join("");
}

/** Puts `before` into the chain once, and leaves `body` there for ever. */
function deployment(before, body) {
  const size = (body.length / 2).toString(16).padStart(2, "0");
  const start = (offset) => assemble(`${before} 0x${size} 0x${offset} 0x00 CODECOPY 0x${size} 0x00 RETURN`);
  const offset = (start("00").length / 2).toString(16).padStart(2, "0");
  return `0x${start(offset)}${body}`;
}

// An ERC-20 with `transfer` only. The storage key of a balance is its holder's address.
const TOKEN_BODY = assemble(`
  0x00 CALLDATALOAD 0xe0 SHR 0xa9059cbb EQ ISZERO 0x61 JUMPI  ; only transfer(to, value)
  0x24 CALLDATALOAD CALLER SLOAD                 ; value, balance
  DUP2 DUP2 LT 0x61 JUMPI                        ; refused where the balance is below the value
  DUP2 SWAP1 SUB CALLER SSTORE                   ; value; the sender's balance is lower
  DUP1 0x04 CALLDATALOAD SLOAD ADD               ; value, the receiver's new balance
  0x04 CALLDATALOAD SSTORE                       ; value
  0x00 MSTORE                                    ; the log's data
  0x04 CALLDATALOAD CALLER ${TRANSFER} 0x20 0x00 LOG3
  0x01 0x00 MSTORE 0x20 0x00 RETURN              ; true
  JUMPDEST 0x00 DUP1 REVERT                      ; at 0x61
`);

export const TOKEN_CODE = deployment(
  `0x${SUPPLY} DUP1 CALLER SSTORE 0x00 MSTORE CALLER 0x00 ${TRANSFER} 0x20 0x00 LOG3`,
  TOKEN_BODY,
);

// Five logs a call, with none to four topics: the first words of the input. The last has no data.
export const NOISE_CODE = deployment("", assemble(`
  CALLDATASIZE 0x00 0x00 CALLDATACOPY
  CALLDATASIZE 0x00 LOG0
  0x00 CALLDATALOAD 0x40 0x00 LOG1
  0x20 CALLDATALOAD 0x00 CALLDATALOAD 0x20 0x20 LOG2
  0x40 CALLDATALOAD 0x20 CALLDATALOAD 0x00 CALLDATALOAD 0x21 0x00 LOG3
  0x60 CALLDATALOAD 0x40 CALLDATALOAD 0x20 CALLDATALOAD 0x00 CALLDATALOAD 0x00 0x00 LOG4
  STOP
`));

export const word = (value) => value.toString(16).replace(/^0x/, "").padStart(64, "0");
export const topic = (value) => `0x${word(value)}`;
export const transferInput = (to, value) => `0xa9059cbb${word(to)}${word(value)}`;
