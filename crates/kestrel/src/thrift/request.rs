//! Parses calls: the methods of the service, and their arguments.

use super::reader::{Broken, Reader, Values};
use super::types::Type;

/// A method of the service.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Method {
    Put,
    Get,
    Confirm,
    Abort,
    Peek,
    FlushQueue,
    FlushAllQueues,
    DeleteQueue,
    CurrentStatus,
    SetStatus,
    GetVersion,
}

/// The arguments of a call. All methods share this type, because arguments with the same number and
/// type have the same meaning. An argument of another type is ignored like an unknown argument. A
/// missing argument has the default from the service's description.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Arguments<'a> {
    /// 1: the queue.
    pub(crate) queue: &'a [u8],
    /// 1: the status to set.
    pub(crate) status: i32,
    /// 2: items to put.
    pub(crate) list: Option<Values<'a>>,
    /// 2: ids of open reads.
    pub(crate) set: Option<Values<'a>>,
    /// 2: the largest number of items to get.
    pub(crate) items_max: i32,
    /// 3: expiry of the items, or time to wait for items, in milliseconds.
    pub(crate) time_ms: i32,
    /// 4: time after which open items are given back, in milliseconds.
    pub(crate) auto_abort_ms: i32,
}

impl Method {
    /// All methods.
    pub(crate) const ALL: [Self; 11] = [
        Self::Put,
        Self::Get,
        Self::Confirm,
        Self::Abort,
        Self::Peek,
        Self::FlushQueue,
        Self::FlushAllQueues,
        Self::DeleteQueue,
        Self::CurrentStatus,
        Self::SetStatus,
        Self::GetVersion,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Confirm => "confirm",
            Self::Abort => "abort",
            Self::Peek => "peek",
            Self::FlushQueue => "flush_queue",
            Self::FlushAllQueues => "flush_all_queues",
            Self::DeleteQueue => "delete_queue",
            Self::CurrentStatus => "current_status",
            Self::SetStatus => "set_status",
            Self::GetVersion => "get_version",
        }
    }

    pub(crate) fn of_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name().as_bytes() == name)
    }
}

impl<'a> Arguments<'a> {
    /// Reads the arguments of a complete call.
    pub(crate) fn read(mut reader: Reader<'a>) -> Result<Self, Broken> {
        let mut arguments = Self::default();
        let mut last = 0;
        while let Some((number, kind)) = reader.field(&mut last)? {
            match (number, kind) {
                (1, Type::Bytes) => arguments.queue = reader.bytes()?,
                (1, Type::I32) => arguments.status = reader.i32()?,
                (2, Type::List) => arguments.list = Some(reader.values()?),
                (2, Type::Set) => arguments.set = Some(reader.values()?),
                (2, Type::I32) => arguments.items_max = reader.i32()?,
                (3, Type::I32) => arguments.time_ms = reader.i32()?,
                (4, Type::I32) => arguments.auto_abort_ms = reader.i32()?,
                (_, kind) => reader.skip(kind)?,
            }
        }
        Ok(arguments)
    }
}
