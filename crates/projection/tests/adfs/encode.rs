//! A little encoder that shares nothing with the decoder: indexes are laid down bit by bit.

/// A feed to be encoded.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) stride: u8,
    pub(crate) feed_id: u128,
    pub(crate) rb_index: u16,
    pub(crate) slot_offset: u32,
    pub(crate) data: Vec<u8>,
    /// Zeros before the index, as no encoder writes them and the contract takes them.
    pub(crate) padding: usize,
}

impl Value {
    /// Stride 0, and the rest as it usually is.
    pub(crate) fn new(feed_id: u128, rb_index: u16, data: &[u8]) -> Self {
        Self {
            stride: 0,
            feed_id,
            rb_index,
            slot_offset: 0,
            data: data.to_vec(),
            padding: 0,
        }
    }
}

/// A row to be encoded.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) table_index: u128,
    pub(crate) lanes: [u16; 16],
}

/// Header of the first version.
pub(crate) fn numbered(block_number: u64) -> Vec<u8> {
    [&[0x01], &block_number.to_be_bytes()[..]].concat()
}

/// Header of the second version.
pub(crate) fn accumulated(source: u8, destination: u8) -> Vec<u8> {
    [&[0x01], &[source; 32][..], &[destination; 32]].concat()
}

pub(crate) fn calldata(header: Vec<u8>, feeds: &[Value], rows: &[Row]) -> Vec<u8> {
    let mut bytes = header;
    bytes.extend(u32::try_from(feeds.len()).unwrap().to_be_bytes());
    feeds.iter().for_each(|feed| bytes.extend(value(feed)));
    rows.iter().for_each(|wanted| bytes.extend(row(wanted)));
    bytes
}

pub(crate) fn value(value: &Value) -> Vec<u8> {
    let mut bytes = vec![value.stride];
    bytes.extend(counted(&feed_index(value), value.padding));
    let length = (value.data.len() as u64).to_be_bytes();
    bytes.extend(counted(&length, 0));
    bytes.extend(&value.data);
    bytes
}

pub(crate) fn row(row: &Row) -> Vec<u8> {
    let mut bytes = counted(&row.table_index.to_be_bytes(), 0);
    bytes.extend(row.lanes.iter().flat_map(|lane| lane.to_be_bytes()));
    bytes
}

/// 115 bits of id, 13 of ring index and as many of slot as the stride has, the highest bit first.
pub(crate) fn feed_index(value: &Value) -> Vec<u8> {
    let bits = |number: u128, count: u32| (0..count).rev().map(move |at| number >> at & 1 == 1);
    let mut all: Vec<bool> = bits(value.feed_id, 115)
        .chain(bits(value.rb_index.into(), 13))
        .chain(bits(value.slot_offset.into(), value.stride.into()))
        .collect();
    let missing = (8 - all.len() % 8) % 8;
    all.splice(0..0, vec![false; missing]);
    let byte = |bits: &[bool]| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
    all.chunks(8).map(byte).collect()
}

/// A number behind its length, in as few bytes as it takes and not in none.
fn counted(digits: &[u8], padding: usize) -> Vec<u8> {
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    let short = &digits[zeros.min(digits.len() - 1)..];
    let mut bytes = vec![u8::try_from(short.len() + padding).unwrap()];
    bytes.extend(vec![0; padding]);
    bytes.extend(short);
    bytes
}
