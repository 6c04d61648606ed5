//! What is checked before a chain is followed: its first block, the version of its archive, and how it was run
//! last.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use chronolith_follower::chain::Chain;
use chronolith_follower::run_state::RunState;
use chronolith_follower::settings::Finality;
use chronolith_model::{ErrorKind, Hash32};
use chronolith_sim::evm::EvmNode;
use chronolith_store::{FileMeta, MetaStore as _};
use support::served::is_halted;
use support::{Ground, MemorySource, archived, catch_up, node};

const DEPTH_5: Finality = Finality::Depth(5);

fn genesis_of(node: &EvmNode) -> Hash32 {
    node.block(0).unwrap().hash
}

/// A start refuses for good, and says all of this.
async fn assert_refused(chain: &Chain, expected: &[&str]) {
    let refused = chain.admit().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    let refused = refused.to_string();
    for text in expected {
        assert!(refused.contains(text), "no `{text}` in {refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_archive_is_of_one_chain_for_ever() {
    let (first, second) = (node(3, 40), node(4, 60));
    let (ground, source) = (Ground::new(DEPTH_5), MemorySource::new(&[&first]));
    catch_up(&ground.open(&source).await).await.unwrap();
    let path = ground.place().notes().join("genesis");
    let kept = std::fs::read_to_string(&path).unwrap();
    let hashes = [&first, &second].map(|node| genesis_of(node).to_string());
    assert_eq!(kept.trim(), hashes[0]);
    // The same id, another chain: with blocks to take or without, nothing is taken.
    source.replace(0, &second);
    let chain = ground.open(&source).await;
    let texts = [
        &hashes[0],
        &hashes[1],
        "right endpoint",
        "another data directory",
    ];
    assert_refused(&chain, &texts).await;
    assert!(catch_up(&chain).await.is_err());
    assert_eq!(archived(&chain), Some(35));
    assert!(!is_halted(&chain));
    // A damaged note is no note.
    std::fs::write(&path, "0x12\n").unwrap();
    assert_refused(&chain, &["genesis is damaged", "remove it"]).await;
    drop(chain);
    std::fs::write(&path, kept).unwrap();
    source.replace(0, &first);
    catch_up(&ground.open(&source).await).await.unwrap();
}

/// A state that a newer version wrote is left alone.
#[tokio::test(start_paused = true)]
async fn a_format_from_the_future_is_refused() {
    let node = node(5, 20);
    let (ground, source) = (Ground::new(DEPTH_5), MemorySource::new(&[&node]));
    let chain = ground.open(&source).await;
    catch_up(&chain).await.unwrap();
    chain.archive.release().await.unwrap();
    drop(chain);
    let place = ground.place();
    let dir = place.notes();
    let before = {
        let meta = FileMeta::open_writer(dir).unwrap();
        let state = meta.load().await.unwrap().unwrap();
        let mut bytes = state.bytes.to_vec();
        // After the magic and the version that wrote it: the version that may read it.
        bytes[10] = 99;
        meta.swap(Some(state.version), Bytes::from(bytes))
            .await
            .unwrap();
        std::fs::read(dir.join("state")).unwrap()
    };
    let opened = Chain::open_from(ground.settings.clone(), &place, Some(Arc::new(source))).await;
    let refused = format!("{:#}", opened.err().unwrap());
    for text in ["written by a newer version", dir.to_str().unwrap()] {
        assert!(refused.contains(text), "no `{text}` in {refused}");
    }
    assert_eq!(std::fs::read(dir.join("state")).unwrap(), before);
}

/// A note of how the chain was run last is no reason not to run it.
#[tokio::test(start_paused = true)]
async fn a_damaged_note_of_the_last_run_is_set_aside() {
    let node = node(11, 20);
    let (ground, source) = (Ground::new(DEPTH_5), MemorySource::new(&[&node]));
    let place = ground.place();
    let note = || RunState::note(&ground.settings, place.notes()).unwrap();
    let chain = ground.open(&source).await;
    note();
    catch_up(&chain).await.unwrap();
    drop(chain);
    let path = |name: &str| place.notes().join(name);
    std::fs::write(path("run"), [0, 1, 2]).unwrap();
    let chain = ground.open(&source).await;
    note();
    catch_up(&chain).await.unwrap();
    assert_eq!(std::fs::read(path("run.damaged")).unwrap(), [0, 1, 2]);
    let noted = std::fs::read_to_string(path("run")).unwrap();
    assert!(noted.starts_with('{'), "{noted}");
}
