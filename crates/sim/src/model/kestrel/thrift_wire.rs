//! Parses and writes the thrift dialect for the model (spec kestrel 8): calls of the binary
//! protocol, in frames. This code uses only the spec, and is independent of the dialect.

/// The version of messages, and their kinds.
const VERSION: u32 = 0x8001_0000;
const CALL: u32 = 1;
const REPLY: u32 = 2;
const EXCEPTION: u32 = 3;
const ONEWAY: u32 = 4;

pub(super) mod kind {
    pub(in crate::model::kestrel) const I32: u8 = 8;
    pub(in crate::model::kestrel) const I64: u8 = 10;
    pub(in crate::model::kestrel) const BYTES: u8 = 11;
    pub(in crate::model::kestrel) const STRUCT: u8 = 12;
    pub(in crate::model::kestrel) const SET: u8 = 14;
    pub(in crate::model::kestrel) const LIST: u8 = 15;
}

/// The codes of exceptions.
pub(super) const UNKNOWN_METHOD: i32 = 1;
pub(super) const WRONG_KIND: i32 = 2;
pub(super) const INTERNAL_ERROR: i32 = 6;
pub(super) const PROTOCOL_ERROR: i32 = 7;

/// A parsed message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Message {
    Call(Call),
    /// The bytes are not a call, so the connection closes.
    Broken,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) sequence: u32,
    pub(super) is_oneway: bool,
    /// True if the message is for a server. Replies are only for clients.
    pub(super) is_for_server: bool,
    /// `None` if the arguments are invalid.
    pub(super) arguments: Option<Arguments>,
}

/// The arguments of all methods. Each field of a call is one of them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Arguments {
    pub(super) queue: String,
    pub(super) status: i32,
    pub(super) items: Vec<Vec<u8>>,
    pub(super) ids: Vec<u64>,
    pub(super) items_max: i32,
    pub(super) time_ms: i32,
    pub(super) auto_abort_ms: i32,
}

/// Reads the first message. Returns it with its length, or `None` if it has not arrived completely.
pub(super) fn read(bytes: &[u8], bytes_max: u32) -> Option<(Message, usize)> {
    // Waits for a byte after the length, because only the bytes after the length show that this is
    // a frame.
    let (head, rest) = bytes.split_first_chunk::<4>().filter(|(_, rest)| !rest.is_empty())?;
    let len = u32::from_be_bytes(*head);
    if len == 0 || len > bytes_max {
        return Some((Message::Broken, 0));
    }
    let message = rest.get(..len as usize)?;
    let read = call(&mut Cursor(message)).map_or(Message::Broken, Message::Call);
    Some((read, 4 + len as usize))
}

fn call(cursor: &mut Cursor<'_>) -> Option<Call> {
    let head = cursor.u32()?;
    if head & 0xffff_0000 != VERSION {
        return None;
    }
    let name = String::from_utf8_lossy(cursor.bytes()?).into_owned();
    let sequence = cursor.u32()?;
    let kind = head & 0xff;
    let is_for_server = kind == CALL || kind == ONEWAY;
    let arguments = arguments(cursor);
    Some(Call { name, sequence, is_oneway: kind == ONEWAY, is_for_server, arguments })
}

fn arguments(cursor: &mut Cursor<'_>) -> Option<Arguments> {
    let mut arguments = Arguments::default();
    loop {
        let type_of = cursor.u8()?;
        if type_of == 0 {
            return Some(arguments);
        }
        match (cursor.u16()?, type_of) {
            (1, kind::BYTES) => {
                arguments.queue = String::from_utf8_lossy(cursor.bytes()?).into_owned();
            }
            (1, kind::I32) => arguments.status = cursor.u32()? as i32,
            (2, kind::I32) => arguments.items_max = cursor.u32()? as i32,
            (3, kind::I32) => arguments.time_ms = cursor.u32()? as i32,
            (4, kind::I32) => arguments.auto_abort_ms = cursor.u32()? as i32,
            (2, kind::LIST) => arguments.items = cursor.values(kind::BYTES, Cursor::item)?,
            (2, kind::SET) => arguments.ids = cursor.values(kind::I64, Cursor::u64)?,
            // Unknown fields are ignored.
            (_, kind::I32) => drop(cursor.u32()?),
            (_, kind::BYTES) => drop(cursor.bytes()?),
            _ => return None,
        }
    }
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    fn item(&mut self) -> Option<Vec<u8>> {
        self.bytes().map(<[u8]>::to_vec)
    }

    fn values<T>(&mut self, of: u8, one: fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let (type_of, count) = (self.u8()?, self.u32()?);
        if type_of != of {
            return None;
        }
        (0..count).map(|_| one(self)).collect()
    }
}

/// A reply that is being written.
#[derive(Clone, Debug)]
pub(super) struct Reply(Vec<u8>);

impl Reply {
    pub(super) fn result(call: &Call) -> Self {
        Self::begin(REPLY, call)
    }

    pub(super) fn exception(call: &Call, code: i32, text: &str) -> Self {
        let mut reply = Self::begin(EXCEPTION, call);
        reply.field(kind::BYTES, 1).bytes(text.as_bytes());
        reply.field(kind::I32, 2).u32(code as u32);
        reply
    }

    fn begin(kind: u32, call: &Call) -> Self {
        let mut reply = Self(Vec::new());
        reply.u32(VERSION | kind).bytes(call.name.as_bytes()).u32(call.sequence);
        reply
    }

    /// Ends the reply. Returns it in a frame.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.u8(0);
        [&(self.0.len() as u32).to_be_bytes()[..], &self.0].concat()
    }

    pub(super) fn field(&mut self, kind: u8, number: u16) -> &mut Self {
        self.u8(kind);
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frame from the spec: `put("q", ["x"], 0)`.
    const PUT: &[u8] =
        b"\0\0\0\x2c\x80\x01\0\x01\0\0\0\x03put\0\0\0\x01\x0b\0\x01\0\0\0\x01q\x0f\0\x02\
        \x0b\0\0\0\x01\0\0\0\x01x\x08\0\x03\0\0\0\0\0";

    #[test]
    fn a_put_is_read_and_its_reply_is_that_of_the_spec() {
        let (message, len) = read(PUT, 100).expect("it is whole");
        let Message::Call(call) = message else { panic!("{message:?}") };
        assert_eq!(len, PUT.len());
        let wanted =
            Arguments { queue: "q".into(), items: vec![b"x".to_vec()], ..Arguments::default() };
        assert_eq!(call.arguments, Some(wanted));
        let mut reply = Reply::result(&call);
        reply.field(kind::I32, 0).u32(1);
        let bytes = b"\0\0\0\x17\x80\x01\0\x02\0\0\0\x03put\0\0\0\x01\x08\0\0\0\0\0\x01\0";
        assert_eq!(reply.end(), bytes);
        assert_eq!(read(&PUT[..20], 100), None);
        assert_eq!(read(PUT, 43), Some((Message::Broken, 0)));
    }
}
