//! Connections of each address: counted, and refused above a limit.
//!
//! A subscriber has a whole network of IPv6 addresses, so those of one /64 count together.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::metrics;

/// Open connections by address; an address without any is not listed.
type Open = Arc<Mutex<HashMap<IpAddr, Peer>>>;

#[derive(Default)]
struct Peer {
    connections: usize,
    /// Whether it was logged that it has too many.
    logged_refusal: bool,
}

/// Counts connections by address.
pub(crate) struct Peers {
    /// Connections of one address; none where they are not counted.
    max: Option<usize>,
    open: Open,
}

/// Counts a connection until it is dropped.
pub(crate) struct PeerPermit {
    of: Option<(IpAddr, Open)>,
}

impl Peers {
    pub(crate) fn new(max: Option<usize>) -> Self {
        let open = Open::default();
        Self { max, open }
    }

    /// A permit for a connection from an address; none where it has too many.
    pub(crate) fn admit(&self, address: IpAddr) -> Option<PeerPermit> {
        let Some(max) = self.max else {
            return Some(PeerPermit { of: None });
        };
        let address = counted_as(address);
        let mut open = self.open.lock();
        let peer = open.entry(address).or_default();
        if peer.connections < max {
            peer.connections += 1;
            let of = Some((address, self.open.clone()));
            return Some(PeerPermit { of });
        }
        metrics::refused();
        // Once until it has no connections: a client that connects in a loop must not fill the log.
        if !std::mem::replace(&mut peer.logged_refusal, true) {
            tracing::warn!(
                %address,
                max,
                "too many connections from one address: more are refused (limits.connectionsPerPeer)"
            );
        }
        None
    }
}

impl Drop for PeerPermit {
    fn drop(&mut self) {
        let Some((address, open)) = &self.of else {
            return;
        };
        let mut open = open.lock();
        if let Some(peer) = open.get_mut(address) {
            peer.connections = peer.connections.saturating_sub(1);
            if peer.connections == 0 {
                open.remove(address);
            }
        }
    }
}

/// The address, or the network, that a connection counts for.
pub(super) fn counted_as(address: IpAddr) -> IpAddr {
    /// The network's part of an address.
    const NETWORK: u128 = !0 << 64;
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each of these is admitted, one after the other, all staying open.
    #[track_caller]
    fn check(max: Option<usize>, addresses: &[&str], expected: &[bool]) {
        let peers = Peers::new(max);
        let permits = addresses
            .iter()
            .map(|one| peers.admit(one.parse().unwrap()));
        let permits: Vec<Option<PeerPermit>> = permits.collect();
        let authorize: Vec<bool> = permits.iter().map(Option::is_some).collect();
        assert_eq!(authorize, expected, "{addresses:?}");
        drop(permits);
        assert!(peers.open.lock().is_empty(), "an address is still listed");
    }

    #[test]
    fn each_address_has_its_own_limit() {
        let one = "192.0.2.1";
        check(None, &[one, one, one], &[true; 3]);
        check(
            Some(2),
            &[one, one, one, "192.0.2.2"],
            &[true, true, false, true],
        );
        check(Some(1), &[one, "::ffff:192.0.2.1"], &[true, false]);
        let same_network = ["2001:db8::1", "2001:db8::ffff:1"];
        check(Some(1), &same_network, &[true, false]);
        check(Some(1), &["2001:db8::1", "2001:db8:0:1::1"], &[true, true]);
    }

    #[test]
    fn a_connection_that_ends_frees_its_permit() {
        let peers = Peers::new(Some(1));
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let permit = peers.admit(address);
        assert!(permit.is_some() && peers.admit(address).is_none());
        drop(permit);
        assert!(peers.admit(address).is_some());
    }
}
