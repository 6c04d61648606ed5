//! Packs that go in and come out, and hostile ones.

use super::*;
use proptest::prelude::*;

fn payload(header: Option<usize>, bodies: Option<&[usize]>) -> Payload {
    let bytes = |len: usize| Bytes::from(vec![7; len]);
    Payload {
        header: header.map(bytes),
        raw: None,
        bodies: bodies.map(|lens| lens.iter().map(|&len| bytes(len)).collect()),
    }
}

fn pack_of(payloads: &[Payload]) -> OpenPack {
    let mut index = Vec::new();
    payloads
        .iter()
        .for_each(|payload| encode_parts(payload, &mut index));
    let range = BlockRange::new(10, 10 + payloads.len() as u64);
    let (anchors, _) = anchors(&index, range).unwrap();
    OpenPack {
        frames_offset: 0,
        frames: Vec::new(),
        stretches: Vec::new(),
        unpackers: Vec::new(),
        unpackers_bytes: 0,
        index: index.into(),
        anchors,
        range,
    }
}

#[test]
fn parts_are_found_from_any_anchor() {
    let payloads: Vec<Payload> = (0..200_usize)
        .map(|at| {
            let bodies: Vec<usize> = (0..at % 23).map(|body| body * 131 % 300).collect();
            payload(
                (at % 3 != 0).then_some(at),
                (at % 5 != 4).then_some(&bodies),
            )
        })
        .collect();
    let pack = pack_of(&payloads);
    assert!(pack.anchors.len() > 3 && pack.anchors.len() < 100);
    let mut start = 0;
    for (number, payload) in (10..).zip(&payloads) {
        let header = payload.header.as_ref().map(|bytes| bytes.len() as u64);
        let found = pack.header(number).unwrap();
        assert_eq!(
            found.map(|found| found.range()),
            header.map(|len| start..start + len)
        );
        let before = start + header.unwrap_or(0);
        let bodies = payload.bodies.as_ref();
        let len = |body: &Bytes| body.len() as u64;
        let lens: Option<Vec<u64>> = bodies.map(|bodies| bodies.iter().map(len).collect());
        let found = pack.bodies(number, 2..5).unwrap();
        let expected = lens.as_ref().map(|lens| Pieces {
            start: before + lens.iter().take(2).sum::<u64>(),
            lengths: lens.iter().skip(2).take(3).copied().collect(),
        });
        assert_eq!(found, expected);
        let end = before + lens.iter().flatten().sum::<u64>();
        assert_eq!(pack.all(number).unwrap().pieces.range(), start..end);
        start = end;
    }
    assert!(pack.all(9).is_err() && pack.all(210).is_err());
}

#[test]
fn dictionaries_say_which_frames_need_them() {
    let mut all = Dictionaries::default();
    assert_eq!(all.encode(), None);
    let (one, two) = (Bytes::from_static(b"one"), Bytes::from_static(b"two"));
    for (packed, frames) in [
        (&one, 3),
        (&one, 2),
        (&Bytes::new(), 4),
        (&two, 1),
        (&one, 1),
    ] {
        all.add(packed, frames);
    }
    assert_eq!(all.stretches, [(5, 1), (4, 0), (1, 2), (1, 1)]);
    let bytes = all.encode().unwrap();
    assert_eq!(Dictionaries::decode(Some(&bytes), 11).as_ref(), Ok(&all));
    assert!(Dictionaries::decode(Some(&bytes), 12).is_err());
    let plain = Dictionaries::decode(None, 4).unwrap();
    assert_eq!(plain.stretches, [(4, 0)]);
}

proptest! {
    #[test]
    fn hostile_tables_are_damage(bytes: Vec<u8>, blocks in 0_u64..40, frames in 0_usize..9) {
        let _ = anchors(&bytes, BlockRange::new(5, 5 + blocks));
        let _ = Dictionaries::decode(Some(&bytes), frames);
        let _ = decode_frames(&bytes, 100);
    }
}
