//! The layout of `.mill` files, for the reader and the writer.
//!
//! All numbers are little-endian. A header of 64 bytes:
//!
//! | bytes | content |
//! |---|---|
//! | 0..8 | magic |
//! | 8..12 | version, 1 |
//! | 12..16 | flags: bits 0 and 1 weights (0 none, 1 integers, 2 reals), bit 2 lattice width, bit 3 original ids |
//! | 16..24 | number of vertices |
//! | 24..32 | number of arcs |
//! | 32..36 | lattice width, or 0 |
//! | 36..52 | CRC-32 of each section |
//! | 52..60 | zero |
//! | 60..64 | CRC-32 of bytes 0..60 |
//!
//! The sections follow: offsets (64 bits, one more than vertices), targets (32
//! bits), weights (32 bits), original ids (64 bits). Each begins at a multiple of
//! 64, with zeros before it, and what is not there is empty. The file ends with
//! the last section.

use std::ops::Range;

use rayon::prelude::*;

/// First bytes of a file. No text begins like this, and a conversion of line ends destroys it.
pub(crate) const MAGIC: [u8; 8] = *b"\x93MILL\r\n\x1a";
pub(crate) const HEADER: usize = 64;
pub(crate) const SECTIONS: usize = 4;
const VERSION: u32 = 1;
const ALIGNMENT: u64 = 64;

const HAS_LATTICE_WIDTH: u32 = 1 << 2;
const HAS_ORIGINAL_IDS: u32 = 1 << 3;

/// How arcs are weighted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WeightKind {
    None,
    Integer,
    Real,
}

/// The contents of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) vertices: u64,
    pub(crate) arcs: u64,
    pub(crate) weights: WeightKind,
    pub(crate) lattice_width: Option<u32>,
    pub(crate) has_original_ids: bool,
    pub(crate) checksums: [u32; SECTIONS],
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut flags = match self.weights {
            WeightKind::None => 0,
            WeightKind::Integer => 1,
            WeightKind::Real => 2,
        };
        if self.lattice_width.is_some() {
            flags |= HAS_LATTICE_WIDTH;
        }
        if self.has_original_ids {
            flags |= HAS_ORIGINAL_IDS;
        }
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&flags.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.vertices.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.arcs.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.lattice_width.unwrap_or(0).to_le_bytes());
        for (place, checksum) in bytes[36..52].chunks_exact_mut(4).zip(self.checksums) {
            place.copy_from_slice(&checksum.to_le_bytes());
        }
        let checksum = crc32fast::hash(&bytes[..60]);
        bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header, or the position of the first wrong byte and what is wrong.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Header, (usize, String)> {
        if !bytes.starts_with(&MAGIC) {
            return Err((0, "wrong magic, this is no .mill file".to_string()));
        }
        let Some(bytes) = bytes.first_chunk::<HEADER>() else {
            let reason = format!("the file ends in its header of {HEADER} bytes");
            return Err((bytes.len(), reason));
        };
        let version = word(bytes, 8);
        if version != VERSION {
            return Err((8, format!("version {version} is not supported, only {VERSION} is")));
        }
        if word(bytes, 60) != crc32fast::hash(&bytes[..60]) {
            return Err((60, "the checksum of the header does not match".to_string()));
        }
        let flags = word(bytes, 12);
        let weights = match flags & 3 {
            0 => WeightKind::None,
            1 => WeightKind::Integer,
            2 => WeightKind::Real,
            _ => return Err((12, "unknown kind of weights".to_string())),
        };
        if flags > 15 || bytes[52..60] != [0; 8] {
            return Err((12, "flags of another version".to_string()));
        }
        Ok(Header {
            vertices: long(bytes, 16),
            arcs: long(bytes, 24),
            weights,
            lattice_width: (flags & HAS_LATTICE_WIDTH != 0).then(|| word(bytes, 32)),
            has_original_ids: flags & HAS_ORIGINAL_IDS != 0,
            checksums: [36, 40, 44, 48].map(|place| word(bytes, place)),
        })
    }

    /// The byte ranges of offsets, targets, weights and original ids; `None` if the file would be
    /// larger than a file can be.
    pub(crate) fn sections(&self) -> Option<[Range<u64>; SECTIONS]> {
        let weights = if self.weights == WeightKind::None { 0 } else { self.arcs };
        let ids = if self.has_original_ids { self.vertices } else { 0 };
        let lengths = [
            self.vertices.checked_add(1)?.checked_mul(8)?,
            self.arcs.checked_mul(4)?,
            weights.checked_mul(4)?,
            ids.checked_mul(8)?,
        ];
        let mut sections = [const { 0..0 }; SECTIONS];
        let mut end = HEADER as u64;
        for (section, length) in sections.iter_mut().zip(lengths) {
            // An empty section begins where the one before ends.
            let start = if length == 0 { end } else { end.checked_next_multiple_of(ALIGNMENT)? };
            end = start.checked_add(length)?;
            *section = start..end;
        }
        (end <= i64::MAX as u64).then_some(sections)
    }
}

fn word(bytes: &[u8; HEADER], place: usize) -> u32 {
    bytes[place..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn long(bytes: &[u8; HEADER], place: usize) -> u64 {
    bytes[place..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// CRC-32 of a section, by all threads.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    const PIECE: usize = 1 << 22;
    let hash = |piece: &[u8]| {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(piece);
        hasher
    };
    let pieces: Vec<_> = bytes.par_chunks(PIECE).map(hash).collect();
    let mut whole = crc32fast::Hasher::new();
    pieces.iter().for_each(|piece| whole.combine(piece));
    whole.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_and_changed_ones_do_not() {
        let header = Header {
            vertices: 5,
            arcs: 7,
            weights: WeightKind::Real,
            lattice_width: Some(0),
            has_original_ids: true,
            checksums: [1, 2, 3, u32::MAX],
        };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header.clone()));
        for place in 0..HEADER {
            let mut bytes = bytes;
            bytes[place] ^= 4;
            assert!(Header::decode(&bytes).is_err(), "byte {place}");
            assert!(Header::decode(&bytes[..place]).is_err());
        }
        let sections = header.sections().unwrap();
        assert_eq!(sections, [64..112, 128..156, 192..220, 256..296]);
    }

    #[test]
    fn checksums_of_pieces_are_those_of_the_whole() {
        let bytes: Vec<u8> = (0..10_000_000u32).map(|byte| (byte * 7 / 3) as u8).collect();
        assert_eq!(checksum(&bytes), crc32fast::hash(&bytes));
        assert_eq!(checksum(&[]), crc32fast::hash(&[]));
    }
}
