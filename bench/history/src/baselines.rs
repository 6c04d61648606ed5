//! What others do with the same keys. Minimal perfect hashing needs all keys in memory and knows none
//! that is not among them: to be compared, each key gets 16 bits of itself and 24 of its block beside it.

use std::path::Path;
use std::time::Instant;

use crate::keys::Keys;
use crate::report::{Report, latency, peak_bytes, reset_peak};

type Measured = Result<Vec<(&'static str, f64)>, String>;

/// Bytes that a key takes beside its function: a block and a fingerprint.
const BESIDE: usize = 5;

pub(crate) fn measure(keys: &Keys, folder: &Path, report: &mut Report) {
    report.baseline("ptr_hash", ptr_hash(keys));
    report.baseline("ph (PHast)", phast(keys));
    report.baseline("RocksDB", rocksdb(keys, folder));
}

fn all(keys: &Keys) -> Vec<u64> {
    (0..keys.len()).map(|at| keys.key(at)).collect()
}

fn ptr_hash(keys: &Keys) -> Measured {
    use ptr_hash::{DefaultPtrHash, PtrHashParams};
    let all = all(keys);
    reset_peak();
    let before = Instant::now();
    let function = <DefaultPtrHash>::new(&all, PtrHashParams::default());
    let bits = function.bits_per_element();
    let bytes = (bits.0 + bits.1) / 8.0;
    Ok(with_values(keys, &all, (before, bytes), |key| {
        function.index(&key)
    }))
}

fn phast(keys: &Keys) -> Measured {
    use ph::GetSize as _;
    let all = all(keys);
    reset_peak();
    let before = Instant::now();
    let function = ph::phast::Function::from_slice_mt(&all);
    let bytes = function.size_bytes() as f64 / keys.len() as f64;
    Ok(with_values(keys, &all, (before, bytes), |key| {
        function.get(&key)
    }))
}

/// Puts blocks and fingerprints where the function says, and looks them up.
fn with_values(
    keys: &Keys,
    all: &[u64],
    (before, function_bytes): (Instant, f64),
    index: impl Fn(u64) -> usize,
) -> Vec<(&'static str, f64)> {
    let mut values = vec![0_u8; all.len() * BESIDE];
    for (at, &key) in (0..).zip(all) {
        let start = index(key) * BESIDE;
        if let Some(value) = values.get_mut(start..start + BESIDE) {
            let entry = keys.block(at) << 16 | (key & 0xffff);
            let bytes = entry.to_le_bytes();
            value.copy_from_slice(bytes.get(..BESIDE).unwrap_or_default());
        }
    }
    let rate = all.len() as f64 / before.elapsed().as_secs_f64() / 1e6;
    let peak = peak_bytes() as f64 / f64::from(1 << 20);
    let look = |key: u64| {
        let start = index(key) * BESIDE;
        let mut entry = [0; 8];
        let value = values.get(start..start + BESIDE).unwrap_or_default();
        entry
            .iter_mut()
            .zip(value)
            .for_each(|(to, &from)| *to = from);
        let entry = u64::from_le_bytes(entry);
        (entry & 0xffff == key & 0xffff).then_some(entry >> 16)
    };
    let (mut wrong, mut seen) = (0_u64, 0_u64);
    let hit = latency(keys.sample(), |at| {
        wrong += u64::from(look(keys.key(at)) != Some(keys.block(at)));
    });
    let miss = latency(keys.sample(), |at| {
        seen += u64::from(look(keys.absent(at)).is_some());
    });
    println!("absent keys that lead to a block: {seen}");
    vec![
        ("build, million keys/s", rate),
        ("build, memory in MiB", peak),
        ("size, bytes/key", function_bytes + BESIDE as f64),
        ("hit, p50 ns", hit),
        ("miss, p50 ns", miss),
        ("wrong answers", wrong as f64),
    ]
}

#[cfg(not(feature = "rocksdb"))]
fn rocksdb(_: &Keys, _: &Path) -> Measured {
    Err("built without the feature `rocksdb`, which needs libclang".to_owned())
}

#[cfg(feature = "rocksdb")]
fn rocksdb(keys: &Keys, folder: &Path) -> Measured {
    use rocksdb::{BlockBasedOptions, DB, Options, WriteBatch};
    let fault = |error: rocksdb::Error| error.to_string();
    let mut options = Options::default();
    options.create_if_missing(true);
    options.prepare_for_bulk_load();
    let mut table = BlockBasedOptions::default();
    table.set_bloom_filter(10.0, false);
    options.set_block_based_table_factory(&table);
    let path = folder.join("rocksdb");
    reset_peak();
    let before = Instant::now();
    let db = DB::open(&options, &path).map_err(fault)?;
    for start in (0..keys.len()).step_by(100_000) {
        let mut batch = WriteBatch::default();
        for at in start..keys.len().min(start + 100_000) {
            batch.put(
                keys.key(at).to_be_bytes(),
                (keys.block(at) as u32).to_le_bytes(),
            );
        }
        db.write(batch).map_err(fault)?;
    }
    db.flush().map_err(fault)?;
    db.compact_range::<&[u8], &[u8]>(None, None);
    let rate = keys.len() as f64 / before.elapsed().as_secs_f64() / 1e6;
    let peak = peak_bytes() as f64 / f64::from(1 << 20);
    let bytes = db.property_int_value("rocksdb.total-sst-files-size");
    let bytes = bytes.map_err(fault)?.unwrap_or(0) as f64 / keys.len() as f64;
    let mut wrong = 0_u64;
    let hit = latency(keys.sample(), |at| {
        let found = db.get_pinned(keys.key(at).to_be_bytes()).ok().flatten();
        let block = (keys.block(at) as u32).to_le_bytes();
        wrong += u64::from(found.is_none_or(|found| found[..] != block));
    });
    let miss = latency(keys.sample(), |at| {
        let found = db.get_pinned(keys.absent(at).to_be_bytes()).ok().flatten();
        wrong += u64::from(found.is_some());
    });
    Ok(vec![
        ("build, million keys/s", rate),
        ("build, memory in MiB", peak),
        ("size, bytes/key", bytes),
        ("hit, p50 ns", hit),
        ("miss, p50 ns", miss),
        ("wrong answers", wrong as f64),
    ])
}
