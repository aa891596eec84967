//! Checks what must be true for any bytes of a record. A fuzz target and a property test use this
//! file.

use replica::claim::{Claim, Resignation};
use replica::record::{HEADER_BYTES, Header, Kind};

/// Reads any bytes as a record. `is_sealed`: with valid magic, format and checksums, so that the
/// other checks see the bytes.
pub(crate) fn check(bytes: &[u8], is_sealed: bool) {
    let mut bytes = bytes.to_vec();
    if is_sealed && bytes.len() >= HEADER_BYTES {
        seal(&mut bytes);
    }
    let Ok((header, body)) = Header::decode(&bytes) else { return };
    assert_eq!(header.encode(body), bytes, "a record has one form");
    match header.kind {
        Kind::Claim | Kind::Renewal => {
            if let Ok(claim) = Claim::decode(body) {
                assert_eq!(claim.encode(), body);
            }
        }
        Kind::Resign => {
            if let Ok(resignation) = Resignation::decode(body) {
                assert_eq!(resignation.encode(), body);
            }
        }
        Kind::Group => assert_eq!(header.after, header.before.then(&header.link())),
        Kind::Alive => assert!(body.is_empty()),
    }
}

fn seal(bytes: &mut [u8]) {
    bytes[..6].copy_from_slice(b"LSR1\x01\0");
    let body_bytes = bytes.len() - HEADER_BYTES;
    bytes[44..48].copy_from_slice(&(body_bytes as u32).to_le_bytes());
    bytes[48..56].copy_from_slice(&(body_bytes as u64).to_le_bytes());
    bytes[40..44].copy_from_slice(&[0, 0, 1, 0]);
    let crc = crc32fast::hash(&bytes[HEADER_BYTES..]).to_le_bytes();
    bytes[116..120].copy_from_slice(&crc);
    bytes[120..124].copy_from_slice(&crc);
    let crc = crc32fast::hash(&bytes[..HEADER_BYTES - 4]).to_le_bytes();
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc);
}
