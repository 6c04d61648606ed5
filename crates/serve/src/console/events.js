// Events that the console names: the first topic, and the event as Solidity declares it.
//
// Contracts may use a declaration for anything: only a log whose topics and data fit one exactly is decoded. Where
// declarations have the same first topic, they differ in what is indexed. A test computes every topic.

/** `[first topic, declaration]`. */
export const EVENTS = [
  // Tokens: ERC-20, ERC-721, ERC-1155, wrapped native tokens, vaults.
  ["0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef", "Transfer(address indexed from, address indexed to, uint256 value)"],
  ["0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef", "Transfer(address indexed from, address indexed to, uint256 indexed tokenId)"],
  ["0x8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925", "Approval(address indexed owner, address indexed spender, uint256 value)"],
  ["0x8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925", "Approval(address indexed owner, address indexed approved, uint256 indexed tokenId)"],
  ["0x17307eab39ab6107e8899845ad3d59bd9653f200f220920489ca2b5937696c31", "ApprovalForAll(address indexed owner, address indexed operator, bool approved)"],
  ["0xc3d58168c5ae7397731d063d5bbf3d657854427343f4c083240f7aacaa2d0f62", "TransferSingle(address indexed operator, address indexed from, address indexed to, uint256 id, uint256 value)"],
  ["0x4a39dc06d4c0dbc64b70af90fd698a233a518aa5d07e595d983b8c0526c8f7fb", "TransferBatch(address indexed operator, address indexed from, address indexed to, uint256[] ids, uint256[] values)"],
  ["0x6bb7ff708619ba0610cba295a58592e0451dee2622938c8755667688daf3529b", "URI(string value, uint256 indexed id)"],
  ["0xe1fffcc4923d04b559f4d29a8bfc6cda04eb5b0d3c460751c2402c5c5cc9109c", "Deposit(address indexed dst, uint256 wad)"],
  ["0x7fcf532c15f0a6db0bd6d0e038bea71d30d808c7d98cb3bf7268a95bf5081b65", "Withdrawal(address indexed src, uint256 wad)"],
  ["0xdcbc1c05240f31ff3ad067ef1ee35ce4997762752e3a095284754544f4c709d7", "Deposit(address indexed sender, address indexed owner, uint256 assets, uint256 shares)"],
  ["0xfbde797d201c681b91056529119e0b02407c7bb96a4a2c75c01fc9667232c8db", "Withdraw(address indexed sender, address indexed receiver, address indexed owner, uint256 assets, uint256 shares)"],
  ["0xf8e1a15aba9398e019f0b49df1a4fde98ee17ae345cb5f6b5e2c27f5033e8ce7", "MetadataUpdate(uint256 _tokenId)"],
  ["0x6bd5c950a8d8df17f772f5af37cb3655737899cbf903264b9795592da439661c", "BatchMetadataUpdate(uint256 _fromTokenId, uint256 _toTokenId)"],
  ["0xdeaa91b6123d068f5821d0fb0678463d1a8a6079fe8af5de3ce5e896dcf9133d", "ConsecutiveTransfer(uint256 indexed fromTokenId, uint256 toTokenId, address indexed fromAddress, address indexed toAddress)"],
  // Uniswap v2, v3 and v4.
  ["0x0d3648bd0f6ba80134a33ba9275ac585d9d315f0ad8355cddefde31afa28d0e9", "PairCreated(address indexed token0, address indexed token1, address pair, uint256 length)"],
  ["0x4c209b5fc8ad50758f13e2e1088ba56a560dff690a1c6fef26394f4c03821c4f", "Mint(address indexed sender, uint256 amount0, uint256 amount1)"],
  ["0xdccd412f0b1252819cb1fd330b93224ca42612892bb3f4f789976e6d81936496", "Burn(address indexed sender, uint256 amount0, uint256 amount1, address indexed to)"],
  ["0xd78ad95fa46c994b6551d0da85fc275fe613ce37657fb8d5e3d130840159d822", "Swap(address indexed sender, uint256 amount0In, uint256 amount1In, uint256 amount0Out, uint256 amount1Out, address indexed to)"],
  ["0x1c411e9a96e071241c2f21f7726b17ae89e3cab4c78be50e062b03a9fffbbad1", "Sync(uint112 reserve0, uint112 reserve1)"],
  ["0x783cca1c0412dd0d695e784568c96da2e9c22ff989357a2e8b1d9b2b4e6b7118", "PoolCreated(address indexed token0, address indexed token1, uint24 indexed fee, int24 tickSpacing, address pool)"],
  ["0x98636036cb66a9c19a37435efc1e90142190214e8abeb821bdba3f2990dd4c95", "Initialize(uint160 sqrtPriceX96, int24 tick)"],
  ["0x7a53080ba414158be7ec69b987b5fb7d07dee101fe85488f0853ae16239d0bde", "Mint(address sender, address indexed owner, int24 indexed tickLower, int24 indexed tickUpper, uint128 amount, uint256 amount0, uint256 amount1)"],
  ["0x0c396cd989a39f4459b5fa1aed6a9a8dcdbc45908acfd67e028cd568da98982c", "Burn(address indexed owner, int24 indexed tickLower, int24 indexed tickUpper, uint128 amount, uint256 amount0, uint256 amount1)"],
  ["0xc42079f94a6350d7e6235f29174924f928cc2ac818eb64fed8004e115fbcca67", "Swap(address indexed sender, address indexed recipient, int256 amount0, int256 amount1, uint160 sqrtPriceX96, uint128 liquidity, int24 tick)"],
  ["0x70935338e69775456a85ddef226c395fb668b63fa0115f5f20610b388e6ca9c0", "Collect(address indexed owner, address recipient, int24 indexed tickLower, int24 indexed tickUpper, uint128 amount0, uint128 amount1)"],
  ["0x40d0efd1a53d60ecbf40971b9daf7dc90178c3aadc7aab1765632738fa8b8f01", "Collect(uint256 indexed tokenId, address recipient, uint256 amount0, uint256 amount1)"],
  ["0xbdbdb71d7860376ba52b25a5028beea23581364a40522f6bcfb86bb1f2dca633", "Flash(address indexed sender, address indexed recipient, uint256 amount0, uint256 amount1, uint256 paid0, uint256 paid1)"],
  ["0x3067048beee31b25b2f1681f88dac838c8bba36af25bfb2b7cf7473a5847e35f", "IncreaseLiquidity(uint256 indexed tokenId, uint128 liquidity, uint256 amount0, uint256 amount1)"],
  ["0x26f6a048ee9138f2c0ce266f322cb99228e8d619ae2bff30c67f8dcf9d2377b4", "DecreaseLiquidity(uint256 indexed tokenId, uint128 liquidity, uint256 amount0, uint256 amount1)"],
  ["0xac49e518f90a358f652e4400164f05a5d8f7e35e7747279bc3a93dbf584e125a", "IncreaseObservationCardinalityNext(uint16 observationCardinalityNextOld, uint16 observationCardinalityNextNew)"],
  ["0x40e9cecb9f5f1f1c5b9c97dec2917b7ee92e57ba5563708daca94dd84ad7112f", "Swap(bytes32 indexed id, address indexed sender, int128 amount0, int128 amount1, uint160 sqrtPriceX96, uint128 liquidity, int24 tick, uint24 fee)"],
  ["0xf208f4912782fd25c7f114ca3723a2d5dd6f3bcc3ac8db5af63baa85f711d5ec", "ModifyLiquidity(bytes32 indexed id, address indexed sender, int24 tickLower, int24 tickUpper, int256 liquidityDelta, bytes32 salt)"],
  // Ownable, AccessControl, Pausable, proxies, Safe, Permit2, account abstraction.
  ["0x8be0079c531659141344cd1fd0a4f28419497f9722a3daafe3b4186f6b6457e0", "OwnershipTransferred(address indexed previousOwner, address indexed newOwner)"],
  ["0x38d16b8cac22d99fc7c124b9cd0de2d3fa1faef420bfe791d8c362d765e22700", "OwnershipTransferStarted(address indexed previousOwner, address indexed newOwner)"],
  ["0x2f8788117e7eff1d82e926ec794901d17c78024a50270940304540a733656f0d", "RoleGranted(bytes32 indexed role, address indexed account, address indexed sender)"],
  ["0xf6391f5c32d9c69d2a47ea670b442974b53935d1edc7fd64eb21e047a839171b", "RoleRevoked(bytes32 indexed role, address indexed account, address indexed sender)"],
  ["0xbd79b86ffe0ab8e8776151514217cd7cacd52c909f66475c3af44e129f0b00ff", "RoleAdminChanged(bytes32 indexed role, bytes32 indexed previousAdminRole, bytes32 indexed newAdminRole)"],
  ["0x62e78cea01bee320cd4e420270b5ea74000d11b0c9f74754ebdbfc544b05a258", "Paused(address account)"],
  ["0x5db9ee0a495bf2e6ff9c91a7834c1ba4fdd244a5e8aa4e537bd38aeae4b073aa", "Unpaused(address account)"],
  ["0x7f26b83ff96e1f2b6a682f133852f6798a09c465da95921460cefb3847402498", "Initialized(uint8 version)"],
  ["0xc7f505b2f371ae2175ee4913f4499e1f2633a7b5936321eed1cdaeb6115181d2", "Initialized(uint64 version)"],
  ["0xbc7cd75a20ee27fd9adebab32041f755214dbc6bffa90cc0225b39da2e5c2d3b", "Upgraded(address indexed implementation)"],
  ["0x7e644d79422f17c01e4894b5f4f588d331ebfa28653d42ae832dc59e38c9798f", "AdminChanged(address previousAdmin, address newAdmin)"],
  ["0x1cf3b03a6cf19fa2baba4df148e9dcabedea7f8a5c07840e207e5c089be95d3e", "BeaconUpgraded(address indexed beacon)"],
  ["0x0a6387c9ea3628b88a633bb4f3b151770f70085117a15f9bf3787cda53f13d31", "EIP712DomainChanged()"],
  ["0x442e715f626346e8c54381002da614f62bee8d27386535b2521ec8540898556e", "ExecutionSuccess(bytes32 indexed txHash, uint256 payment)"],
  ["0x442e715f626346e8c54381002da614f62bee8d27386535b2521ec8540898556e", "ExecutionSuccess(bytes32 txHash, uint256 payment)"],
  ["0x23428b18acfb3ea64b08dc0c1d296ea9c09702c09083ca5272e64d115b687d23", "ExecutionFailure(bytes32 indexed txHash, uint256 payment)"],
  ["0x23428b18acfb3ea64b08dc0c1d296ea9c09702c09083ca5272e64d115b687d23", "ExecutionFailure(bytes32 txHash, uint256 payment)"],
  ["0x3d0ce9bfc3ed7d6862dbb28b2dea94561fe714a1b4d019aa8af39730d1ad7c3d", "SafeReceived(address indexed sender, uint256 value)"],
  ["0x49628fd1471006c1482da88028e9ce4dbb080b815c9b0344d39e5a8e6ec1419f", "UserOperationEvent(bytes32 indexed userOpHash, address indexed sender, address indexed paymaster, uint256 nonce, bool success, uint256 actualGasCost, uint256 actualGasUsed)"],
  ["0x3134e8a2e6d97e929a7e54011ea5485d7d196dd5f0ba4d4ef95803e8e3fc257f", "DelegateChanged(address indexed delegator, address indexed fromDelegate, address indexed toDelegate)"],
  ["0xdec2bacdd2f05b59de34da9b523dff8be42e5e38e818c82fdb0bae774387a724", "DelegateVotesChanged(address indexed delegate, uint256 previousBalance, uint256 newBalance)"],
  ["0xb8e138887d0aa13bab447e82de9d5c1777041ecd21ca36ba824ff1e6c07ddda4", "VoteCast(address indexed voter, uint256 proposalId, uint8 support, uint256 weight, string reason)"],
  // Aave v3, Compound v2 and v3.
  ["0x2b627736bca15cd5381dcf80b0bf11fd197d01a037c52b927a881a10fb73ba61", "Supply(address indexed reserve, address user, address indexed onBehalfOf, uint256 amount, uint16 indexed referralCode)"],
  ["0x3115d1449a7b732c986cba18244e897a450f61e1bb8d589cd2e69e6c8924f9f7", "Withdraw(address indexed reserve, address indexed user, address indexed to, uint256 amount)"],
  ["0xb3d084820fb1a9decffb176436bd02558d15fac9b0ddfed8c465bc7359d7dce0", "Borrow(address indexed reserve, address user, address indexed onBehalfOf, uint256 amount, uint8 interestRateMode, uint256 borrowRate, uint16 indexed referralCode)"],
  ["0xa534c8dbe71f871f9f3530e97a74601fea17b426cae02e1c5aee42c96c784051", "Repay(address indexed reserve, address indexed user, address indexed repayer, uint256 amount, bool useATokens)"],
  ["0xe413a321e8681d831f4dbccbca790d2952b56f977908e45be37335533e005286", "LiquidationCall(address indexed collateralAsset, address indexed debtAsset, address indexed user, uint256 debtToCover, uint256 liquidatedCollateralAmount, address liquidator, bool receiveAToken)"],
  ["0xefefaba5e921573100900a3ad9cf29f222d995fb3b6045797eaea7521bd8d6f0", "FlashLoan(address indexed target, address initiator, address indexed asset, uint256 amount, uint8 interestRateMode, uint256 premium, uint16 indexed referralCode)"],
  ["0x804c9b842b2748a22bb64b345453a3de7ca54a6ca45ce00d415894979e22897a", "ReserveDataUpdated(address indexed reserve, uint256 liquidityRate, uint256 stableBorrowRate, uint256 variableBorrowRate, uint256 liquidityIndex, uint256 variableBorrowIndex)"],
  ["0x4c209b5fc8ad50758f13e2e1088ba56a560dff690a1c6fef26394f4c03821c4f", "Mint(address minter, uint256 mintAmount, uint256 mintTokens)"],
  ["0xe5b754fb1abb7f01b499791d0b820ae3b6af3424ac1c59768edb53f4ec31a929", "Redeem(address redeemer, uint256 redeemAmount, uint256 redeemTokens)"],
  ["0x13ed6866d4e1ee6da46f845c46d7e54120883d75c5ea9a2dacc1c4ca8984ab80", "Borrow(address borrower, uint256 borrowAmount, uint256 accountBorrows, uint256 totalBorrows)"],
  ["0x1a2a22cb034d26d1854bdc6666a5b91fe25efbbb5dcad3b0355478d6f5c362a1", "RepayBorrow(address payer, address borrower, uint256 repayAmount, uint256 accountBorrows, uint256 totalBorrows)"],
  ["0x4dec04e750ca11537cabcd8a9eab06494de08da3735bc8871cd41250e190bc04", "AccrueInterest(uint256 cashPrior, uint256 interestAccumulated, uint256 borrowIndex, uint256 totalBorrows)"],
  ["0xd1cf3d156d5f8f0d50f6c122ed609cec09d35c9b9fb3fff6ea0959134dae424e", "Supply(address indexed from, address indexed dst, uint256 amount)"],
  ["0x9b1bfa7fa9ee420a16e124f794c35ac9f90472acc99140eb2f6447c714cad8eb", "Withdraw(address indexed src, address indexed to, uint256 amount)"],
  // Price feeds.
  ["0x0559884fd3a460db3073b7fc896cc77986f16e378210ded43186175bf646fc5f", "AnswerUpdated(int256 indexed current, uint256 indexed roundId, uint256 updatedAt)"],
  ["0x0109fc6f55cf40689f02fbaad7af7fe7bbac8a3d2186600afc7d3e10cac60271", "NewRound(uint256 indexed roundId, address indexed startedBy, uint256 startedAt)"],
  // Bridges: Circle's CCTP v1, LayerZero v2, the OP stack's standard bridge.
  ["0x2fa9ca894982930190727e75500a97d8dc500233a5065e0f3126c48fbe0343c0", "DepositForBurn(uint64 indexed nonce, address indexed burnToken, uint256 amount, address indexed depositor, bytes32 mintRecipient, uint32 destinationDomain, bytes32 destinationTokenMessenger, bytes32 destinationCaller)"],
  ["0x1b2a7ff080b8cb6ff436ce0372e399692bbfb6d4ae5766fd8d58a7b8cc6142e6", "MintAndWithdraw(address indexed mintRecipient, uint256 amount, address indexed mintToken)"],
  ["0x8c5261668696ce22758910d05bab8f186d6eb247ceac2af2e82c7dc17669b036", "MessageSent(bytes message)"],
  ["0x58200b4c34ae05ee816d710053fff3fb75af4395915d3d2a771b24aa10e3cc5d", "MessageReceived(address indexed caller, uint32 sourceDomain, uint64 indexed nonce, bytes32 sender, bytes messageBody)"],
  ["0x1ab700d4ced0c005b164c0f789fd09fcbb0156d4c2041b8a3bfbcd961cd1567f", "PacketSent(bytes encodedPayload, bytes options, address sendLibrary)"],
  ["0x85496b760a4b7f8d66384b9df21b381f5d1b1e79f229a47aaf4c232edc2fe59a", "OFTSent(bytes32 indexed guid, uint32 dstEid, address indexed fromAddress, uint256 amountSentLD, uint256 amountReceivedLD)"],
  ["0xefed6d3500546b29533b128a29e3a94d70788727f0507505ac12eaf2e578fd9c", "OFTReceived(bytes32 indexed guid, uint32 srcEid, address indexed toAddress, uint256 amountReceivedLD)"],
  ["0x2849b43074093a05396b6f2a937dee8565b15a48a7b3d4bffb732a5017380af5", "ETHBridgeInitiated(address indexed from, address indexed to, uint256 amount, bytes extraData)"],
  ["0x31b2166ff604fc5672ea5df08a78081d2bc6d746cadce880747f3643d819e83d", "ETHBridgeFinalized(address indexed from, address indexed to, uint256 amount, bytes extraData)"],
  ["0x7ff126db8024424bbfd9826e8ab82ff59136289ea440b04b39a0df1b03b9cabf", "ERC20BridgeInitiated(address indexed localToken, address indexed remoteToken, address indexed from, address to, uint256 amount, bytes extraData)"],
  ["0xd59c65b35445225835c83f50b6ede06a7be047d22e357073e250d9af537518cd", "ERC20BridgeFinalized(address indexed localToken, address indexed remoteToken, address indexed from, address to, uint256 amount, bytes extraData)"],
  // Fee contracts that projections decode.
  ["0x28a87b6059180e46de5fb9ab35eb043e8fe00ab45afcc7789e3934ecbbcde3ea", "FeesCollected(address indexed _token, address indexed _integrator, uint256 _integratorFee, uint256 _lifiFee)"],
  ["0x5e110f8bc8a20b65dcc87f224bdf1cc039346e267118bae2739847f07321ffa8", "FeesWithdrawn(address indexed _token, address indexed _to, uint256 _amount)"],
  ["0xe0ac2a6b74759312758ae3b784411c8e2f3b8bd81fecff40b906d69030af4bfc", "LiFiFeesWithdrawn(address indexed _token, address indexed _to, uint256 _amount)"],
  ["0x3a7029951ba36c1af37954df919ce2f9a95c3f5c2c2e872d5e7fd47c61a6df26", "FeesForwarded(address indexed token, (address receiver, uint256 amount)[] fees)"],
  ["0x3a7029951ba36c1af37954df919ce2f9a95c3f5c2c2e872d5e7fd47c61a6df26", "FeesForwarded(address token, (address receiver, uint256 amount)[] fees)"],
  // The oracle contract ADFS, which a projection decodes.
  ["0xe64378c8d8a289137204264780c7669f3860a703795c6f0574d925d473a4a2a7", "DataFeedsUpdated(uint256 newBlockNumber)"],
];

const byTopic = new Map();
for (const [topic, declaration] of EVENTS) byTopic.set(topic, [...(byTopic.get(topic) ?? []), declaration]);

/** The declarations with a first topic. */
export function declarationsOf(topic) {
  return byTopic.get(topic?.toLowerCase()) ?? [];
}

/** The name of the event with a first topic; `undefined` where it is not known. */
export function nameOf(topic) {
  return declarationsOf(topic)[0]?.split("(")[0];
}
