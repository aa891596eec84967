//! Calls the function that handles a packet. This module itself handles echo and options.

use broker::limits::UNIT_BODY_BYTES;
use broker::{Body, Outbox, Turn};

use crate::clients::{HIGH, LOW, NORMAL, SubmitMode, get_status_unique};
use crate::packet::{Arguments, PacketType};
use crate::reply::{self, AT_ONCE, visible};
use crate::session::Session;

/// Longest option name that is recognised (spec gearman 1.2).
const OPTION_BYTES_MAX: usize = 63;

impl Session {
    /// Executes a packet. `workload`: a large last argument, which is not among the arguments.
    pub(crate) fn execute(
        &mut self,
        kind: PacketType,
        arguments: &Arguments<'_>,
        workload: Option<Body>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        let [first, second, ..] = *arguments;
        match kind {
            PacketType::CanDo => self.can_do(first, turn),
            PacketType::CanDoTimeout => self.can_do_timeout(first, second, turn),
            PacketType::CantDo => turn.caller(self.id).unregister(first),
            PacketType::ResetAbilities => self.is_resetting = turn.caller(self.id).unregister_all(),
            PacketType::SetClientId => self.set_client_id(first),
            PacketType::PreSleep => self.pre_sleep(turn, outbox),
            PacketType::GrabJob | PacketType::GrabJobUniq | PacketType::GrabJobAll => {
                self.grab(kind, turn, outbox);
            }
            PacketType::WorkData => self.work_data(first, second, workload, turn, outbox),
            PacketType::WorkWarning => self.work_warning(first, second, workload, turn, outbox),
            PacketType::WorkStatus => self.work_status(arguments, turn, outbox),
            PacketType::WorkComplete => self.work_complete(first, second, workload, turn, outbox),
            PacketType::WorkFail => self.work_fail(first, turn, outbox),
            PacketType::WorkException => self.work_exception(first, second, workload, turn, outbox),

            PacketType::SubmitJob => {
                self.submit(NORMAL, SubmitMode::Foreground, arguments, workload, turn, outbox);
            }
            PacketType::SubmitJobHigh => {
                self.submit(HIGH, SubmitMode::Foreground, arguments, workload, turn, outbox);
            }
            PacketType::SubmitJobLow => {
                self.submit(LOW, SubmitMode::Foreground, arguments, workload, turn, outbox);
            }
            PacketType::SubmitJobBg => {
                self.submit(NORMAL, SubmitMode::Background, arguments, workload, turn, outbox);
            }
            PacketType::SubmitJobHighBg => {
                self.submit(HIGH, SubmitMode::Background, arguments, workload, turn, outbox);
            }
            PacketType::SubmitJobLowBg => {
                self.submit(LOW, SubmitMode::Background, arguments, workload, turn, outbox);
            }
            PacketType::SubmitJobEpoch => self.submit_epoch(arguments, workload, turn, outbox),
            PacketType::SubmitReduceJob => {
                self.submit_reduce(SubmitMode::Foreground, arguments, workload, turn, outbox);
            }
            PacketType::SubmitReduceJobBg => {
                self.submit_reduce(SubmitMode::Background, arguments, workload, turn, outbox);
            }
            PacketType::GetStatus => self.get_status(first, turn, outbox),
            PacketType::GetStatusUnique => get_status_unique(first, turn, outbox),

            PacketType::EchoReq => echo(first, workload, turn, outbox),
            PacketType::OptionReq => self.option(first, outbox),

            // No server has ever implemented SUBMIT_JOB_SCHED and ALL_YOURS. Only servers send the
            // other packets of this list.
            PacketType::SubmitJobSched
            | PacketType::AllYours
            | PacketType::Unused
            | PacketType::Noop
            | PacketType::JobCreated
            | PacketType::NoJob
            | PacketType::JobAssign
            | PacketType::JobAssignUniq
            | PacketType::JobAssignAll
            | PacketType::EchoRes
            | PacketType::Error
            | PacketType::StatusRes
            | PacketType::StatusResUnique
            | PacketType::OptionRes => reply::fail(outbox, AT_ONCE, reply::INVALID_COMMAND),
        }
    }

    fn option(&mut self, name: &[u8], outbox: &mut Outbox) {
        if name.len() <= OPTION_BYTES_MAX && visible(name).eq_ignore_ascii_case(b"exceptions") {
            self.wants_exceptions = true;
            reply::send(outbox, AT_ONCE, PacketType::OptionRes, &[name]);
        } else {
            reply::fail(outbox, AT_ONCE, reply::UNKNOWN_OPTION);
        }
    }
}

/// Sends the data back. Data that is `large` is not in `data`, and the reply shares it.
fn echo(data: &[u8], large: Option<Body>, turn: &mut Turn<'_>, outbox: &mut Outbox) {
    if let Some(large) = large {
        return reply::send_data(outbox, AT_ONCE, PacketType::EchoRes, &[], &large.into());
    }
    turn.count_work(data.len() / UNIT_BODY_BYTES);
    reply::send(outbox, AT_ONCE, PacketType::EchoRes, &[data]);
}
