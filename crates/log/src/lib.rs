//! The durable log: segments, group commit, recovery and reclaim.
//!
//! Its promise: what survives a crash is a prefix of the whole log, at least as long as all that was
//! acknowledged. It knows jobs only as slots with a meta and a body, and facts as keys with values; what
//! they mean is the broker's affair. `docs/log-format.md` has every byte and the recovery rules.
//!
//! Who calls what:
//! * the **broker**, under its own lock: [`Log::put`], [`Log::update`], [`Log::count`], [`Log::finish`],
//!   [`Log::fact`], and **[`Log::wake`] once after each batch of them** (an append wakes nobody: a group that
//!   starts with the first entry of a batch would make the rest of the batch wait for two syncs);
//! * the **committer** threads ([`Committer`]), or a simulator step by step: [`Log::commit_step`],
//!   [`Log::prepare_step`], and for reclaim [`Log::reclaim_read`] (no lock) and [`Log::reclaim_copy`] (under
//!   the broker's lock).
//!
//! A [`Position`] is where an entry ends: it is written or durable when [`Log::written`] or
//! [`Log::durable`] has reached it.

mod api;

pub use api::*;
