//! Finds the end of a message and the places of its arguments, without recursion. Limits the depth
//! of nested values. When more bytes arrive, the search continues where it stopped.

use std::mem;

use super::reader::{Broken, Head, Reader};
use super::request::Places;
use super::types::{Protocol, Type};

/// Limit of the depth. No service needs more, and the limit costs little memory.
const DEPTH_MAX: usize = 64;

/// The state of a walk to the end. The walk passes each byte only once. So a message that arrives
/// byte by byte costs no more work than a message that arrives at once. Each byte costs at most a
/// few steps.
#[derive(Debug)]
pub(crate) struct Walker {
    protocol: Protocol,
    /// Number of bytes that the walk has passed.
    at: usize,
    /// The parts that the walk has not passed completely. The innermost part is last.
    open: Vec<Open>,
    /// The number of the last argument.
    last: i16,
    places: Places,
    steps: usize,
}

/// A part that the walk has not passed completely.
#[derive(Copy, Clone, Debug)]
enum Open {
    /// A whole message.
    Message,
    /// A whole value.
    Value(Type),
    /// The fields of a struct, up to the end mark.
    Fields,
    /// This number of values of one type.
    Values(Type, usize),
    /// This number of pairs of a key and a value.
    Pairs(Type, Type, usize),
    /// This number of bytes.
    Bytes(usize),
}

impl Walker {
    /// Starts a walk to the end of a message. The message begins at the first byte.
    pub(crate) fn of_message() -> Self {
        // The protocol is not known yet. The walk sets it at the head of the message.
        Self {
            protocol: Protocol::Binary,
            at: 0,
            open: vec![Open::Message],
            last: 0,
            places: Places::default(),
            steps: 0,
        }
    }

    /// The places of the arguments that the walk has met.
    pub(crate) fn places(&self) -> Places {
        self.places
    }

    /// Takes the number of steps since the last call.
    pub(crate) fn take_steps(&mut self) -> usize {
        mem::take(&mut self.steps)
    }

    /// Returns the offset of the end. `bytes` are all bytes since the beginning of the walk,
    /// including the bytes of earlier calls. After the end, and after malformed bytes, further calls
    /// return the same result.
    pub(crate) fn walk(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        while let Some(open) = self.open.pop() {
            self.steps += 1;
            if self.open.len() >= DEPTH_MAX {
                self.open.push(open);
                return Err(Broken::Malformed);
            }
            let rest = &bytes[self.at..];
            match self.step(open, rest) {
                Ok(passed) => self.at += passed,
                Err(broken) => {
                    self.open.push(open);
                    return Err(broken);
                }
            }
        }
        Ok(self.at)
    }

    /// Passes a piece of the innermost part, and pushes the remaining pieces onto `open`. Returns
    /// the number of bytes that it passed.
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
                let is_outermost = self.open.is_empty();
                // Only the numbers of arguments matter.
                let mut last = if is_outermost { self.last } else { 0 };
                if let Some((number, kind)) = reader.field(&mut last)? {
                    if is_outermost {
                        self.last = last;
                        self.places.note(number, kind, self.at + rest.len() - reader.rest().len());
                    }
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
                if passed < count {
                    self.open.push(Open::Bytes(count - passed));
                }
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
                // A message can claim a huge number of values. The walk passes values of a fixed
                // size in one step, so a false number costs no time.
                self.open.push(match self.protocol.fixed_bytes(kind) {
                    Some(bytes) => Open::Bytes(bytes * count),
                    None => Open::Values(kind, count),
                });
            }
            Type::Map => {
                let (key, value, count) = reader.map_head()?;
                self.open.push(Open::Pairs(key, value, count));
            }
            // These are numbers of the compact protocol. All other values of these types have a
            // fixed size, which the code above handles.
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
