//! Parses Gearman's messages for the model (spec gearman 1 and 2). This code uses only the spec,
//! and is independent of the dialect.

/// The length of a packet's header.
const HEADER_BYTES: usize = 12;

/// Limit of header and arguments together, without the data at the end.
const ARGUMENT_AREA_BYTES_MAX: usize = 8192;

/// The longest line, including its line feed.
const LINE_BYTES_MAX: usize = 8192;

pub(super) mod kind {
    pub(in crate::model) const CAN_DO: u32 = 1;
    pub(in crate::model) const CANT_DO: u32 = 2;
    pub(in crate::model) const RESET_ABILITIES: u32 = 3;
    pub(in crate::model) const PRE_SLEEP: u32 = 4;
    pub(in crate::model) const NOOP: u32 = 6;
    pub(in crate::model) const SUBMIT_JOB: u32 = 7;
    pub(in crate::model) const JOB_CREATED: u32 = 8;
    pub(in crate::model) const GRAB_JOB: u32 = 9;
    pub(in crate::model) const NO_JOB: u32 = 10;
    pub(in crate::model) const JOB_ASSIGN: u32 = 11;
    pub(in crate::model) const WORK_STATUS: u32 = 12;
    pub(in crate::model) const WORK_COMPLETE: u32 = 13;
    pub(in crate::model) const WORK_FAIL: u32 = 14;
    pub(in crate::model) const GET_STATUS: u32 = 15;
    pub(in crate::model) const ECHO_REQ: u32 = 16;
    pub(in crate::model) const ECHO_RES: u32 = 17;
    pub(in crate::model) const SUBMIT_JOB_BG: u32 = 18;
    pub(in crate::model) const ERROR: u32 = 19;
    pub(in crate::model) const STATUS_RES: u32 = 20;
    pub(in crate::model) const SUBMIT_JOB_HIGH: u32 = 21;
    pub(in crate::model) const SET_CLIENT_ID: u32 = 22;
    pub(in crate::model) const CAN_DO_TIMEOUT: u32 = 23;
    pub(in crate::model) const WORK_EXCEPTION: u32 = 25;
    pub(in crate::model) const OPTION_REQ: u32 = 26;
    pub(in crate::model) const OPTION_RES: u32 = 27;
    pub(in crate::model) const WORK_DATA: u32 = 28;
    pub(in crate::model) const WORK_WARNING: u32 = 29;
    pub(in crate::model) const GRAB_JOB_UNIQ: u32 = 30;
    pub(in crate::model) const JOB_ASSIGN_UNIQ: u32 = 31;
    pub(in crate::model) const SUBMIT_JOB_HIGH_BG: u32 = 32;
    pub(in crate::model) const SUBMIT_JOB_LOW: u32 = 33;
    pub(in crate::model) const SUBMIT_JOB_LOW_BG: u32 = 34;
    pub(in crate::model) const SUBMIT_JOB_EPOCH: u32 = 36;
    pub(in crate::model) const SUBMIT_REDUCE_JOB: u32 = 37;
    pub(in crate::model) const SUBMIT_REDUCE_JOB_BG: u32 = 38;
    pub(in crate::model) const GRAB_JOB_ALL: u32 = 39;
    pub(in crate::model) const JOB_ASSIGN_ALL: u32 = 40;
    pub(in crate::model) const GET_STATUS_UNIQUE: u32 = 41;
    pub(in crate::model) const STATUS_RES_UNIQUE: u32 = 42;
}

/// The number of arguments for each kind, and whether the last argument is data of any length.
const ARGUMENTS: [(usize, bool); 42] = {
    let mut table = [(0, false); 42];
    let counted: [(u32, usize, bool); 35] = [
        (1, 1, false),
        (2, 1, false),
        (7, 3, true),
        (8, 1, false),
        (11, 3, true),
        (12, 3, false),
        (13, 2, true),
        (14, 1, false),
        (15, 1, false),
        (16, 1, true),
        (17, 1, true),
        (18, 3, true),
        (19, 2, false),
        (20, 5, false),
        (21, 3, true),
        (22, 1, false),
        (23, 2, false),
        (25, 2, true),
        (26, 1, false),
        (27, 1, false),
        (28, 2, true),
        (29, 2, true),
        (31, 4, true),
        (32, 3, true),
        (33, 3, true),
        (34, 3, true),
        (35, 8, true),
        (36, 4, true),
        (37, 5, true),
        (38, 5, true),
        (40, 5, true),
        (41, 1, false),
        (42, 6, false),
        // The other kinds have no arguments: 3 to 6, 9, 10, 24, 30, 39.
        (3, 0, false),
        (4, 0, false),
    ];
    let mut index = 0;
    while index < counted.len() {
        let (kind, count, is_data) = counted[index];
        table[kind as usize - 1] = (count, is_data);
        index += 1;
    }
    table
};

/// The first message in the bytes of a connection.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Message {
    /// More bytes must arrive.
    Incomplete,
    /// The message is invalid, and the server closes the connection.
    Hopeless,
    /// A line without its end, and the length of the line with its end.
    Line(Vec<u8>, usize),
    Packet(Packet),
}

#[derive(Debug, Eq, PartialEq)]
pub(super) struct Packet {
    pub(super) kind: u32,
    pub(super) is_request: bool,
    pub(super) arguments: Vec<Vec<u8>>,
    pub(super) len: usize,
}

pub(super) fn read(bytes: &[u8], packet_bytes_max: u32) -> Message {
    match bytes.first() {
        None => Message::Incomplete,
        Some(0) => read_packet(bytes, packet_bytes_max).unwrap_or(Message::Incomplete),
        Some(_) => match bytes.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') {
            Some(end) => {
                let line = &bytes[..end];
                Message::Line(line.strip_suffix(b"\r").unwrap_or(line).to_vec(), end + 1)
            }
            None if bytes.len() >= LINE_BYTES_MAX => Message::Hopeless,
            None => Message::Incomplete,
        },
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn read_packet(bytes: &[u8], packet_bytes_max: u32) -> Option<Message> {
    let header = bytes.get(..HEADER_BYTES)?;
    let is_request = match &header[..4] {
        b"\0REQ" => true,
        b"\0RES" => false,
        _ => return Some(Message::Hopeless),
    };
    let kind = number(&header[4..8]);
    let index = (kind as usize).wrapping_sub(1);
    let Some(&(count, is_data)) = ARGUMENTS.get(index) else { return Some(Message::Hopeless) };
    let body_len = number(&header[8..]) as usize;
    let len = HEADER_BYTES + body_len;
    let is_bounded = count > 0 && !is_data;
    let len_max = if is_bounded { ARGUMENT_AREA_BYTES_MAX } else { packet_bytes_max as usize };
    if len > len_max {
        return Some(Message::Hopeless);
    }
    let area_len = ARGUMENT_AREA_BYTES_MAX - HEADER_BYTES;
    let body = &bytes[HEADER_BYTES..bytes.len().min(len)];
    if body.len() < body_len {
        // The server rejects a packet as soon as its arguments are too long. It does not wait for
        // the remaining bytes.
        let area = body.get(..area_len).filter(|_| count > 0 && len > ARGUMENT_AREA_BYTES_MAX)?;
        let found = area.split(|byte| *byte == 0).count();
        return (found < count).then_some(Message::Hopeless);
    }
    let mut arguments: Vec<Vec<u8>> =
        body.splitn(count.max(1), |byte| *byte == 0).map(<[u8]>::to_vec).collect();
    if count == 0 {
        arguments.clear();
    }
    let data_len = arguments.last().filter(|_| is_data).map_or(0, Vec::len);
    if arguments.len() < count || (count > 0 && body_len - data_len > area_len) {
        return Some(Message::Hopeless);
    }
    Some(Message::Packet(Packet { kind, is_request, arguments, len }))
}

/// A packet from the server.
pub(super) fn response(kind: u32, arguments: &[&[u8]]) -> Vec<u8> {
    let body = arguments.join(&0);
    let mut bytes = b"\0RES".to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// The integer at the beginning of a text, parsed as in C.
pub(super) fn integer(text: &[u8]) -> i128 {
    let text = String::from_utf8_lossy(text.trim_ascii_start()).into_owned();
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, &text[..]),
    };
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    sign * digits[..end].parse::<i128>().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_argument_holds_separators() {
        let mut bytes = b"\0REQ\0\0\0\x07\0\0\0\x05f\0\0\0x".to_vec();
        let arguments = vec![b"f".to_vec(), b"".to_vec(), b"\0x".to_vec()];
        let packet = Packet { kind: 7, is_request: true, arguments, len: 17 };
        assert_eq!(read(&bytes, 100), Message::Packet(packet));
        assert_eq!(read(&bytes[..16], 100), Message::Incomplete);
        assert_eq!(read(&bytes, 16), Message::Hopeless);
        bytes[7] = 43;
        assert_eq!(read(&bytes, 100), Message::Hopeless);
        assert_eq!(read(b"status\r\nx", 100), Message::Line(b"status".to_vec(), 8));
    }
}
