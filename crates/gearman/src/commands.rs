//! Dispatches each packet to its function. Also handles the packets that belong neither to workers
//! nor to clients.

use broker::{Outbox, Turn};

use crate::clients::{HIGH, LOW, Manner, NORMAL, get_status_unique};
use crate::packet::{Arguments, Header, Kind};
use crate::reply::{self, AT_ONCE};
use crate::session::Session;

/// Longest option name that is recognised (spec gearman 1.2).
const OPTION_BYTES_MAX: usize = 63;

impl Session {
    /// Executes a packet.
    pub(crate) fn execute(
        &mut self,
        kind: Kind,
        arguments: &Arguments<'_>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        let [first, second, ..] = *arguments;
        match kind {
            Kind::CanDo => self.can_do(first, turn),
            Kind::CanDoTimeout => self.can_do_timeout(first, second, turn),
            Kind::CantDo => turn.unregister(self.id, first),
            Kind::ResetAbilities => self.is_resetting = turn.unregister_all(self.id),
            Kind::SetClientId => self.set_client_id(first),
            Kind::PreSleep => self.pre_sleep(turn, outbox),
            Kind::GrabJob | Kind::GrabJobUniq | Kind::GrabJobAll => self.grab(kind, turn, outbox),
            Kind::WorkData => self.work_data(first, second, turn, outbox),
            Kind::WorkWarning => self.work_warning(first, second, turn, outbox),
            Kind::WorkStatus => self.work_status(arguments, turn, outbox),
            Kind::WorkComplete => self.work_complete(first, second, turn, outbox),
            Kind::WorkFail => self.work_fail(first, turn, outbox),
            Kind::WorkException => self.work_exception(first, second, turn, outbox),

            Kind::SubmitJob => self.submit(NORMAL, Manner::Foreground, arguments, turn, outbox),
            Kind::SubmitJobHigh => self.submit(HIGH, Manner::Foreground, arguments, turn, outbox),
            Kind::SubmitJobLow => self.submit(LOW, Manner::Foreground, arguments, turn, outbox),
            Kind::SubmitJobBg => self.submit(NORMAL, Manner::Background, arguments, turn, outbox),
            Kind::SubmitJobHighBg => self.submit(HIGH, Manner::Background, arguments, turn, outbox),
            Kind::SubmitJobLowBg => self.submit(LOW, Manner::Background, arguments, turn, outbox),
            Kind::SubmitJobEpoch => self.submit_epoch(arguments, turn, outbox),
            Kind::SubmitReduceJob => {
                self.submit_reduce(Manner::Foreground, arguments, turn, outbox);
            }
            Kind::SubmitReduceJobBg => {
                self.submit_reduce(Manner::Background, arguments, turn, outbox);
            }
            Kind::GetStatus => self.get_status(first, turn, outbox),
            Kind::GetStatusUnique => get_status_unique(first, turn, outbox),

            Kind::EchoReq => echo(first, outbox),
            Kind::OptionReq => self.option(first, outbox),

            // SUBMIT_JOB_SCHED and ALL_YOURS were never implemented anywhere. Only servers send the
            // others.
            Kind::SubmitJobSched
            | Kind::AllYours
            | Kind::Unused
            | Kind::Noop
            | Kind::JobCreated
            | Kind::NoJob
            | Kind::JobAssign
            | Kind::JobAssignUniq
            | Kind::JobAssignAll
            | Kind::EchoRes
            | Kind::Error
            | Kind::StatusRes
            | Kind::StatusResUnique
            | Kind::OptionRes => reply::fail(outbox, AT_ONCE, reply::INVALID_COMMAND),
        }
    }

    fn option(&mut self, name: &[u8], outbox: &mut Outbox) {
        if name.len() <= OPTION_BYTES_MAX && visible(name).eq_ignore_ascii_case(b"exceptions") {
            self.wants_exceptions = true;
            reply::send(outbox, AT_ONCE, Kind::OptionRes, &[name]);
        } else {
            reply::fail(outbox, AT_ONCE, reply::UNKNOWN_OPTION);
        }
    }
}

fn echo(data: &[u8], outbox: &mut Outbox) {
    outbox.reply(AT_ONCE, &Header::reply(Kind::EchoRes, data.len()));
    outbox.reply(AT_ONCE, data);
}

/// The part of a text that the original sees: its strings end at a NUL.
pub(crate) fn visible(text: &[u8]) -> &[u8] {
    memchr::memchr(0, text).map_or(text, |end| &text[..end])
}
