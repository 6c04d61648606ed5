//! Where the known fee contracts are.

use alloy_primitives::{Address, address};

/// Chains and the address of their contract.
const CONTRACTS: &[(u64, Address)] = &[
    (1, address!("3Ef238c36035880EfbDfa239d218186b79Ad1d6F")),
    (10, address!("271970eE66c03c9D62d8e8c718b9841f2Ea7D817")),
    (14, address!("a0acea90a4755E3C9647a2d8889bfEEb1D6C7960")),
    (56, address!("bD6C7B0d2f68c2b7805d88388319cfB6EcB50eA9")),
    (100, address!("bD6C7B0d2f68c2b7805d88388319cfB6EcB50eA9")),
    (130, address!("262de706627Fe02B46A3643a60948fA6bE007F7b")),
    (137, address!("bD6C7B0d2f68c2b7805d88388319cfB6EcB50eA9")),
    (143, address!("954d55105CDF5371224268691FAf6178be5f62F5")),
    (146, address!("aFb8cC8fCd71cd768Ce117C11eB723119FCDb1f8")),
    (204, address!("6A2420650139854F17964b8C3Bb60248470aB57E")),
    (324, address!("8dBf6f59187b2EB36B980F3D8F4cFC6DC4E4642e")),
    (1_088, address!("27f0e36dE6B1BA8232f6c2e87E00A50731048C6B")),
    (5_000, address!("F048e5816B0C7951AC179f656C5B86e5a79Bd7b5")),
    (8_453, address!("0A6d96E7f4D7b96CFE42185DF61E64d255c12DFf")),
    (42_161, address!("B0210dE78E28e2633Ca200609D9f528c13c26cD9")),
    (42_220, address!("F048e5816B0C7951AC179f656C5B86e5a79Bd7b5")),
    (42_793, address!("4827499a632e43074A93Fd2ADa3637A76B2d2347")),
    (43_114, address!("B0210dE78E28e2633Ca200609D9f528c13c26cD9")),
    (57_073, address!("8295805320853d6B28778fC8f5199327e62e3d87")),
    (59_144, address!("A4A24BdD4608D7dFC496950850f9763B674F0DB2")),
    (60_808, address!("728f23859C718B9e1cA762f051C29Ea99119B92D")),
    (80_094, address!("070EC43b4222E0f17EEcD2C839cb9D1D5adeF73c")),
    (81_457, address!("F048e5816B0C7951AC179f656C5B86e5a79Bd7b5")),
    (98_866, address!("3e46137a80BB3c14906505d0f78ADbb2deDb9E3f")),
    (
        534_352,
        address!("F048e5816B0C7951AC179f656C5B86e5a79Bd7b5"),
    ),
];

/// Their receiver of fees since the middle of 2026, on the chains where it is.
const FORWARDER: Address = address!("CE40449B773a3E6E5e769ADb4e567179d4828cbd");
const FORWARDER_CHAINS: [u64; 2] = [1, 137];

/// The contracts of a chain that are known without being named.
#[must_use]
pub fn known_contracts(chain: u64) -> Vec<[u8; 20]> {
    let collectors = CONTRACTS.iter().filter(|(id, _)| *id == chain);
    let forwarder = FORWARDER_CHAINS.contains(&chain).then_some(FORWARDER);
    let all = collectors.map(|(_, address)| *address).chain(forwarder);
    all.map(|address| address.into_array()).collect()
}
