//! Requests and replies of Gearman clients and workers (spec gearman 1 to 5).

mod admin;
mod clients;
mod wire;
mod workers;

use wire::{Message, kind, response};

use super::outcome::News;
use super::session::{Expected, Observed};
use super::{Model, Need, Place};

/// The prefix of all handles.
const HANDLE_PREFIX: &str = "H:sim:";

/// The longest handle that the server accepts.
const HANDLE_BYTES_MAX: usize = 63;

const JOB_NOT_FOUND: [&str; 3] = [
    "Job does not exist on server",
    "Job given in work result not found",
    "An exception was received for a job that does not exist",
];

/// The reply to a request. `None` if the request has no reply.
type Answer = Option<Expected>;

fn handle(id: u64) -> Vec<u8> {
    format!("{HANDLE_PREFIX}{id}").into_bytes()
}

/// The id of the job that a handle names. Each id has exactly one valid handle.
fn named(text: &[u8]) -> Option<u64> {
    let id = std::str::from_utf8(text).ok()?.strip_prefix(HANDLE_PREFIX)?.parse().ok()?;
    (handle(id) == text && id > 0).then_some(id)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn packet(kind: u32, arguments: &[&[u8]], need: Need) -> Expected {
    Expected::bytes(response(kind, arguments), need)
}

fn error(code: &str, text: &str, need: Need) -> Expected {
    packet(kind::ERROR, &[code.as_bytes(), text.as_bytes()], need)
}

/// The reply if the log has no room.
fn queue_error() -> Expected {
    error("QUEUE_ERROR", "QUEUE_ERROR", 0)
}

impl News {
    pub(super) fn is_end(&self) -> bool {
        matches!(self, Self::Complete(_) | Self::Fail | Self::Exception(_))
    }
}

impl Model {
    pub(super) fn noop() -> Expected {
        packet(kind::NOOP, &[], 0)
    }

    /// The packet that sends this news of a job to a client that waits for the job.
    pub(super) fn news_packet(&self, place: Place, id: u64, news: &News, need: Need) -> Expected {
        let wants_exceptions = self.conns[&place].wants_exceptions;
        let (kind, data) = match news {
            News::Data(data) => (kind::WORK_DATA, data),
            News::Warning(data) => (kind::WORK_WARNING, data),
            News::Progress(words) => (kind::WORK_STATUS, words),
            News::Complete(result) => (kind::WORK_COMPLETE, result),
            News::Exception(data) if wants_exceptions => (kind::WORK_EXCEPTION, data),
            News::Fail | News::Exception(_) => {
                return packet(kind::WORK_FAIL, &[&handle(id)], need);
            }
        };
        packet(kind, &[&handle(id), data], need)
    }

    /// Handles one packet or line, if it has arrived completely.
    pub(super) fn read_message(
        &mut self,
        place: Place,
        observed: &mut Observed<'_>,
    ) -> Result<bool, String> {
        let packet_bytes_max = self.setting.packet_bytes_max;
        let conn = self.conn(place);
        match wire::read(conn.buffer.make_contiguous(), packet_bytes_max) {
            Message::Incomplete => Ok(false),
            Message::Hopeless => {
                self.close_conn(place);
                Ok(false)
            }
            Message::Line(line, len) => {
                conn.buffer.drain(..len);
                self.execute_line(place, &line, observed)?;
                Ok(true)
            }
            Message::Packet(packet) => {
                conn.buffer.drain(..packet.len);
                let arguments: Vec<&[u8]> = packet.arguments.iter().map(|one| &one[..]).collect();
                let answer = if packet.is_request {
                    self.answer(place, packet.kind, &arguments, observed)?
                } else {
                    Some(error("INVALID_MAGIC", "Request magic expected", 0))
                };
                answer.map_or(Ok(()), |answer| observed.take(&answer))?;
                Ok(true)
            }
        }
    }

    fn answer(
        &mut self,
        place: Place,
        kind: u32,
        arguments: &[&[u8]],
        observed: &mut Observed<'_>,
    ) -> Result<Answer, String> {
        Ok(match kind {
            kind::ECHO_REQ => Some(packet(kind::ECHO_RES, arguments, 0)),
            kind::OPTION_REQ => Some(self.option(place, arguments[0])),
            kind::SET_CLIENT_ID => None,
            kind::CAN_DO
            | kind::CAN_DO_TIMEOUT
            | kind::CANT_DO
            | kind::RESET_ABILITIES
            | kind::PRE_SLEEP
            | kind::GRAB_JOB
            | kind::GRAB_JOB_UNIQ
            | kind::GRAB_JOB_ALL => self.answer_worker(place, kind, arguments),
            kind::WORK_STATUS
            | kind::WORK_DATA
            | kind::WORK_WARNING
            | kind::WORK_COMPLETE
            | kind::WORK_FAIL
            | kind::WORK_EXCEPTION => self.answer_result(place, kind, arguments, observed)?,
            kind::GET_STATUS => self.get_status(arguments[0]),
            kind::GET_STATUS_UNIQUE => self.get_status_unique(arguments[0]),
            kind::SUBMIT_JOB
            | kind::SUBMIT_JOB_BG
            | kind::SUBMIT_JOB_HIGH
            | kind::SUBMIT_JOB_HIGH_BG
            | kind::SUBMIT_JOB_LOW
            | kind::SUBMIT_JOB_LOW_BG
            | kind::SUBMIT_JOB_EPOCH
            | kind::SUBMIT_REDUCE_JOB
            | kind::SUBMIT_REDUCE_JOB_BG => self.submit(place, kind, arguments, observed)?,
            _ => Some(error("INVALID_COMMAND", "Command not expected", 0)),
        })
    }

    fn option(&mut self, place: Place, name: &[u8]) -> Expected {
        let visible = name.split(|byte| *byte == 0).next().unwrap_or_default();
        if name.len() < 64 && visible.eq_ignore_ascii_case(b"exceptions") {
            self.conn(place).wants_exceptions = true;
            packet(kind::OPTION_RES, &[name], 0)
        } else {
            error("UNKNOWN_OPTION", "Server does not recognize given option", 0)
        }
    }
}
