//! Pauses by policy: hand-out stops until the policy changes, or again and again for a time.

use super::{Name, Rule, RulesError, Setting};
use crate::ids::Millis;
use crate::schedule::{Cron, Zone};

/// Whether a policy pauses a queue, and why. Unlike the pause that a client asks for, it belongs to
/// the rules in force, so it outlives a restart.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PausePolicy {
    /// Whether the queue hands out no jobs.
    pub is_on: bool,
    /// The reason that the operator gave.
    pub reason: Option<Name>,
    /// When each pause begins. `None`: the pause lasts until the policy changes.
    pub cron: Option<Cron>,
    /// The time zone of `cron`.
    pub zone: Zone,
    /// The length of each pause, in milliseconds. [`Rules::check`](super::Rules::check) makes sure
    /// that a pause with `cron` has one.
    pub length_ms: Option<u64>,
}

/// Whether a queue is paused, and until when. Times are of the wall clock.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct PausePhase {
    /// Whether the queue hands out no jobs.
    pub is_paused: bool,
    /// When this can change. `None`: only another policy changes it.
    pub until: Option<Millis>,
}

impl PausePolicy {
    /// Whether the pause begins and ends by the wall clock.
    pub fn has_windows(&self) -> bool {
        self.is_on && self.cron.is_some()
    }

    /// Whether the policy pauses a queue at this time of the wall clock. Pauses can overlap. Then
    /// the queue is paused again at the end of the phase.
    pub fn phase(&self, wall: Millis) -> PausePhase {
        let Some(cron) = self.cron.as_ref().filter(|_| self.is_on) else {
            return PausePhase { is_paused: self.is_on, until: None };
        };
        let length_ms = self.length_ms.unwrap_or(0);
        let earlier = Millis(wall.0.saturating_sub(length_ms));
        let begins = cron.next_after(earlier, &self.zone);
        let is_paused = begins.is_some_and(|begins| begins <= wall);
        let ends = begins.map(|begins| Millis(begins.0.saturating_add(length_ms)));
        PausePhase { is_paused, until: if is_paused { ends } else { begins } }
    }
}

impl Rule {
    /// Checks that a rule with a part of a pause window has the whole window. Each rule with a pause
    /// begins a new one, so no other rule adds a part.
    pub(super) fn check_pause(&self) -> Result<(), RulesError> {
        let line = |is_part: fn(&Setting) -> bool| {
            let part = self.settings.iter().find(|asked| is_part(&asked.setting));
            part.map(|asked| asked.line)
        };
        let cron = line(|setting| matches!(setting, Setting::PauseCron(Some(_))));
        let length = line(|setting| matches!(setting, Setting::PauseLength(Some(_))));
        let zone = line(|setting| matches!(setting, Setting::PauseZone(_)));
        match (cron, length, zone) {
            (Some(line), None, _) => Err(RulesError::PausePart { line, key: "pause.for" }),
            (None, Some(line), _) | (None, None, Some(line)) => {
                Err(RulesError::PausePart { line, key: "pause.cron" })
            }
            (Some(_), Some(_), _) | (None, None, None) => Ok(()),
        }
    }
}
