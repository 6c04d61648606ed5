//! Settings, frames and faults of the stand-in.

use super::*;
use crate::stellar::StellarSettings;

fn fault(kind: CoreFaultKind, after_frames: u32) -> CoreFault {
    CoreFault {
        kind,
        after_frames,
        times: 1,
        command: None,
    }
}

/// The payloads of all whole frames, and what is left behind them.
fn frames(mut bytes: &[u8]) -> (Vec<Vec<u8>>, usize) {
    let mut frames = Vec::new();
    while let Some((mark, rest)) = bytes.split_first_chunk::<4>() {
        let mark = u32::from_be_bytes(*mark);
        let len = (mark & !LAST_FRAGMENT) as usize;
        if mark & LAST_FRAGMENT == 0 || rest.len() < len {
            break;
        }
        frames.push(rest[..len].to_vec());
        bytes = &rest[len..];
    }
    (frames, bytes.len())
}

fn write(ledgers: RangeInclusive<u32>, faults: Vec<CoreFault>) -> (Vec<u8>, CoreStep) {
    let chain = StellarChain::new(StellarSettings::new(4));
    let mut bytes = Vec::new();
    let mut step = CoreStep::Next;
    let faults = faults.into_iter().enumerate().collect();
    let mut frames = CoreFrames::new(chain, Some(&mut bytes), faults);
    for sequence in ledgers {
        step = frames.write(sequence).unwrap();
        if step != CoreStep::Next {
            break;
        }
    }
    (bytes, step)
}

#[test]
fn frames_are_ledgers_of_the_chain() {
    let chain = StellarChain::new(StellarSettings::new(4));
    let raw = |ledgers: &[u32]| -> Vec<Vec<u8>> {
        ledgers
            .iter()
            .map(|&at| chain.ledger(at).raw.to_vec())
            .collect()
    };
    let (bytes, step) = write(10..=14, Vec::new());
    assert_eq!(
        (frames(&bytes), step),
        ((raw(&[10, 11, 12, 13, 14]), 0), CoreStep::Next)
    );

    let (bytes, step) = write(10..=14, vec![fault(CoreFaultKind::Die, 2)]);
    assert_eq!((frames(&bytes), step), ((raw(&[10, 11]), 0), CoreStep::Die));
    let (bytes, step) = write(10..=14, vec![fault(CoreFaultKind::Stall, 0)]);
    assert_eq!((bytes.len(), step), (0, CoreStep::Stall));
    let (bytes, _) = write(10..=14, vec![fault(CoreFaultKind::Skip, 3)]);
    assert_eq!(frames(&bytes), (raw(&[10, 11, 12, 14]), 0));

    let (bytes, step) = write(10..=14, vec![fault(CoreFaultKind::HalfFrame, 1)]);
    let half = 4 + chain.ledger(11).raw.len() / 2;
    assert_eq!((frames(&bytes), step), ((raw(&[10]), half), CoreStep::Die));
    let (bytes, _) = write(10..=11, vec![fault(CoreFaultKind::BadMark, 1)]);
    assert_eq!(frames(&bytes), (raw(&[10]), 4 + chain.ledger(11).raw.len()));
    let (bytes, _) = write(10..=12, vec![fault(CoreFaultKind::Garbage, 1)]);
    let (got, left) = frames(&bytes);
    assert_eq!((got.len(), left), (3, 0));
    assert_eq!((&got[0], &got[2]), (&raw(&[10])[0], &raw(&[12])[0]));
    assert_ne!(got[1], raw(&[11])[0]);
}

#[test]
fn catchup_means_what_it_means_to_core() {
    let chain = StellarChain::new(StellarSettings::new(4));
    let check = |requested, from_checkpoint, expected: RangeInclusive<u32>| {
        assert_eq!(
            catchup_ledgers(&chain, requested, from_checkpoint),
            expected
        );
    };
    check((100, 11), false, 90..=100);
    check((100, 11), true, 64..=100);
    check((100, 1_000), false, 2..=100);
    check((63, 5), true, 2..=63);
    assert!(catchup_ledgers(&chain, (100, 0), false).is_empty());
    check((100, 0), true, 64..=100);
}

#[test]
fn settings_are_checked_and_those_of_core_are_let_be() {
    let conf = CoreConf::parse(
        r#"
        NETWORK_PASSPHRASE = "A network"
        RUN_STANDALONE = true
        seed = 7
        v1From = 3
        v2From = 5
        transactions = 2
        head = 90
        ledgerMs = 20
        fromCheckpoint = true
        [[faults]]
        kind = "half_frame"
        afterFrames = 4
        [[faults]]
        kind = "stall"
        times = 2
        command = "run"
        [HISTORY.sdf]
        get = "curl"
        "#,
    )
    .unwrap();
    assert_eq!(conf.chain.passphrase, "A network");
    assert_eq!((conf.chain.seed, conf.chain.v1_from), (7, 3));
    assert_eq!(
        (conf.head, conf.ledger_ms, conf.from_checkpoint),
        (90, 20, true)
    );
    let left = |command, struck: &[u32]| -> Vec<usize> {
        let left = conf.faults_left(command, struck);
        left.into_iter().map(|(place, _)| place).collect()
    };
    assert_eq!(left(CoreCommand::Run, &[]), [0, 1]);
    assert_eq!(left(CoreCommand::Catchup, &[]), [0]);
    assert_eq!(left(CoreCommand::Run, &[1, 1]), [1]);
    assert_eq!(left(CoreCommand::Run, &[1, 2]), [0_usize; 0]);
    for refused in [
        "sead = 7",
        "seed = \"x\"",
        "[[faults]]\nkind = \"boredom\"",
        "=",
    ] {
        assert!(CoreConf::parse(refused).is_err(), "{refused}");
    }
    assert_eq!(CoreConf::parse("").unwrap().chain, StellarSettings::new(1));
}

#[test]
fn a_new_database_remembers_what_went_wrong() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(CoreState::load(directory.path()).unwrap(), None);
    let mut state = CoreState::reset(directory.path()).unwrap();
    assert_eq!((state.lcl, state.struck.len()), (1, 0));
    state.lcl = 77;
    state.strike(1);
    state.strike(1);
    state.save(directory.path()).unwrap();
    assert_eq!(CoreState::load(directory.path()).unwrap(), Some(state));
    let again = CoreState::reset(directory.path()).unwrap();
    assert_eq!((again.lcl, again.struck), (1, vec![0, 2]));
}
