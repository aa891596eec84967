//! Writes Gearman's binary packets, and parses them from a stream of replies. The stream can be
//! split anywhere.

/// The packet types, with their numbers on the wire.
pub(crate) mod kind {
    pub(crate) const CAN_DO: u32 = 1;
    pub(crate) const PRE_SLEEP: u32 = 4;
    pub(crate) const NOOP: u32 = 6;
    pub(crate) const SUBMIT_JOB: u32 = 7;
    pub(crate) const JOB_CREATED: u32 = 8;
    pub(crate) const GRAB_JOB: u32 = 9;
    pub(crate) const NO_JOB: u32 = 10;
    pub(crate) const JOB_ASSIGN: u32 = 11;
    pub(crate) const WORK_COMPLETE: u32 = 13;
    pub(crate) const ECHO_REQ: u32 = 16;
    pub(crate) const ECHO_RES: u32 = 17;
    pub(crate) const SUBMIT_JOB_BG: u32 = 18;
    pub(crate) const ERROR: u32 = 19;
}

/// Length of the header: magic, type, and size of the body.
pub(crate) const HEADER_BYTES: usize = 12;
/// The first bytes of each packet from a server.
const REPLY_MAGIC: [u8; 4] = *b"\0RES";
/// The limit of a reply's body. It is larger than any reply in a load, so a longer reply means a
/// parse error.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Appends a request, whose arguments are separated by NUL.
pub(crate) fn append_request(kind: u32, arguments: &[&[u8]], output: &mut Vec<u8>) {
    append(*b"\0REQ", kind, arguments, output);
}

fn append(magic: [u8; 4], kind: u32, arguments: &[&[u8]], output: &mut Vec<u8>) {
    let body = arguments.join(&0);
    let size = u32::try_from(body.len()).expect("the generator's own bodies are small");
    output.extend_from_slice(&magic);
    output.extend_from_slice(&kind.to_be_bytes());
    output.extend_from_slice(&size.to_be_bytes());
    output.extend_from_slice(&body);
}

/// Appends a reply as a server sends it, for callers that compare replies.
pub(crate) fn append_reply(kind: u32, arguments: &[&[u8]], output: &mut Vec<u8>) {
    append(REPLY_MAGIC, kind, arguments, output);
}

/// The part of a body before the first NUL, such as a job's handle or an error's code.
pub(crate) fn first_argument(body: &[u8]) -> &[u8] {
    let end = memchr::memchr(0, body).unwrap_or(body.len());
    &body[..end]
}

/// The state of parsing one connection's stream of replies.
#[derive(Debug, Default)]
pub(crate) struct PacketScanner {
    /// The beginning of a packet that has not arrived completely.
    partial: Vec<u8>,
}

impl PacketScanner {
    /// Calls `on_packet` for each complete packet, with its type and its body.
    pub(crate) fn scan(
        &mut self,
        mut input: &[u8],
        mut on_packet: impl FnMut(u32, &[u8]),
    ) -> anyhow::Result<()> {
        while !self.partial.is_empty() && !input.is_empty() {
            // Complete the header first, because it contains the length of the packet.
            let wanted = packet_bytes(&self.partial)?.unwrap_or(HEADER_BYTES);
            let (missing, rest) = input.split_at((wanted - self.partial.len()).min(input.len()));
            self.partial.extend_from_slice(missing);
            input = rest;
            if packet_bytes(&self.partial)? == Some(self.partial.len()) {
                on_packet(kind_of(&self.partial), &self.partial[HEADER_BYTES..]);
                self.partial.clear();
            }
        }
        while let Some(length) = packet_bytes(input)?
            && length <= input.len()
        {
            on_packet(kind_of(input), &input[HEADER_BYTES..length]);
            input = &input[length..];
        }
        self.partial.extend_from_slice(input);
        Ok(())
    }
}

/// The length of the packet at the beginning of `bytes`. `None` if its header is incomplete.
pub(crate) fn packet_bytes(bytes: &[u8]) -> anyhow::Result<Option<usize>> {
    let magic = bytes.len().min(REPLY_MAGIC.len());
    anyhow::ensure!(
        bytes[..magic] == REPLY_MAGIC[..magic],
        "the server's reply is not a Gearman packet; does it speak another protocol on this port?"
    );
    if bytes.len() < HEADER_BYTES {
        return Ok(None);
    }
    let size = number_at(bytes, 8) as usize;
    anyhow::ensure!(size <= BODY_BYTES_MAX, "the server sent a packet of {size} bytes");
    Ok(Some(HEADER_BYTES + size))
}

/// The type of this packet. Its header must be complete.
pub(crate) fn kind_of(packet: &[u8]) -> u32 {
    number_at(packet, 4)
}

fn number_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(chunks: &[&[u8]]) -> Vec<(u32, Vec<u8>)> {
        let mut scanner = PacketScanner::default();
        let mut packets = Vec::new();
        for chunk in chunks {
            scanner
                .scan(chunk, |kind, body| packets.push((kind, body.to_vec())))
                .expect("they are packets");
        }
        packets
    }

    #[test]
    fn every_split_of_the_input_gives_the_same_packets() {
        let mut input = Vec::new();
        append_reply(kind::JOB_CREATED, &[b"H:a:1"], &mut input);
        append_reply(kind::NO_JOB, &[], &mut input);
        append_reply(kind::JOB_ASSIGN, &[b"H:a:2", b"f", b"\0RES\0"], &mut input);
        append_reply(kind::NOOP, &[], &mut input);
        let expected = [
            (kind::JOB_CREATED, b"H:a:1".to_vec()),
            (kind::NO_JOB, Vec::new()),
            (kind::JOB_ASSIGN, b"H:a:2\0f\0\0RES\0".to_vec()),
            (kind::NOOP, Vec::new()),
        ];
        assert_eq!(packets(&[&input]), expected);
        for first in 0..input.len() {
            for second in first..input.len() {
                let chunks = [&input[..first], &input[first..second], &input[second..]];
                assert_eq!(packets(&chunks), expected, "split at {first} and {second}");
            }
        }
        let single: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(packets(&single), expected);
    }

    #[test]
    fn bytes_that_are_no_packet_are_an_error_at_the_first_byte() {
        let mut scanner = PacketScanner::default();
        assert!(scanner.scan(b"UNKNOWN_COMMAND\r\n", |_, _| {}).is_err());
        let mut scanner = PacketScanner::default();
        assert!(scanner.scan(b"\0REQ", |_, _| {}).is_err());
        let mut scanner = PacketScanner::default();
        assert!(scanner.scan(b"\0RES\0\0\0\x08\xff\xff\xff\xff", |_, _| {}).is_err());
    }

    #[test]
    fn a_request_has_its_size_and_separated_arguments() {
        let mut output = Vec::new();
        append_request(kind::SUBMIT_JOB_BG, &[b"f", b"", b"xy"], &mut output);
        assert_eq!(output, b"\0REQ\0\0\0\x12\0\0\0\x05f\0\0xy");
        assert_eq!(first_argument(b"H:a:1\0f\0x"), b"H:a:1");
        assert_eq!(first_argument(b"H:a:1"), b"H:a:1");
    }
}
