//! Restores the jobs and facts of the log at a start.

use engine::crons::{CronState, CronTable};
use engine::policy::Rules;
use engine::{Engine, JobBody, JobSlot, Status};
use log::Restored;

use crate::BrokerError;
use crate::core::Core;
use crate::journal::Mark;
use crate::ledger::locations::Location;
use crate::ledger::meta;
use crate::replication::ClusterError;

impl Core {
    pub(crate) fn restore(&mut self, restored: Restored<'_>) -> Result<(), BrokerError> {
        match restored {
            Restored::Job { slot, entry_at, position, queue, meta, counters, is_changed, body } => {
                let place = (slot, entry_at, position);
                let job = self.restore_job(place, queue, &meta, counters, (&body, false))?;
                self.ledger.locations.set_changed(job, is_changed);
            }
            Restored::Block { block, summary, queue, rows }
                if self.cold.restores_block_of(queue) =>
            {
                self.restore_block(block, queue, (&summary, &rows))?;
            }
            Restored::Block { queue, rows, .. } => {
                for row in rows.read()?.iter() {
                    let place = (row.slot, row.entry_at, row.position);
                    self.restore_job(place, queue, &row.meta(), None, (&rows.body(row), true))?;
                }
            }
            Restored::Fact { key, value, .. } => self.restore_fact(key, value)?,
        }
        Ok(())
    }

    /// Restores one job. Its body stays only in the log if `stays_stored`, or if a limit of memory is
    /// reached. But the body is in memory if the engine needs it.
    fn restore_job(
        &mut self,
        (log_slot, entry_at, log_position): (log::Slot, u32, log::Position),
        queue: &[u8],
        meta: &log::Meta<'_>,
        counters: Option<&[u8]>,
        (body, stays_stored): (&log::RestoredBody<'_>, bool),
    ) -> Result<JobSlot, BrokerError> {
        let (facts, tags) = meta::facts(meta, counters)?;
        let is_stored = !Engine::needs_body(tags)
            && (stays_stored || self.restores_stored(queue, facts.state, body.len()));
        let body = if is_stored {
            JobBody::Stored(body.len() as u32)
        } else {
            JobBody::Resident(body.shared()?)
        };
        let slot = self.engine.restore(queue, &facts, tags, body)?;
        // Everything in the folder of a node was accepted. So replies about it wait for nothing.
        let mark = if self.restored.is_some() { Mark::default() } else { Mark(log_position.0) };
        let location = Location::new(log_slot, entry_at, mark, is_stored);
        self.ledger.locations.set(slot, location);
        let hash = self.restored.is_some().then(|| self.job_hash(slot));
        if let (Some(restored), Some(hash)) = (&mut self.restored, hash) {
            restored.note_job(facts.id, hash);
        }
        Ok(slot)
    }

    /// Restores one fact from the log. Ignores facts of newer versions. Fails for the place of a
    /// cluster's node if this server is alone.
    fn restore_fact(&mut self, key: &[u8], value: &[u8]) -> Result<(), BrokerError> {
        if let Some(restored) = &mut self.restored {
            restored.note_fact(key, value);
        } else if key == meta::CLUSTER_KEY {
            return Err(ClusterError::Member.into());
        }
        if let Some((name, facts)) = meta::read_queue_fact(key, value) {
            self.engine.restore_queue(name, facts)?;
        } else if let Some((key, claim)) = meta::read_claim_fact(key, value) {
            self.engine.apply_claim(key, claim);
        } else if key == meta::POLICIES_KEY {
            if let Some(rules) = Rules::decode(value) {
                self.engine.restore_policies(rules);
            }
        } else if key == meta::CRONS_KEY {
            if let Some(table) = CronTable::decode(value) {
                self.engine.restore_crons(table);
            }
        } else if let Some(name) = meta::cron_of_fact(key) {
            if let Some(state) = CronState::decode(value) {
                self.engine.restore_cron_state(name, Some(state));
            }
        } else if let Some(name) = meta::note_of_fact(key) {
            self.engine.restore_note(name, value);
        } else if key == meta::STATUS_KEY
            && let [number] = value
            && let Some(status) = Status::from_number(*number)
        {
            self.engine.restore_status(status);
        }
        Ok(())
    }
}
