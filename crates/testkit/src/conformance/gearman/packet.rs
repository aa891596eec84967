//! Gearman packets: writes packets for a server, and parses the packets of a server.

/// Length of the header: magic, type and size, four bytes each.
pub const HEADER_BYTES: usize = 12;

/// The magic in the packets of clients and workers.
pub const REQUEST: [u8; 4] = *b"\0REQ";

/// The magic in the packets of a server.
pub const RESPONSE: [u8; 4] = *b"\0RES";

/// A whole packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// [`REQUEST`], [`RESPONSE`], or other bytes.
    pub magic: [u8; 4],
    /// Number of the packet type.
    pub kind: u32,
    /// The arguments, separated by NUL bytes.
    pub body: Vec<u8>,
}

impl Packet {
    /// A packet for a server.
    pub fn request(kind: u32, arguments: &[&[u8]]) -> Packet {
        Packet { magic: REQUEST, kind, body: arguments.join(&0) }
    }

    /// The packet as bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let size = u32::try_from(self.body.len()).expect("packets of tests are small");
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.body.len());
        bytes.extend_from_slice(&self.magic);
        bytes.extend_from_slice(&self.kind.to_be_bytes());
        bytes.extend_from_slice(&size.to_be_bytes());
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Removes the first packet from the front of `unread` and returns it. Returns `None` if the
    /// packet is incomplete.
    pub fn take(unread: &mut Vec<u8>) -> Option<Packet> {
        let header: &[u8; HEADER_BYTES] = unread.first_chunk()?;
        let word = |from: usize| header[from..from + 4].try_into().expect("four bytes");
        let magic: [u8; 4] = word(0);
        let kind = u32::from_be_bytes(word(4));
        let size = u32::from_be_bytes(word(8)) as usize;
        if unread.len() < HEADER_BYTES + size {
            return None;
        }
        let body = unread[HEADER_BYTES..HEADER_BYTES + size].to_vec();
        unread.drain(..HEADER_BYTES + size);
        Some(Packet { magic, kind, body })
    }

    /// The arguments in the body. NUL bytes separate them. There are at most `count`, so the last
    /// argument can contain NUL bytes.
    pub fn arguments(&self, count: usize) -> Vec<&[u8]> {
        if count == 0 {
            return Vec::new();
        }
        self.body.splitn(count, |byte| *byte == 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_taken_only_when_whole() {
        let packet = Packet::request(7, &[b"f", b"", b"a\0b"]);
        let mut bytes = packet.bytes();
        assert_eq!(bytes[..12], *b"\0REQ\0\0\0\x07\0\0\0\x06");
        bytes.push(b'x');
        let mut unread = bytes[..17].to_vec();
        assert_eq!(Packet::take(&mut unread), None);
        unread.extend_from_slice(&bytes[17..]);
        assert_eq!(Packet::take(&mut unread), Some(packet.clone()));
        assert_eq!(unread, b"x");
        assert_eq!(packet.arguments(3), [&b"f"[..], b"", b"a\0b"]);
    }
}
