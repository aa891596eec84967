//! Pauses by policy in the model. The wall clock shows the model's time.

use super::{Model, Name};
use crate::windows::Window;

/// What the model found when it last looked at the pause of a policy with a schedule.
#[derive(Copy, Clone, Debug)]
pub(super) struct Phase {
    is_paused: bool,
    /// The model looks at the queue again at this moment.
    pub(super) turns: u64,
}

impl Model {
    fn window(&self, name: &Name) -> Option<Window> {
        let pause = &self.queues[name].policy.pause;
        let cron = pause.cron.as_ref().filter(|_| pause.is_on)?;
        let length_ms = pause.length_ms.expect("a pause with a schedule has a length");
        Some(Window::new(cron.as_str(), length_ms, pause.zone.as_str()))
    }

    /// True if the policy of the queue pauses it now.
    pub(super) fn is_paused_by_policy(&self, name: &Name) -> bool {
        match self.window(name) {
            Some(window) => window.lasts(self.now).is_some(),
            None => self.queues[name].policy.pause.is_on,
        }
    }

    /// Looks at the pause of the policy. Returns true if a pause has ended since the last look.
    pub(super) fn look_at_pause(&mut self, name: &Name) -> bool {
        let phase = self.window(name).map(|window| Phase {
            is_paused: window.lasts(self.now).is_some(),
            turns: window.turns(self.now),
        });
        let before = std::mem::replace(&mut self.queue_mut(name).phase, phase);
        before.is_some_and(|phase| phase.is_paused) && phase.is_some_and(|phase| !phase.is_paused)
    }
}
