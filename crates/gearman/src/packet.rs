//! Binary packets: their kinds, their header, and how a body is split into arguments.

/// Length of the header in bytes: magic, kind, and length of the body.
pub(crate) const HEADER_BYTES: usize = 12;

/// Limit of bytes for header and arguments. The limit does not include data at the end of a packet
/// (spec gearman 1.1).
pub(crate) const ARGUMENT_AREA_BYTES_MAX: usize = 8192;

/// Limit of bytes for the arguments alone.
const ARGUMENTS_BYTES_MAX: usize = ARGUMENT_AREA_BYTES_MAX - HEADER_BYTES;

const MAGIC_REQUEST: [u8; 4] = *b"\0REQ";
const MAGIC_RESPONSE: [u8; 4] = *b"\0RES";

/// Largest number of arguments in a packet (`SubmitJobSched`).
const ARGUMENTS_MAX: usize = 8;

/// The arguments of a packet, in order. Missing arguments are empty.
pub(crate) type Arguments<'a> = [&'a [u8]; ARGUMENTS_MAX];

/// A kind of packet. The value is its number in the protocol.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(crate) enum PacketType {
    CanDo = 1,
    CantDo = 2,
    ResetAbilities = 3,
    PreSleep = 4,
    Unused = 5,
    Noop = 6,
    SubmitJob = 7,
    JobCreated = 8,
    GrabJob = 9,
    NoJob = 10,
    JobAssign = 11,
    WorkStatus = 12,
    WorkComplete = 13,
    WorkFail = 14,
    GetStatus = 15,
    EchoReq = 16,
    EchoRes = 17,
    SubmitJobBg = 18,
    Error = 19,
    StatusRes = 20,
    SubmitJobHigh = 21,
    SetClientId = 22,
    CanDoTimeout = 23,
    AllYours = 24,
    WorkException = 25,
    OptionReq = 26,
    OptionRes = 27,
    WorkData = 28,
    WorkWarning = 29,
    GrabJobUniq = 30,
    JobAssignUniq = 31,
    SubmitJobHighBg = 32,
    SubmitJobLow = 33,
    SubmitJobLowBg = 34,
    SubmitJobSched = 35,
    SubmitJobEpoch = 36,
    SubmitReduceJob = 37,
    SubmitReduceJobBg = 38,
    GrabJobAll = 39,
    JobAssignAll = 40,
    GetStatusUnique = 41,
    StatusResUnique = 42,
}

/// The form of a packet's last argument.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Ending {
    /// An argument. Its length counts towards the limit of arguments.
    Plain,
    /// Data of any length.
    Data,
}

use Ending::{Data, Plain};

/// All kinds in the order of their numbers, which begin with 1. Also the number of arguments, and
/// the form of the last argument (spec gearman 2).
const KINDS: [(PacketType, usize, Ending); 42] = [
    (PacketType::CanDo, 1, Plain),
    (PacketType::CantDo, 1, Plain),
    (PacketType::ResetAbilities, 0, Plain),
    (PacketType::PreSleep, 0, Plain),
    (PacketType::Unused, 0, Plain),
    (PacketType::Noop, 0, Plain),
    (PacketType::SubmitJob, 3, Data),
    (PacketType::JobCreated, 1, Plain),
    (PacketType::GrabJob, 0, Plain),
    (PacketType::NoJob, 0, Plain),
    (PacketType::JobAssign, 3, Data),
    (PacketType::WorkStatus, 3, Plain),
    (PacketType::WorkComplete, 2, Data),
    (PacketType::WorkFail, 1, Plain),
    (PacketType::GetStatus, 1, Plain),
    (PacketType::EchoReq, 1, Data),
    (PacketType::EchoRes, 1, Data),
    (PacketType::SubmitJobBg, 3, Data),
    (PacketType::Error, 2, Plain),
    (PacketType::StatusRes, 5, Plain),
    (PacketType::SubmitJobHigh, 3, Data),
    (PacketType::SetClientId, 1, Plain),
    (PacketType::CanDoTimeout, 2, Plain),
    (PacketType::AllYours, 0, Plain),
    (PacketType::WorkException, 2, Data),
    (PacketType::OptionReq, 1, Plain),
    (PacketType::OptionRes, 1, Plain),
    (PacketType::WorkData, 2, Data),
    (PacketType::WorkWarning, 2, Data),
    (PacketType::GrabJobUniq, 0, Plain),
    (PacketType::JobAssignUniq, 4, Data),
    (PacketType::SubmitJobHighBg, 3, Data),
    (PacketType::SubmitJobLow, 3, Data),
    (PacketType::SubmitJobLowBg, 3, Data),
    (PacketType::SubmitJobSched, 8, Data),
    (PacketType::SubmitJobEpoch, 4, Data),
    (PacketType::SubmitReduceJob, 5, Data),
    (PacketType::SubmitReduceJobBg, 5, Data),
    (PacketType::GrabJobAll, 0, Plain),
    (PacketType::JobAssignAll, 5, Data),
    (PacketType::GetStatusUnique, 1, Plain),
    (PacketType::StatusResUnique, 6, Plain),
];

impl PacketType {
    fn of(number: u32) -> Option<Self> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        KINDS.get(index).map(|(kind, ..)| *kind)
    }

    fn arguments(self) -> (usize, Ending) {
        let (_, count, ending) = KINDS[self as usize - 1];
        (count, ending)
    }

    /// Whether packets of this kind have no arguments.
    pub(crate) fn has_no_arguments(self) -> bool {
        self.arguments().0 == 0
    }
}

/// The header of a packet.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Header {
    pub(crate) kind: PacketType,
    /// Whether the packet is a request. Otherwise it is a response, and only servers send
    /// responses.
    pub(crate) is_request: bool,
    pub(crate) body_bytes: u32,
}

impl Header {
    /// Reads a header. Returns `None` if the header is invalid. Then the session must end, because
    /// the length of the packet is unknown.
    pub(crate) fn parse(bytes: [u8; HEADER_BYTES]) -> Option<Self> {
        let [m0, m1, m2, m3, k0, k1, k2, k3, b0, b1, b2, b3] = bytes;
        let is_request = match [m0, m1, m2, m3] {
            MAGIC_REQUEST => true,
            MAGIC_RESPONSE => false,
            _ => return None,
        };
        let kind = PacketType::of(u32::from_be_bytes([k0, k1, k2, k3]))?;
        Some(Self { kind, is_request, body_bytes: u32::from_be_bytes([b0, b1, b2, b3]) })
    }

    /// The header of a packet that the server sends.
    pub(crate) fn reply(kind: PacketType, body_bytes: usize) -> [u8; HEADER_BYTES] {
        // The conversion never fails, because the listeners of all dialects limit bodies to much
        // less than 4 GiB.
        let body_bytes = u32::try_from(body_bytes).unwrap_or(u32::MAX);
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC_RESPONSE);
        bytes[4..8].copy_from_slice(&(kind as u32).to_be_bytes());
        bytes[8..].copy_from_slice(&body_bytes.to_be_bytes());
        bytes
    }

    /// Whether the packet reports news of a job.
    pub(crate) fn is_news(self) -> bool {
        matches!(
            self.kind,
            PacketType::WorkData
                | PacketType::WorkWarning
                | PacketType::WorkStatus
                | PacketType::WorkComplete
                | PacketType::WorkFail
                | PacketType::WorkException
        )
    }

    /// Whether the packet submits a job.
    pub(crate) fn is_submit(self) -> bool {
        self.is_request
            && matches!(
                self.kind,
                PacketType::SubmitJob
                    | PacketType::SubmitJobBg
                    | PacketType::SubmitJobHigh
                    | PacketType::SubmitJobHighBg
                    | PacketType::SubmitJobLow
                    | PacketType::SubmitJobLowBg
                    | PacketType::SubmitJobSched
                    | PacketType::SubmitJobEpoch
                    | PacketType::SubmitReduceJob
                    | PacketType::SubmitReduceJobBg
            )
    }

    /// Whether the server passes the last argument on: as the workload of a job, as news of a job, or
    /// back to the client.
    pub(crate) fn passes_data_on(self) -> bool {
        let is_passed_on = matches!(
            self.kind,
            PacketType::WorkData
                | PacketType::WorkWarning
                | PacketType::WorkComplete
                | PacketType::WorkException
                | PacketType::EchoReq
        );
        self.is_submit() || self.is_request && is_passed_on
    }

    /// Length of the whole packet in bytes.
    pub(crate) fn packet_bytes(self) -> usize {
        HEADER_BYTES + self.body_bytes as usize
    }

    /// Whether the server accepts a packet of this length.
    pub(crate) fn is_acceptable(self, packet_bytes_max: u32) -> bool {
        let (count, ending) = self.kind.arguments();
        let only_arguments = count > 0 && ending == Plain;
        let limit =
            if only_arguments { ARGUMENT_AREA_BYTES_MAX } else { packet_bytes_max as usize };
        self.packet_bytes() <= limit
    }
}

/// Splits a complete body into arguments. Returns `None` if arguments are missing or too long.
pub(crate) fn split(kind: PacketType, body: &[u8]) -> Option<Arguments<'_>> {
    let (count, ending) = kind.arguments();
    let mut arguments = Arguments::default();
    let mut rest = body;
    let Some(last) = count.checked_sub(1) else { return Some(arguments) };
    for argument in &mut arguments[..last] {
        let end = memchr::memchr(0, rest)?;
        *argument = &rest[..end];
        rest = &rest[end + 1..];
    }
    arguments[last] = rest;
    let arguments_bytes = match ending {
        Plain => body.len(),
        Data => body.len() - rest.len(),
    };
    (arguments_bytes <= ARGUMENTS_BYTES_MAX).then_some(arguments)
}

/// The search for the beginning of the last argument in a body that arrives in pieces. It looks at
/// each byte once, however small the pieces are.
#[derive(Debug)]
pub(crate) struct LastArgument {
    /// The number of arguments before it whose end has not been found yet.
    missing: usize,
    /// The number of bytes that the search has looked at.
    looked_at: usize,
}

/// How far the search for the last argument is.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum LastArgumentStart {
    /// The argument begins here.
    At(usize),
    /// More bytes must arrive.
    Later,
    /// `split` will fail: the arguments before the last one do not end within the limit.
    Never,
}

impl LastArgument {
    pub(crate) fn of(kind: PacketType) -> Self {
        let (count, _) = kind.arguments();
        Self { missing: count.saturating_sub(1), looked_at: 0 }
    }

    /// Continues the search. `beginning` has all bytes of the body that have arrived.
    pub(crate) fn search(&mut self, beginning: &[u8]) -> LastArgumentStart {
        let area = &beginning[..beginning.len().min(ARGUMENTS_BYTES_MAX)];
        while self.missing > 0 {
            let Some(end) = memchr::memchr(0, &area[self.looked_at..]) else {
                self.looked_at = area.len();
                let is_full = area.len() == ARGUMENTS_BYTES_MAX;
                return if is_full { LastArgumentStart::Never } else { LastArgumentStart::Later };
            };
            self.looked_at += end + 1;
            self.missing -= 1;
        }
        LastArgumentStart::At(self.looked_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(magic: [u8; 4], kind: u32, body_bytes: u32) -> Option<Header> {
        let bytes = [&magic[..], &kind.to_be_bytes(), &body_bytes.to_be_bytes()].concat();
        Header::parse(bytes.try_into().unwrap())
    }

    #[test]
    fn every_kind_is_found_by_its_number() {
        for (index, (kind, count, _)) in KINDS.iter().enumerate() {
            let number = index as u32 + 1;
            assert_eq!(*kind as u32, number);
            assert_eq!(header(*b"\0REQ", number, 7).map(|header| header.kind), Some(*kind));
            assert!(*count <= ARGUMENTS_MAX);
        }
        for number in [0, 43, 1000, 1 << 31, u32::MAX] {
            assert_eq!(header(*b"\0REQ", number, 0), None);
        }
        assert_eq!(header(*b"\0REX", 1, 0), None);
        assert!(!header(*b"\0RES", 1, 0).unwrap().is_request);
    }

    #[test]
    fn a_reply_s_header_can_be_read_back() {
        let header = Header::parse(Header::reply(PacketType::JobCreated, 0x0102)).unwrap();
        let wanted = Header { kind: PacketType::JobCreated, is_request: false, body_bytes: 0x0102 };
        assert_eq!(header, wanted);
    }

    #[test]
    fn only_the_last_argument_may_hold_what_separates_them() {
        let arguments = split(PacketType::SubmitJob, b"f\0\0a\0b").unwrap();
        assert_eq!(arguments[..4], [&b"f"[..], b"", b"a\0b", b""]);
        assert_eq!(split(PacketType::SubmitJob, b"f\0u"), None);
        assert_eq!(split(PacketType::GrabJob, b"junk"), Some(Arguments::default()));
        assert_eq!(split(PacketType::EchoReq, b"\0\0").unwrap()[0], b"\0\0");
    }

    #[test]
    fn the_last_argument_is_found_while_its_packet_arrives() {
        let search = |kind, body: &[u8], piece| {
            let mut search = LastArgument::of(kind);
            for end in (0..body.len()).step_by(piece).chain([body.len()]) {
                let found = search.search(&body[..end]);
                if found != LastArgumentStart::Later {
                    return (found, search.looked_at);
                }
                // The next piece is looked at from here on.
                assert_eq!(search.looked_at, end);
            }
            (LastArgumentStart::Later, search.looked_at)
        };
        let submit = |len| [&vec![b'x'; len][..], b"\0\0", &vec![0; 100_000]].concat();
        for piece in [1, 7, 8180, 200_000] {
            let found = |kind, body: &[u8]| search(kind, body, piece);
            let (start, _) = found(PacketType::SubmitJob, &submit(8178));
            assert_eq!(start, LastArgumentStart::At(8180), "{piece}");
            let (start, looked_at) = found(PacketType::SubmitJob, &submit(8179));
            assert_eq!((start, looked_at), (LastArgumentStart::Never, 8180), "{piece}");
            let (start, _) = found(PacketType::SubmitJob, b"f\0unique");
            assert_eq!(start, LastArgumentStart::Later);
            let (start, looked_at) = found(PacketType::EchoReq, &submit(10_000));
            assert_eq!((start, looked_at), (LastArgumentStart::At(0), 0));
        }
    }

    #[test]
    fn arguments_fit_their_area_and_data_need_not() {
        let name = |len: usize| vec![b'x'; len];
        assert!(split(PacketType::CanDo, &name(8180)).is_some());
        assert!(split(PacketType::CanDo, &name(8181)).is_none());
        let submit = |len| [&name(len)[..], b"\0\0", &name(100_000)].concat();
        assert!(split(PacketType::SubmitJob, &submit(8178)).is_some());
        assert!(split(PacketType::SubmitJob, &submit(8179)).is_none());
        let acceptable = |kind, bytes| header(*b"\0REQ", kind as u32, bytes).unwrap();
        assert!(acceptable(PacketType::CanDo, 8180).is_acceptable(100_000));
        assert!(!acceptable(PacketType::CanDo, 8181).is_acceptable(100_000));
        assert!(acceptable(PacketType::GrabJob, 8181).is_acceptable(100_000));
        assert!(!acceptable(PacketType::EchoReq, u32::MAX).is_acceptable(100_000));
    }
}
