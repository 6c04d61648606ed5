//! Compression of a body, piece by piece.

use std::io::{self, Write};

use axum::http::HeaderMap;
use axum::http::header::ACCEPT_ENCODING;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Level of zstd: the body is random digits for the most part, more work would gain nothing.
const ZSTD_LEVEL: i32 = 1;

/// Compresses a body.
pub(super) enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::Encoder<'static, Vec<u8>>),
}

impl Encoder {
    pub(super) fn gzip() -> Self {
        Self::Gzip(GzEncoder::new(Vec::new(), Compression::fast()))
    }

    /// Zstd where the client takes it, else gzip: never nothing.
    pub(super) fn negotiated(headers: &HeaderMap) -> io::Result<Self> {
        let accepted = headers.get_all(ACCEPT_ENCODING).iter();
        let takes_zstd = |text: &str| text.split(',').any(|one| one.trim().starts_with("zstd"));
        let mut accepted = accepted.filter_map(|value| value.to_str().ok());
        if accepted.any(takes_zstd) {
            return zstd::Encoder::new(Vec::new(), ZSTD_LEVEL).map(Self::Zstd);
        }
        Ok(Self::gzip())
    }

    /// What the header says.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Gzip(_) => "gzip",
            Self::Zstd(_) => "zstd",
        }
    }

    /// Compresses a piece so that the other side can read all of it at once.
    pub(super) fn encode(&mut self, piece: &[u8]) -> io::Result<Bytes> {
        let encoder: &mut dyn Write = match self {
            Self::Gzip(encoder) => encoder,
            Self::Zstd(encoder) => encoder,
        };
        encoder.write_all(piece)?;
        encoder.flush()?;
        let encoded = match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        };
        Ok(std::mem::take(encoded).into())
    }

    /// The end of the body.
    pub(super) fn finish(self) -> io::Result<Bytes> {
        let encoded = match self {
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Zstd(encoder) => encoder.finish()?,
        };
        Ok(encoded.into())
    }
}
