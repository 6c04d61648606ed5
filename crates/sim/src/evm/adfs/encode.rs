//! A little encoder of ADFS calldata that shares nothing with any decoder: indexes are laid down bit by
//! bit.

/// A feed to be encoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Value {
    /// Power of two of its slots.
    pub stride: u8,
    /// Which feed it is, of 115 bits.
    pub feed_id: u128,
    /// Its place in the ring, of 13 bits.
    pub rb_index: u16,
    /// Its place in the slots of its stride.
    pub slot_offset: u32,
    pub data: Vec<u8>,
    /// Zeros before the index, as no encoder writes them and the contract takes them.
    pub padding: usize,
}

impl Value {
    /// Stride 0, and the rest as it usually is.
    #[must_use]
    pub fn new(feed_id: u128, rb_index: u16, data: &[u8]) -> Self {
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Which row of the table.
    pub table_index: u128,
    /// The newest places of its sixteen feeds.
    pub lanes: [u16; 16],
}

impl Row {
    /// Its lanes as they are sent.
    #[must_use]
    pub fn data(&self) -> Vec<u8> {
        self.lanes
            .iter()
            .flat_map(|lane| lane.to_be_bytes())
            .collect()
    }
}

/// Header of the first version.
#[must_use]
pub fn numbered(block_number: u64) -> Vec<u8> {
    [&[0x01], &block_number.to_be_bytes()[..]].concat()
}

/// Header of the second version.
#[must_use]
pub fn accumulated(source: u8, destination: u8) -> Vec<u8> {
    [&[0x01], &[source; 32][..], &[destination; 32]].concat()
}

/// The calldata of an update.
#[must_use]
pub fn calldata(header: Vec<u8>, feeds: &[Value], rows: &[Row]) -> Vec<u8> {
    let mut bytes = header;
    bytes.extend((feeds.len() as u32).to_be_bytes());
    feeds.iter().for_each(|feed| bytes.extend(value(feed)));
    rows.iter().for_each(|wanted| bytes.extend(row(wanted)));
    bytes
}

/// A value as it stands in the calldata.
#[must_use]
pub fn value(value: &Value) -> Vec<u8> {
    let mut bytes = vec![value.stride];
    bytes.extend(counted(&feed_index(value), value.padding));
    let length = (value.data.len() as u64).to_be_bytes();
    bytes.extend(counted(&length, 0));
    bytes.extend(&value.data);
    bytes
}

/// A row as it stands in the calldata.
#[must_use]
pub fn row(row: &Row) -> Vec<u8> {
    let mut bytes = counted(&row.table_index.to_be_bytes(), 0);
    bytes.extend(row.data());
    bytes
}

/// 115 bits of id, 13 of ring index and as many of slot as the stride has, the highest bit first.
#[must_use]
pub fn feed_index(value: &Value) -> Vec<u8> {
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
    let zeros = zeros.min(digits.len().saturating_sub(1));
    let short = digits.get(zeros..).unwrap_or_default();
    let mut bytes = vec![(short.len() + padding) as u8];
    bytes.extend(vec![0; padding]);
    bytes.extend(short);
    bytes
}
