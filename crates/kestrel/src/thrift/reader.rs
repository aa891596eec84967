//! Reads thrift's values from bytes in both protocols. A length in a message can be false, so the
//! reader never reserves memory for bytes that have not arrived.

use super::types::{Protocol, Type};

/// Longest name of a method. All real services have shorter names.
const NAME_BYTES_MAX: usize = 1024;

/// The version at the beginning of a new-style call of the binary protocol. The next two constants
/// are the first bytes of a new-style call, and of a call of the compact protocol. An old-style
/// call of the binary protocol has no version, and begins with the length of a name.
const STRICT_VERSION: u32 = 0x8001_0000;
pub(crate) const STRICT_FIRST_BYTE: u8 = 0x80;
pub(crate) const COMPACT_FIRST_BYTE: u8 = 0x82;
const COMPACT_VERSION: u8 = 1;

/// The reason why a value cannot be read.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Broken {
    /// More bytes are needed.
    Incomplete,
    /// The bytes are invalid, and more bytes would not change that.
    Malformed,
}

/// The kind of a message.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum MessageKind {
    /// A call with a reply.
    Call,
    /// A call without a reply.
    Oneway,
    /// A reply. Only clients receive replies.
    Other,
}

/// The head of a message.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Head<'a> {
    pub(crate) protocol: Protocol,
    pub(crate) kind: MessageKind,
    /// The name of the method.
    pub(crate) name: &'a [u8],
    /// The number that the client gave to the call. The reply repeats it.
    pub(crate) sequence: i32,
}

/// The values of a complete list or set.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Values<'a> {
    /// A reader at the first value.
    reader: Reader<'a>,
    kind: Type,
    count: usize,
}

/// A reader of bytes. It is at the first unread byte.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Reader<'a> {
    protocol: Protocol,
    rest: &'a [u8],
}

impl<'a> Head<'a> {
    /// Reads the head of a message. The returned reader is at the arguments.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<(Self, Reader<'a>), Broken> {
        let first = *bytes.first().ok_or(Broken::Incomplete)?;
        let protocol =
            if first == COMPACT_FIRST_BYTE { Protocol::Compact } else { Protocol::Binary };
        let mut reader = Reader::new(protocol, bytes);
        let (kind, name, sequence) = match first {
            COMPACT_FIRST_BYTE => {
                let [_, version_and_kind] = reader.array()?;
                if version_and_kind & 0x1f != COMPACT_VERSION {
                    return Err(Broken::Malformed);
                }
                let sequence = reader.varint()? as i32;
                (version_and_kind >> 5, reader.name()?, sequence)
            }
            STRICT_FIRST_BYTE => {
                let version_and_kind = u32::from_be_bytes(reader.array()?);
                if version_and_kind & 0xffff_0000 != STRICT_VERSION {
                    return Err(Broken::Malformed);
                }
                (version_and_kind as u8, reader.name()?, reader.i32()?)
            }
            _ => {
                let name = reader.name()?;
                let [kind] = reader.array()?;
                (kind, name, reader.i32()?)
            }
        };
        let kind = match kind {
            1 => MessageKind::Call,
            4 => MessageKind::Oneway,
            _ => MessageKind::Other,
        };
        Ok((Self { protocol, kind, name, sequence }, reader))
    }
}

impl<'a> Values<'a> {
    /// Returns a reader at the first value, and the number of values. Fails if the values have
    /// another type. An empty list fits every type.
    pub(crate) fn of(self, kind: Type) -> Result<(Reader<'a>, usize), Broken> {
        let fits = self.count == 0 || self.kind == kind;
        if fits { Ok((self.reader, self.count)) } else { Err(Broken::Malformed) }
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(protocol: Protocol, bytes: &'a [u8]) -> Self {
        Self { protocol, rest: bytes }
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The unread bytes.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Broken> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Broken::Incomplete)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Broken::Incomplete)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn varint(&mut self) -> Result<u64, Broken> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Broken::Malformed)
    }

    /// Reads a number whose lowest bit is the sign.
    fn zigzag(&mut self) -> Result<i64, Broken> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn i16(&mut self) -> Result<i16, Broken> {
        match self.protocol {
            Protocol::Binary => Ok(i16::from_be_bytes(self.array()?)),
            Protocol::Compact => Ok(self.zigzag()? as i16),
        }
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Broken> {
        match self.protocol {
            Protocol::Binary => Ok(i32::from_be_bytes(self.array()?)),
            Protocol::Compact => Ok(self.zigzag()? as i32),
        }
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Broken> {
        match self.protocol {
            Protocol::Binary => Ok(i64::from_be_bytes(self.array()?)),
            Protocol::Compact => self.zigzag(),
        }
    }

    /// Reads the number of the following bytes or values. The message can contain fewer bytes or
    /// values than this number.
    pub(crate) fn count(&mut self) -> Result<usize, Broken> {
        let count = match self.protocol {
            Protocol::Binary => i64::from(self.i32()?),
            Protocol::Compact => i64::try_from(self.varint()?).map_err(|_| Broken::Malformed)?,
        };
        let fits = (0..=i64::from(i32::MAX)).contains(&count);
        if fits { Ok(count as usize) } else { Err(Broken::Malformed) }
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Broken> {
        let count = self.count()?;
        self.take(count)
    }

    fn name(&mut self) -> Result<&'a [u8], Broken> {
        let count = self.count()?;
        if count > NAME_BYTES_MAX { Err(Broken::Malformed) } else { self.take(count) }
    }

    fn type_of(&self, code: u8) -> Result<Type, Broken> {
        self.protocol.type_of(code).ok_or(Broken::Malformed)
    }

    /// Reads the head of the next field of a struct: its number and type. `last` is the number of
    /// the previous field. Returns `None` at the end of the struct.
    pub(crate) fn field(&mut self, last: &mut i16) -> Result<Option<(i16, Type)>, Broken> {
        let [head] = self.array()?;
        if head == 0 {
            return Ok(None);
        }
        let kind = match self.protocol {
            Protocol::Binary => {
                *last = self.i16()?;
                self.type_of(head)?
            }
            Protocol::Compact => {
                let step = i16::from(head >> 4);
                *last = if step == 0 { self.i16()? } else { last.wrapping_add(step) };
                match self.type_of(head & 0x0f)? {
                    Type::Bool => Type::BoolInHead,
                    other => other,
                }
            }
        };
        Ok(Some((*last, kind)))
    }

    /// Reads the type and the number of the values of a list or set.
    pub(crate) fn list_head(&mut self) -> Result<(Type, usize), Broken> {
        let [head] = self.array()?;
        let (code, count) = match (self.protocol, head >> 4) {
            (Protocol::Binary, _) => (head, self.count()?),
            (Protocol::Compact, 15) => (head & 0x0f, self.count()?),
            (Protocol::Compact, count) => (head & 0x0f, usize::from(count)),
        };
        // Some clients write no type for an empty list.
        let kind = if count == 0 { Type::Byte } else { self.type_of(code)? };
        Ok((kind, count))
    }

    /// Reads the head of a complete list or set. The caller reads the values later.
    pub(crate) fn values(mut self) -> Result<Values<'a>, Broken> {
        let (kind, count) = self.list_head()?;
        Ok(Values { reader: self, kind, count })
    }

    /// Reads the types of the keys and values of a map, and their number.
    pub(crate) fn map_head(&mut self) -> Result<(Type, Type, usize), Broken> {
        let (key, value, count) = match self.protocol {
            Protocol::Binary => {
                let [key, value] = self.array()?;
                (key, value, self.count()?)
            }
            Protocol::Compact => match self.count()? {
                0 => (0, 0, 0),
                count => {
                    let [codes] = self.array()?;
                    (codes >> 4, codes & 0x0f, count)
                }
            },
        };
        if count == 0 {
            return Ok((Type::Byte, Type::Byte, 0));
        }
        Ok((self.type_of(key)?, self.type_of(value)?, count))
    }
}
