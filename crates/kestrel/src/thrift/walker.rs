//! Finds the end of a value or a message, however deeply nested, without recursion; goes on where
//! it stopped when more bytes have come.

use super::reader::{Broken, Head, Reader};
use super::types::{Protocol, Type};

/// Values inside values: more than any service nests, and little memory.
const DEPTH_MAX: usize = 64;

/// How far the walk is. Bytes that were passed are not looked at again, so that a message which
/// comes byte by byte costs no more than one that comes at once.
#[derive(Debug)]
pub(crate) struct Walker {
    protocol: Protocol,
    /// So many bytes were passed.
    at: usize,
    /// What is open, the innermost last.
    open: Vec<Open>,
}

/// Something that is not passed yet.
#[derive(Copy, Clone, Debug)]
enum Open {
    /// A whole message.
    Message,
    /// A whole value.
    Value(Type),
    /// Fields, until there are no more.
    Fields,
    /// So many values.
    Values(Type, usize),
    /// So many pairs.
    Pairs(Type, Type, usize),
    /// So many bytes.
    Bytes(usize),
}

impl Walker {
    /// To the end of a message that begins with the first byte.
    pub(crate) fn of_message() -> Self {
        // The protocol is known when the head is.
        Self { protocol: Protocol::Binary, at: 0, open: vec![Open::Message] }
    }

    /// To the end of a value.
    pub(crate) fn of_value(protocol: Protocol, kind: Type) -> Self {
        Self { protocol, at: 0, open: vec![Open::Value(kind)] }
    }

    /// Where the end is. `bytes` are all from the beginning: those that it was given before, and
    /// any that have come since then.
    pub(crate) fn walk(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        while let Some(open) = self.open.pop() {
            let rest = &bytes[self.at..];
            match self.step(open, rest) {
                Ok(passed) => self.at += passed,
                Err(broken) => {
                    self.open.push(open);
                    return Err(broken);
                }
            }
            if self.open.len() > DEPTH_MAX {
                return Err(Broken::Malformed);
            }
        }
        Ok(self.at)
    }

    /// Passes one part of what was innermost; leaves what there is still to pass. How many bytes
    /// that took.
    fn step(&mut self, open: Open, rest: &[u8]) -> Result<usize, Broken> {
        let mut reader = Reader::new(self.protocol, rest);
        match open {
            Open::Message => {
                let (head, after_head) = Head::read(rest)?;
                self.protocol = head.protocol;
                reader = after_head;
                self.open.push(Open::Fields);
            }
            Open::Fields => {
                if let Some((_, kind)) = reader.field(&mut 0)? {
                    self.open.extend([Open::Fields, Open::Value(kind)]);
                }
            }
            Open::Values(_, 0) | Open::Pairs(_, _, 0) | Open::Bytes(0) => {}
            Open::Values(kind, count) => {
                self.open.extend([Open::Values(kind, count - 1), Open::Value(kind)]);
            }
            Open::Pairs(key, value, count) => {
                let others = Open::Pairs(key, value, count - 1);
                self.open.extend([others, Open::Value(value), Open::Value(key)]);
            }
            Open::Bytes(count) => {
                let passed = count.min(rest.len());
                if passed == 0 {
                    return Err(Broken::Incomplete);
                }
                self.open.push(Open::Bytes(count - passed));
                return Ok(passed);
            }
            Open::Value(kind) => self.begin_value(kind, &mut reader)?,
        }
        Ok(rest.len() - reader.rest().len())
    }

    fn begin_value(&mut self, kind: Type, reader: &mut Reader<'_>) -> Result<(), Broken> {
        if let Some(bytes) = self.protocol.fixed_bytes(kind) {
            self.open.push(Open::Bytes(bytes));
            return Ok(());
        }
        match kind {
            Type::Bytes => self.open.push(Open::Bytes(reader.count()?)),
            Type::Struct => self.open.push(Open::Fields),
            Type::List | Type::Set => {
                let (kind, count) = reader.list_head()?;
                // A number of values that is a lie must not be counted down one by one.
                self.open.push(match self.protocol.fixed_bytes(kind) {
                    Some(bytes) => Open::Bytes(bytes * count),
                    None => Open::Values(kind, count),
                });
            }
            Type::Map => {
                let (key, value, count) = reader.map_head()?;
                self.open.push(Open::Pairs(key, value, count));
            }
            // Numbers of the compact protocol; the other types have a fixed size.
            Type::I16
            | Type::I32
            | Type::I64
            | Type::Bool
            | Type::BoolInHead
            | Type::Byte
            | Type::Double
            | Type::Uuid => {
                reader.i64()?;
            }
        }
        Ok(())
    }
}
