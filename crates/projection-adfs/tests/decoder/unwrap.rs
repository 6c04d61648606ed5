//! Updates inside of the calls of a Safe, alone and many at once.

use alloy_primitives::Address;
use chronolith_projection_adfs::{Call, NotFound, Seen, WRAPPERS_MAX, Wrapper, find};
use proptest::prelude::*;

use chronolith_sim::evm::adfs::encode::{Value, calldata, numbered};

const PROXY: Address = Address::repeat_byte(0xad);
const SAFE: Address = Address::repeat_byte(0x5a);
const SENDER: Address = Address::repeat_byte(0x77);

fn update(number: u64) -> Vec<u8> {
    calldata(numbered(number), &[Value::new(1, 2, b"value")], &[])
}

fn word(number: usize) -> [u8; 32] {
    let mut word = [0; 32];
    word[24..].copy_from_slice(&(number as u64).to_be_bytes());
    word
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut all = word(bytes.len()).to_vec();
    all.extend(bytes);
    all.resize(all.len().next_multiple_of(32), 0);
    all
}

/// `execTransaction` with ten arguments, signatures behind the data.
fn safe(to: Address, data: &[u8], operation: usize) -> Vec<u8> {
    let tail = padded(data);
    let mut input = vec![0x6a, 0x76, 0x12, 0x02];
    input.extend(to.into_word());
    let behind = [10 * 32, operation, 0, 0, 0, 0, 0, 10 * 32 + tail.len()];
    input.extend(word(0));
    behind.iter().for_each(|number| input.extend(word(*number)));
    input.extend(tail);
    input.extend(padded(&[0x51; 65]));
    input
}

fn module(to: Address, data: &[u8]) -> Vec<u8> {
    let mut input = vec![0x46, 0x87, 0x21, 0xa7];
    input.extend(to.into_word());
    [0, 4 * 32, 0]
        .iter()
        .for_each(|number| input.extend(word(*number)));
    input.extend(padded(data));
    input
}

fn multi_send(calls: &[(u8, Address, Vec<u8>)]) -> Vec<u8> {
    let mut packed = Vec::new();
    for (operation, to, data) in calls {
        packed.push(*operation);
        packed.extend(to.as_slice());
        packed.extend(word(0));
        packed.extend(word(data.len()));
        packed.extend(data);
    }
    let mut input = vec![0x8d, 0x80, 0xff, 0x0a];
    input.extend(word(32));
    input.extend(padded(&packed));
    input
}

/// Where each call is, what it was inside of, and its block number, by its bytes in the input.
fn check(to: Address, input: &[u8], expected: &[(&str, u64)]) {
    let calls = find(Some(to), input, PROXY).unwrap();
    let message: Vec<(String, &[u8])> = calls
        .iter()
        .map(|call| (call.wrappers.to_string(), call.calldata))
        .collect();
    let wanted: Vec<Vec<u8>> = expected.iter().map(|(_, number)| update(*number)).collect();
    let wanted: Vec<(String, &[u8])> = expected
        .iter()
        .zip(&wanted)
        .map(|((wrappers, _), bytes)| ((*wrappers).to_owned(), &bytes[..]))
        .collect();
    assert_eq!(message, wanted);
    for Call {
        offset, calldata, ..
    } in calls
    {
        assert_eq!(&input[offset..offset + calldata.len()], calldata);
    }
}

fn lacking(to: Option<Address>, input: &[u8]) -> NotFound {
    find(to, input, PROXY).expect_err("a call was found")
}

#[test]
fn updates_are_found_in_every_wrapper() {
    check(PROXY, &update(1), &[("direct", 1)]);
    let inside = safe(PROXY, &update(2), 0);
    check(SAFE, &inside, &[("execTransaction", 2)]);
    check(
        SAFE,
        &module(PROXY, &update(3)),
        &[("execTransactionFromModule", 3)],
    );
    let many = multi_send(&[
        (0, PROXY, update(4)),
        (0, SENDER, b"something else".to_vec()),
        (0, PROXY, vec![0, 0, 0, 1]),
        (1, PROXY, update(5)),
        (0, PROXY, update(6)),
        (0, SAFE, safe(PROXY, &update(7), 0)),
    ]);
    let alone = [
        ("multiSend", 4),
        ("multiSend", 6),
        ("multiSend > execTransaction", 7),
    ];
    check(SENDER, &many, &alone);
    let inside = [
        ("execTransaction > multiSend", 4),
        ("execTransaction > multiSend", 6),
        ("execTransaction > multiSend > execTransaction", 7),
    ];
    check(SAFE, &safe(SENDER, &many, 1), &inside);
}

#[test]
fn what_was_seen_instead_is_reported() {
    let seen = |to, input: &[u8]| lacking(to, input).seen;
    let elsewhere = Seen::Elsewhere {
        offset: 0,
        to: None,
        bytes: 0,
    };
    assert_eq!(seen(None, &[]), [elsewhere]);
    let upgrade = [0, 0, 0, 1];
    let expected = Seen::NoUpdate {
        offset: 0,
        bytes: 4,
    };
    assert_eq!(seen(Some(PROXY), &upgrade), [expected]);
    // In the name of the Safe the proxy's code changes nothing in the proxy.
    let expected = Seen::Delegated { offset: 356 };
    assert_eq!(seen(Some(SAFE), &safe(PROXY, &update(1), 1)), [expected]);
    let other = lacking(Some(SAFE), &safe(SENDER, &update(1), 0));
    let expected = Seen::Elsewhere {
        offset: 356,
        to: Some(SENDER),
        bytes: update(1).len(),
    };
    assert_eq!(other.seen, [expected]);
    let message = other.to_string();
    assert!(message.starts_with("no call of the proxy that updates feeds; there is a call of another contract (offset=356, to=0x7777"), "{message}");
    // An operation that does not exist.
    let broken = Seen::Broken {
        wrapper: Wrapper::Safe,
        offset: 4,
    };
    assert_eq!(seen(Some(SAFE), &safe(PROXY, &update(1), 2)), [broken]);
    let many = vec![(0, SENDER, Vec::new()); 20];
    let none = lacking(Some(SAFE), &multi_send(&many));
    assert_eq!((none.seen.len(), none.more), (16, 4));
    assert!(none.to_string().ends_with(", and 4 more"), "{none}");
}

#[test]
fn wrappers_are_taken_off_to_a_depth() {
    let mut input = update(1);
    let mut to = PROXY;
    for _ in 0..WRAPPERS_MAX {
        input = safe(to, &input, 0);
        to = SAFE;
    }
    assert_eq!(find(Some(to), &input, PROXY).unwrap().len(), 1);
    let input = safe(to, &input, 0);
    let none = lacking(Some(to), &input);
    assert!(matches!(none.seen[..], [Seen::TooDeep { .. }]), "{none}");
}

/// Offsets and lengths that point outside, at themselves, or as far as a number can.
#[test]
fn hostile_offsets_and_lengths_are_broken_wrappers() {
    let inner = multi_send(&[(0, PROXY, update(1)), (0, PROXY, update(2))]);
    let length_of_first = 4 + 64 + 1 + 20 + 32;
    let mut far = vec![[0xff; 32]];
    far.extend([1 << 20, usize::MAX, usize::MAX - 31, isize::MAX as usize].map(word));
    for far in far {
        for (mut input, at, wrapper) in [
            (safe(PROXY, &update(1), 0), 4 + 2 * 32, Wrapper::Safe),
            (safe(PROXY, &update(1), 0), 4 + 10 * 32, Wrapper::Safe),
            (module(PROXY, &update(1)), 4 + 2 * 32, Wrapper::Module),
            (module(PROXY, &update(1)), 4 + 4 * 32, Wrapper::Module),
            (inner.clone(), 4, Wrapper::MultiSend),
            (inner.clone(), 4 + 32, Wrapper::MultiSend),
            (inner.clone(), length_of_first, Wrapper::MultiSend),
        ] {
            input[at..at + 32].copy_from_slice(&far);
            let none = lacking(Some(SAFE), &input);
            let [
                Seen::Broken {
                    wrapper: message, ..
                },
            ] = none.seen[..]
            else {
                panic!("{none}");
            };
            assert_eq!(message, wrapper);
        }
    }
    // What came before the broken place is found.
    let mut input = inner.clone();
    let second = length_of_first + 32 + update(1).len() + 1 + 20 + 32;
    input[second] = 0xff;
    assert_eq!(find(Some(SAFE), &input, PROXY).unwrap().len(), 1);
    // A selector and nothing else, and every other length.
    for length in 0..inner.len() {
        let found = find(Some(SAFE), &inner[..length], PROXY).unwrap_or_default();
        assert!(found.len() < 2 || length >= inner.len() - 31, "{length}");
    }
}

proptest! {
    #[test]
    fn hostile_inputs_do_no_harm(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let inner = multi_send(&[(0, PROXY, update(1)), (0, SAFE, safe(PROXY, &update(2), 0))]);
        let mut input = safe(SENDER, &inner, 1);
        for (at, byte) in changes {
            let at = at.index(input.len());
            input[at] = byte;
        }
        input.truncate(cut.index(input.len() + 1));
        for call in find(Some(SAFE), &input, PROXY).unwrap_or_default() {
            let end = call.offset + call.calldata.len();
            prop_assert_eq!(&input[call.offset..end], call.calldata);
            prop_assert_eq!(call.calldata[0], 0x01);
        }
    }
}
