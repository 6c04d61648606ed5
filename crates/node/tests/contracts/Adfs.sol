// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.30;

// The oracle contract as far as its history shows it: a proxy, two implementations with different
// calldata and events, and the contracts of others that updates may come through. Who may call is not
// checked anywhere: that leaves no trace in events.

/// Packed calls that begin with a zero byte are the proxy's own, all others the implementation's.
contract Proxy {
    event Upgraded(address indexed implementation);

    /// keccak256("eip1967.proxy.implementation") - 1
    bytes32 private constant IMPLEMENTATION =
        0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc;

    fallback() external payable {
        // 0x00000001, then the address of the new implementation.
        if (bytes4(msg.data) == 0x00000001 && msg.data.length >= 24) {
            address implementation = address(bytes20(msg.data[4:24]));
            assembly {
                sstore(IMPLEMENTATION, implementation)
            }
            emit Upgraded(implementation);
            return;
        }
        assembly {
            calldatacopy(0, 0, calldatasize())
            let done := delegatecall(gas(), sload(IMPLEMENTATION), 0, calldatasize(), 0, 0)
            returndatacopy(0, 0, returndatasize())
            if iszero(done) {
                revert(0, returndatasize())
            }
            return(0, returndatasize())
        }
    }
}

/// Values and the table of newest indexes, at the slots where the oracle keeps them.
abstract contract Feeds {
    uint256 private constant TABLE = 0xfff0_0000_0000_0000_0000_0000_0000_0000;
    /// Thirteen bits of each lane.
    uint256 private constant LANES =
        0x1fff1fff1fff1fff1fff1fff1fff1fff1fff1fff1fff1fff1fff1fff1fff1fff;

    /// Stores what calldata says from the count of feeds on.
    function store(uint256 at) internal {
        assembly {
            // A number behind its length; none of its bytes are 0.
            function counted(from) -> value, next {
                let length := byte(0, calldataload(from))
                value := shr(sub(256, mul(8, length)), calldataload(add(from, 1)))
                next := add(add(from, 1), length)
            }
            let count := shr(224, calldataload(at))
            at := add(at, 4)
            for {} count { count := sub(count, 1) } {
                let stride := byte(0, calldataload(at))
                if gt(stride, 31) {
                    revert(0, 0)
                }
                let index, length
                index, at := counted(add(at, 1))
                length, at := counted(at)
                let slot := add(shl(add(128, stride), 1), index)
                for { let end := add(at, length) } lt(at, end) { slot := add(slot, 1) } {
                    let left := sub(end, at)
                    if gt(left, 32) {
                        left := 32
                    }
                    // What does not fill a slot lies at its right end.
                    sstore(slot, shr(sub(256, mul(8, left)), calldataload(at)))
                    at := add(at, left)
                }
            }
            for {} lt(at, calldatasize()) { at := add(at, 32) } {
                let index
                index, at := counted(at)
                sstore(add(TABLE, index), and(calldataload(at), LANES))
            }
        }
    }
}

/// Calldata with a block number, which must grow, and an event that says it.
contract First is Feeds {
    event DataFeedsUpdated(uint256 blockNumber);

    fallback() external {
        require(msg.data[0] == 0x01, "no update");
        uint256 told = uint64(bytes8(msg.data[1:9]));
        uint256 newest;
        assembly {
            newest := sload(0)
            sstore(0, told)
        }
        require(told > newest, "an old number");
        store(9);
        emit DataFeedsUpdated(told);
    }
}

/// Calldata with two accumulators, and an event that says something else.
contract Second is Feeds {
    event DataFeedsUpdated(uint256 blockNumber, address sender);

    fallback() external {
        require(msg.data[0] == 0x01 && msg.data.length >= 69, "no update");
        // Accumulators of zeros stand for an update that the oracle refuses.
        require(bytes32(msg.data[33:65]) != 0, "no accumulator");
        store(65);
        emit DataFeedsUpdated(block.number, msg.sender);
    }
}

/// A Safe that asks nobody for a signature.
contract Safe {
    event ExecutionSuccess(bytes32 indexed txHash, uint256 payment);
    event ExecutionFailure(bytes32 indexed txHash, uint256 payment);

    function execTransaction(
        address to,
        uint256 value,
        bytes memory data,
        uint8 operation,
        uint256 safeTxGas,
        uint256,
        uint256 gasPrice,
        address,
        address payable,
        bytes memory
    ) external payable returns (bool success) {
        // As a real one: a call whose gas is paid back gets what was signed, and may run out of it.
        uint256 most = gasPrice == 0 ? gasleft() : safeTxGas;
        if (operation == 1) {
            (success, ) = to.delegatecall{gas: most}(data);
        } else {
            (success, ) = to.call{gas: most, value: value}(data);
        }
        // As a real one: a call that fails takes nothing else with it.
        if (success) {
            emit ExecutionSuccess(keccak256(data), 0);
        } else {
            emit ExecutionFailure(keccak256(data), 0);
        }
    }
}

/// Many calls packed into one: operation (1), address (20), value (32), length (32), data.
contract MultiSend {
    function multiSend(bytes memory transactions) external payable {
        assembly {
            let length := mload(transactions)
            for { let i := 32 } lt(i, add(length, 32)) {} {
                let operation := byte(0, mload(add(transactions, i)))
                let to := shr(96, mload(add(transactions, add(i, 1))))
                let value := mload(add(transactions, add(i, 21)))
                let bytes_ := mload(add(transactions, add(i, 53)))
                let data := add(transactions, add(i, 85))
                let done := 0
                switch operation
                case 0 { done := call(gas(), to, value, data, bytes_, 0, 0) }
                default { done := delegatecall(gas(), to, data, bytes_, 0, 0) }
                if iszero(done) {
                    revert(0, 0)
                }
                i := add(i, add(85, bytes_))
            }
        }
    }
}
