//! Faults of the cluster: of its nodes, its links and the servers of the stream.

use std::sync::Arc;

use replica::record::{Header, Kind};

use super::{Cluster, Event, NOBODY, NODES};
use crate::machine::storage::CrashKind;
use crate::trace::Trace;
use crate::{Checked, Sabotage};

/// A pause of a process, or a cut of a link. It can be longer than a lease.
const CUT_MS_MAX: u64 = 8000;
/// A server that is cut off answers with an old tail for this long.
const STALE_MS_MAX: u64 = 20_000;
/// An election of the stream takes at most this long.
const LEADERLESS_MS_MAX: u64 = 9000;
/// After this time, everything from the time of faults has happened: late appends have arrived after
/// a cut, and all proposals are decided.
const QUIET_MS: u64 = 2 * CUT_MS_MAX + 6000;
/// A consumer that begins again delivers at most this many records a second time.
const BACK_MAX: u64 = 30;
/// A planned power failure happens at one of the next calls of the disk.
const CALLS_AHEAD_MAX: u64 = 40;

impl Cluster {
    /// Something goes wrong.
    pub(crate) fn trouble(&mut self, trace: &mut Trace) -> Checked {
        let number = self.rng.index(NODES);
        let other = self.rng.index(NODES);
        let kind = self.rng.below(20);
        let cut = self.real + self.rng.below(CUT_MS_MAX);
        trace.note(format_args!("trouble {kind} of nodes {number} and {other} until {cut}"));
        let (view, last) = (self.stream.view(), self.stream.last());
        let until = self.real + self.rng.below(STALE_MS_MAX);
        let member = &mut self.members[number];
        match kind {
            0 => member.cut_to_stream = cut,
            1 => member.cut_from_stream = cut,
            2 => (member.cut_to_stream, member.cut_from_stream) = (cut, cut),
            3 => member.stale = Some((until, view)),
            4 => member.silent = cut,
            5 => self.leaderless = self.real + self.rng.below(LEADERLESS_MS_MAX),
            6 => self.links_cut[number][other] = cut,
            7 => {
                if let Some(process) = &mut member.process {
                    process.paused = cut;
                }
            }
            8 if self.serving != Some(number) && member.process.is_some() => {
                self.end(trace, number, CrashKind::Killed);
            }
            9 if self.serving != Some(number) && member.process.is_some() => {
                self.end(trace, number, CrashKind::PowerLoss);
            }
            11 if self.sabotage == Sabotage::UnflushedStream => {
                let lost = self.rng.below(10).min(last);
                self.stream.lose_after(last - lost)?;
            }
            11 if self.sabotage == Sabotage::LostRecord && last > 0 => {
                let lost = self.rng.between(1, last);
                self.stream.lose(lost);
            }
            10 => {
                let call = member.disk.calls() + self.rng.between(1, CALLS_AHEAD_MAX);
                member.disk.crash_at(call);
            }
            12 => self.isolate(number, cut),
            13 if self.rng.coin() => self.black_out(trace),
            14 if self.plan.skewed => member.set_wall(&mut self.rng),
            15 => member.slow = cut,
            16 => self.unsafe_until = until,
            17 => {
                // The consumer begins again, a little earlier.
                let back = self.rng.below(BACK_MAX);
                if let Some(process) = &mut member.process {
                    process.follows = process.follows.map(|seq| seq.saturating_sub(back).max(1));
                }
                self.wake_consumer(number);
            }
            19 if self.serving != Some(number) && member.process.is_some() => {
                member.fill(until, &mut self.rng);
                self.add(until - self.real, number, NOBODY, Event::Room);
            }
            18 => self.judge_folder(number).map(drop)?,
            _ => {}
        }
        Ok(())
    }

    /// Nothing gets from a node to the stream or to other nodes, or back.
    fn isolate(&mut self, number: usize, until: u64) {
        let member = &mut self.members[number];
        (member.cut_to_stream, member.cut_from_stream) = (until, until);
        for other in 0..NODES {
            self.links_cut[number][other] = until;
            self.links_cut[other][number] = until;
        }
    }

    /// All nodes lose their power, and so do the servers of the stream. The node that serves loses it
    /// at its next call of the disk.
    fn black_out(&mut self, trace: &mut Trace) {
        self.counts.blackouts += 1;
        self.leaderless = self.real + self.rng.below(LEADERLESS_MS_MAX);
        for number in 0..NODES {
            if self.serving == Some(number) {
                let disk = &self.members[number].disk;
                disk.crash_at(disk.calls() + 1);
            } else if self.members[number].process.is_some() {
                self.end(trace, number, CrashKind::PowerLoss);
            }
        }
    }

    /// All faults end.
    pub(crate) fn end_trouble(&mut self) {
        self.plan.is_faulty = false;
        self.plan.odd_appends = 0;
        self.quiet_at = self.real + QUIET_MS;
        self.leaderless = 0;
        self.unsafe_until = 0;
        self.links_cut = [[0; NODES]; NODES];
        for member in &mut self.members {
            member.cut_to_stream = 0;
            member.cut_from_stream = 0;
            member.stale = None;
            member.silent = 0;
            member.slow = 0;
            member.has_room();
            member.disk.plan_nothing();
            if let Some(process) = &mut member.process {
                process.paused = process.paused.min(self.real);
            }
        }
    }

    /// The stream removes all records before this one. Two folders must have what goes.
    pub(super) fn trim(&mut self, trace: &mut Trace, below: u64) -> Checked {
        let first = self.stream.first();
        let gone = self.stream.trim(below);
        trace.note(format_args!("trim below {below}: group {gone} is gone"));
        self.counts.trims += u64::from(self.stream.first() > first);
        let holders = self.members.iter().filter(|member| member.durable() >= gone).count();
        if holders < 2 {
            return Err(format!(
                "only {holders} folders have group {gone} durably, and it is gone"
            ));
        }
        if self.stream.read(self.stream.last_claim()).is_none() {
            return Err("the last claim is gone".into());
        }
        Ok(())
    }
}

/// The same record with other bytes: a sabotage of a driver.
pub(super) fn altered(record: &Arc<[u8]>) -> Arc<[u8]> {
    let Ok((mut header, body)) = Header::decode(record) else { return record.clone() };
    header.time_ms += 1;
    if header.kind == Kind::Group {
        header.after = header.before.then(&header.link());
    }
    header.encode(body).into()
}

/// The facts of a group. Each has its length in its second word.
pub(super) fn facts(body: &[u8]) -> Vec<&[u8]> {
    let (mut facts, mut rest) = (Vec::new(), body);
    while let Some(head) = rest.first_chunk::<8>() {
        let [.., a, b, c, d] = *head;
        let (fact, later) = rest.split_at(8 + u32::from_le_bytes([a, b, c, d]) as usize);
        facts.push(fact);
        rest = later;
    }
    facts
}
