//! A client's side of thrift: encodes calls, and decodes replies. This client shares no code with
//! the server. So an error in only one of the two makes a test fail.

/// How a client encodes its messages.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Style {
    /// True if each message is in a frame.
    pub framed: bool,
    /// The encoding of a message.
    pub form: Form,
}

/// The encoding of a message.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Form {
    /// The binary protocol, with the version.
    Strict,
    /// The binary protocol, without the version. Replies still contain the version.
    Old,
    /// The compact protocol.
    Compact,
}

/// All styles.
pub const STYLES: [Style; 6] = [
    Style { framed: true, form: Form::Strict },
    Style { framed: true, form: Form::Old },
    Style { framed: true, form: Form::Compact },
    Style { framed: false, form: Form::Strict },
    Style { framed: false, form: Form::Old },
    Style { framed: false, form: Form::Compact },
];

/// The style that the original supports.
pub const FRAMED: Style = STYLES[0];

/// The kind of a message that gets a reply.
pub const CALL: u8 = 1;
/// The kind of a successful reply.
pub const REPLY: u8 = 2;
/// The kind of a reply to a failed call.
pub const EXCEPTION: u8 = 3;
/// The kind of a message that gets no reply.
pub const ONEWAY: u8 = 4;

/// A value of one of the types that the service uses.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Value {
    /// A number of 32 bits.
    I32(i32),
    /// A number of 64 bits.
    I64(i64),
    /// A string or binary.
    Bytes(Vec<u8>),
    /// A list of strings or binaries.
    Strings(Vec<Vec<u8>>),
    /// A set of 64-bit numbers.
    Numbers(Vec<i64>),
    /// Fields with their numbers.
    Struct(Vec<(i16, Value)>),
    /// A list of structs.
    Structs(Vec<Vec<(i16, Value)>>),
}

/// A reply of the server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reply {
    /// [`REPLY`] or [`EXCEPTION`].
    pub kind: u8,
    /// The name of the method.
    pub name: Vec<u8>,
    /// The number that the client gave to the call.
    pub sequence: i32,
    /// The fields. The result is field 0.
    pub fields: Vec<(i16, Value)>,
}

/// Encodes a message.
pub fn message(
    style: Style,
    kind: u8,
    name: &str,
    sequence: i32,
    arguments: &[(i16, Value)],
) -> Vec<u8> {
    let mut writer = Writer { compact: style.form == Form::Compact, bytes: Vec::new() };
    match style.form {
        Form::Strict => {
            writer.bytes.extend([0x80, 1, 0, kind]);
            writer.string(name.as_bytes());
            writer.bytes.extend(sequence.to_be_bytes());
        }
        Form::Old => {
            writer.string(name.as_bytes());
            writer.bytes.push(kind);
            writer.bytes.extend(sequence.to_be_bytes());
        }
        Form::Compact => {
            writer.bytes.extend([0x82, kind << 5 | 1]);
            writer.varint(u64::from(sequence as u32));
            writer.string(name.as_bytes());
        }
    }
    writer.fields(arguments);
    let mut bytes = writer.bytes;
    if style.framed {
        let frame_bytes = bytes.len() as u32;
        bytes.splice(0..0, frame_bytes.to_be_bytes());
    }
    bytes
}

/// Encodes a call with the sequence number 1.
pub fn call(style: Style, name: &str, arguments: &[(i16, Value)]) -> Vec<u8> {
    message(style, CALL, name, 1, arguments)
}

struct Writer {
    compact: bool,
    bytes: Vec<u8>,
}

impl Writer {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn number(&mut self, number: i64, bytes: usize) {
        if self.compact {
            self.varint((number as u64) << 1 ^ (number >> 63) as u64);
        } else {
            self.bytes.extend(&number.to_be_bytes()[8 - bytes..]);
        }
    }

    fn length(&mut self, length: usize) {
        if self.compact {
            self.varint(length as u64);
        } else {
            self.bytes.extend((length as u32).to_be_bytes());
        }
    }

    fn string(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.bytes.extend(bytes);
    }

    fn list(&mut self, binary: u8, compact: u8, length: usize) {
        match (self.compact, length) {
            (false, _) => self.bytes.push(binary),
            (true, 0..15) => return self.bytes.push((length as u8) << 4 | compact),
            (true, _) => self.bytes.push(0xf0 | compact),
        }
        self.length(length);
    }

    fn fields(&mut self, fields: &[(i16, Value)]) {
        let mut last = 0;
        for (number, value) in fields {
            let (binary, compact) = match value {
                Value::I32(_) => (8, 5),
                Value::I64(_) => (10, 6),
                Value::Bytes(_) => (11, 8),
                Value::Strings(_) | Value::Structs(_) => (15, 9),
                Value::Numbers(_) => (14, 10),
                Value::Struct(_) => (12, 12),
            };
            let step = number - last;
            match (self.compact, step) {
                (false, _) => {
                    self.bytes.push(binary);
                    self.bytes.extend(number.to_be_bytes());
                }
                (true, 1..=15) => self.bytes.push((step as u8) << 4 | compact),
                (true, _) => {
                    self.bytes.push(compact);
                    self.number(i64::from(*number), 2);
                }
            }
            last = *number;
            self.value(value);
        }
        self.bytes.push(0);
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::I32(number) => self.number(i64::from(*number), 4),
            Value::I64(number) => self.number(*number, 8),
            Value::Bytes(bytes) => self.string(bytes),
            Value::Strings(strings) => {
                self.list(11, 8, strings.len());
                for string in strings {
                    self.string(string);
                }
            }
            Value::Numbers(numbers) => {
                self.list(10, 6, numbers.len());
                for number in numbers {
                    self.number(*number, 8);
                }
            }
            Value::Struct(fields) => self.fields(fields),
            Value::Structs(structs) => {
                self.list(12, 12, structs.len());
                for fields in structs {
                    self.fields(fields);
                }
            }
        }
    }
}

/// Removes a complete reply from the front of `bytes` and returns it. Panics if the bytes are
/// another message.
pub fn take_reply(style: Style, bytes: &mut Vec<u8>) -> Option<Reply> {
    let mut front = &bytes[..];
    if style.framed {
        let (head, rest) = front.split_first_chunk()?;
        front = rest.get(..u32::from_be_bytes(*head) as usize)?;
    }
    let mut reader = Reader { compact: style.form == Form::Compact, rest: front };
    let reply = reader.message();
    if style.framed {
        assert!(reader.rest.is_empty(), "the frame is longer than its reply");
        assert!(reply.is_some(), "the frame is shorter than its reply");
    }
    reply.as_ref()?;
    let used = front.len() - reader.rest.len() + if style.framed { 4 } else { 0 };
    bytes.drain(..used);
    reply
}

struct Reader<'a> {
    compact: bool,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn message(&mut self) -> Option<Reply> {
        let [first, second] = self.take(2)? else { unreachable!() };
        let (kind, name, sequence) = if self.compact {
            assert_eq!((*first, second & 0x1f), (0x82, 1));
            let sequence = self.varint()? as i32;
            (second >> 5, self.string()?.to_vec(), sequence)
        } else {
            assert_eq!((*first, *second), (0x80, 0x01));
            let kind = self.take(2)?[1];
            let name = self.string()?.to_vec();
            (kind, name, self.number(4)? as i32)
        };
        Some(Reply { kind, name, sequence, fields: self.fields()? })
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        panic!("the number does not end");
    }

    fn number(&mut self, bytes: usize) -> Option<i64> {
        if self.compact {
            let number = self.varint()?;
            return Some((number >> 1) as i64 ^ -((number & 1) as i64));
        }
        let taken = self.take(bytes)?;
        let sign = if taken[0] & 0x80 == 0 { 0 } else { -1 };
        Some(taken.iter().fold(sign, |number: i64, byte| number << 8 | i64::from(*byte)))
    }

    fn length(&mut self) -> Option<usize> {
        let length = if self.compact { self.varint()? as i64 } else { self.number(4)? };
        Some(usize::try_from(length).expect("no length is negative"))
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    fn fields(&mut self) -> Option<Vec<(i16, Value)>> {
        let (mut fields, mut last) = (Vec::new(), 0);
        loop {
            let head = self.take(1)?[0];
            if head == 0 {
                return Some(fields);
            }
            let code = if self.compact { head & 0x0f } else { head };
            last = match (self.compact, i16::from(head >> 4)) {
                (true, step @ 1..) => last + step,
                _ => self.number(2)? as i16,
            };
            let value = match (self.compact, code) {
                (false, 8) | (true, 5) => Value::I32(self.number(4)? as i32),
                (false, 10) | (true, 6) => Value::I64(self.number(8)?),
                (false, 11) | (true, 8) => Value::Bytes(self.string()?.to_vec()),
                (_, 12) => Value::Struct(self.fields()?),
                (false, 15) | (true, 9) => Value::Structs(self.structs()?),
                other => panic!("no reply holds a value of the type {other:?}"),
            };
            fields.push((last, value));
        }
    }

    fn structs(&mut self) -> Option<Vec<Vec<(i16, Value)>>> {
        let head = self.take(1)?[0];
        let code = if self.compact { head & 0x0f } else { head };
        assert_eq!(code, 12, "all lists are of structs");
        let count = match (self.compact, head >> 4) {
            (true, count @ 0..15) => usize::from(count),
            _ => self.length()?,
        };
        (0..count).map(|_| self.fields()).collect()
    }
}
