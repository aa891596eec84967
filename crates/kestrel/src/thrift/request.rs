//! Parses calls: the methods of the service, and their arguments.

use super::reader::{Broken, Reader, Values};
use super::types::{Protocol, Type};

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

/// Where the values of the arguments begin in a message. The walk to the message's end finds them,
/// so nobody has to pass all values again to read the arguments.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Places {
    queue: Option<usize>,
    status: Option<usize>,
    list: Option<usize>,
    set: Option<usize>,
    items_max: Option<usize>,
    time_ms: Option<usize>,
    auto_abort_ms: Option<usize>,
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

impl Places {
    /// Notes an argument with this number and type. If an argument comes twice, the last one counts.
    pub(super) fn note(&mut self, number: i16, kind: Type, place: usize) {
        let argument = match (number, kind) {
            (1, Type::Bytes) => &mut self.queue,
            (1, Type::I32) => &mut self.status,
            (2, Type::List) => &mut self.list,
            (2, Type::Set) => &mut self.set,
            (2, Type::I32) => &mut self.items_max,
            (3, Type::I32) => &mut self.time_ms,
            (4, Type::I32) => &mut self.auto_abort_ms,
            _ => return,
        };
        *argument = Some(place);
    }
}

impl<'a> Arguments<'a> {
    /// Reads the arguments of a complete call. Does not pass the values of a list, because a list
    /// can be long.
    pub(crate) fn read(
        message: &'a [u8],
        protocol: Protocol,
        places: Places,
    ) -> Result<Self, Broken> {
        let at = |place: usize| Reader::new(protocol, &message[place..]);
        let number = |place: Option<usize>| place.map_or(Ok(0), |place| at(place).i32());
        let values = |place: Option<usize>| place.map(|place| at(place).values()).transpose();
        Ok(Self {
            queue: places.queue.map(|place| at(place).bytes()).transpose()?.unwrap_or_default(),
            status: number(places.status)?,
            list: values(places.list)?,
            set: values(places.set)?,
            items_max: number(places.items_max)?,
            time_ms: number(places.time_ms)?,
            auto_abort_ms: number(places.auto_abort_ms)?,
        })
    }
}
