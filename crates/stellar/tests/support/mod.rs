//! What the tests of this crate share: real ledgers, where they are at hand.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use chronolith_stellar::{Network, walk_batch};

/// A real file; none, and a word about it, where the folder is absent.
pub(crate) fn fixture(name: &str) -> Option<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/stellar");
    let path: PathBuf = root.join(name);
    if !path.exists() {
        let required = std::env::var_os("CHRONOLITH_REQUIRE_FIXTURES").is_some();
        assert!(!required, "no fixture {}", path.display());
        println!("skipped: {} is absent", path.display());
        return None;
    }
    let packed = std::fs::read(&path).unwrap();
    Some(zstd::stream::decode_all(&packed[..]).unwrap())
}

/// Real ledgers with the network that they are of.
pub(crate) fn ledgers() -> Vec<(Network, Vec<Bytes>)> {
    let mut all = Vec::new();
    let testnet = ["FFFFFC1A--997", "FFFFFC19--998", "FFFFFC18--999"];
    let lake: Vec<Bytes> = testnet
        .iter()
        .filter_map(|name| fixture(&format!("lake/{name}.xdr.zst")))
        .flat_map(|raw| walk_batch(&raw.into()).unwrap().2)
        .collect();
    all.push((Network::new(Network::TESTNET), lake));
    if let Some(raw) = fixture("FCD285FF--53312000.xdr.zst") {
        let (first, last, ledgers) = walk_batch(&raw.into()).unwrap();
        assert_eq!((first, last, ledgers.len()), (53_312_000, 53_312_000, 1));
        all.push((Network::new(Network::PUBNET), ledgers));
    }
    if let Some(raw) = fixture("load-test-ledgers-v26.xdr.zst") {
        all.push((Network::new("load test network"), framed(&raw.into())));
    }
    all.retain(|(_, ledgers)| !ledgers.is_empty());
    all
}

/// The ledgers of a stream with record marks.
fn framed(raw: &Bytes) -> Vec<Bytes> {
    let mut ledgers = Vec::new();
    let mut at = 0;
    while at < raw.len() {
        let mark = u32::from_be_bytes(raw[at..at + 4].try_into().unwrap());
        let end = at + 4 + (mark & 0x7fff_ffff) as usize;
        ledgers.push(raw.slice(at + 4..end));
        at = end;
    }
    ledgers
}
