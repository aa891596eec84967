//! Writes replies in both protocols.

use broker::{JobBody, Outbox, Position};

use super::types::{Protocol, Written};

/// The reason why a call failed: a code of thrift's application exception.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Failure {
    UnknownMethod = 1,
    InvalidMessageType = 2,
    InternalError = 6,
    ProtocolError = 7,
}

/// How to send the reply to a call.
#[derive(Copy, Clone, Debug)]
pub(crate) struct ReplyTo {
    pub(crate) framed: bool,
    pub(crate) protocol: Protocol,
    pub(crate) sequence: i32,
    /// True if the client wants no reply.
    pub(crate) oneway: bool,
}

/// A reply that is being written.
#[derive(Debug)]
pub(crate) struct Reply {
    to: ReplyTo,
    bytes: Vec<u8>,
    /// The bodies in the reply, and their offsets in `bytes`.
    bodies: Vec<(usize, JobBody)>,
    /// The number of the last field. The compact protocol writes only the difference between two
    /// field numbers.
    last_field: i16,
}

impl Reply {
    /// Begins the reply to a call. The caller then writes the result.
    pub(crate) fn result(to: ReplyTo, name: &[u8]) -> Self {
        Self::begin(to, name, 2)
    }

    /// Makes the reply to a call that failed.
    pub(crate) fn failure(to: ReplyTo, name: &[u8], failure: Failure, message: &str) -> Self {
        let mut reply = Self::begin(to, name, 3);
        reply.field(1, Written::Bytes);
        reply.bytes(message.as_bytes());
        reply.field(2, Written::I32);
        reply.i32(failure as i32);
        reply
    }

    fn begin(to: ReplyTo, name: &[u8], kind: u8) -> Self {
        let mut reply = Self { to, bytes: Vec::new(), bodies: Vec::new(), last_field: 0 };
        match to.protocol {
            Protocol::Binary => {
                reply.bytes.extend_from_slice(&[0x80, 0x01, 0, kind]);
                reply.bytes(name);
                reply.i32(to.sequence);
            }
            Protocol::Compact => {
                reply.bytes.extend_from_slice(&[0x82, 1 | kind << 5]);
                reply.varint(u64::from(to.sequence as u32));
                reply.bytes(name);
            }
        }
        reply
    }

    /// Begins a field. The caller then writes its value.
    pub(crate) fn field(&mut self, number: i16, kind: Written) {
        let code = self.to.protocol.code_of(kind);
        match self.to.protocol {
            Protocol::Binary => {
                self.bytes.push(code);
                self.bytes.extend_from_slice(&number.to_be_bytes());
            }
            Protocol::Compact => {
                let step = number - self.last_field;
                if (1..=15).contains(&step) {
                    self.bytes.push((step as u8) << 4 | code);
                } else {
                    self.bytes.push(code);
                    self.zigzag(i64::from(number));
                }
            }
        }
        self.last_field = number;
    }

    /// Begins a list of structs. The caller then writes the structs.
    pub(crate) fn list_of_structs(&mut self, count: usize) {
        let code = self.to.protocol.code_of(Written::Struct);
        match (self.to.protocol, count) {
            (Protocol::Binary, _) => {
                self.bytes.push(code);
                self.bytes.extend_from_slice(&(count as u32).to_be_bytes());
            }
            (Protocol::Compact, 0..15) => self.bytes.push((count as u8) << 4 | code),
            (Protocol::Compact, _) => {
                self.bytes.push(0xf0 | code);
                self.varint(count as u64);
            }
        }
    }

    /// Writes a value that is a struct.
    pub(crate) fn structure(&mut self, write_fields: impl FnOnce(&mut Self)) {
        let outer = std::mem::take(&mut self.last_field);
        write_fields(self);
        self.end_of_fields();
        self.last_field = outer;
    }

    fn end_of_fields(&mut self) {
        self.bytes.push(0);
    }

    pub(crate) fn i32(&mut self, number: i32) {
        match self.to.protocol {
            Protocol::Binary => self.bytes.extend_from_slice(&number.to_be_bytes()),
            Protocol::Compact => self.zigzag(i64::from(number)),
        }
    }

    pub(crate) fn i64(&mut self, number: i64) {
        match self.to.protocol {
            Protocol::Binary => self.bytes.extend_from_slice(&number.to_be_bytes()),
            Protocol::Compact => self.zigzag(number),
        }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds a body without copying it.
    pub(crate) fn body(&mut self, body: JobBody) {
        self.count(body.len());
        self.bodies.push((self.bytes.len(), body));
    }

    fn count(&mut self, count: usize) {
        match self.to.protocol {
            Protocol::Binary => self.bytes.extend_from_slice(&(count as u32).to_be_bytes()),
            Protocol::Compact => self.varint(count as u64),
        }
    }

    fn zigzag(&mut self, number: i64) {
        self.varint(((number << 1) ^ (number >> 63)) as u64);
    }

    fn varint(&mut self, mut number: u64) {
        while number > 0x7f {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// Moves the reply into the outbox. The outbox sends it when the log has released the position
    /// `after`. A oneway call gets no reply.
    pub(crate) fn send(mut self, after: Position, outbox: &mut Outbox) {
        if self.to.oneway {
            return;
        }
        self.end_of_fields();
        if self.to.framed {
            let bodies_bytes: usize = self.bodies.iter().map(|(_, body)| body.len()).sum();
            let frame_bytes = (self.bytes.len() + bodies_bytes) as u32;
            outbox.reply(after, &frame_bytes.to_be_bytes());
        }
        let mut sent = 0;
        for (before, body) in &self.bodies {
            outbox.reply_with_body(after, &self.bytes[sent..*before], body, b"");
            sent = *before;
        }
        outbox.reply(after, &self.bytes[sent..]);
    }
}
