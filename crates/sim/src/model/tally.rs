//! Counts what the model saw, so that tests can check that runs do enough of each kind.

/// The number of events of each kind.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Puts that waited for room.
    pub room_waits: u64,
    /// Jobs that expired or made room, and became dead letters, if the policy kept any.
    pub letters: u64,
    /// Jobs that Gearman workers grabbed.
    pub grabs: u64,
    /// Workers that were woken.
    pub wake_ups: u64,
    /// Submits that joined another job.
    pub joins: u64,
    /// How often a foreground client received the news that its job had ended.
    pub ends: u64,
    /// Reads that were opened.
    pub opens: u64,
    /// Jobs that puts created in addition to the requested jobs.
    pub copies: u64,
    /// Jobs that expired.
    pub expiries: u64,
    /// Sweeps that left expired jobs to a later sweep, as the policy says.
    pub sweep_rests: u64,
    /// Queues that were removed because they were idle.
    pub idle_queues: u64,
    /// Puts that policies refused.
    pub rejections: u64,
    /// Puts that found a job with their key.
    pub duplicates: u64,
    /// Puts that found a job that had ended.
    pub claimed: u64,
    /// Submits that got the kept result of a job that had ended.
    pub kept_results: u64,
    /// Jobs that a put made more urgent.
    pub bumps: u64,
    /// Requests of Kestrel's text protocol.
    pub texts: u64,
    /// Calls of Kestrel's thrift protocol.
    pub calls: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            room_waits,
            letters,
            grabs,
            wake_ups,
            joins,
            ends,
            opens,
            copies,
            expiries,
            sweep_rests,
            idle_queues,
            rejections,
            duplicates,
            claimed,
            kept_results,
            bumps,
            texts,
            calls,
        } = other;
        self.room_waits += room_waits;
        self.letters += letters;
        self.grabs += grabs;
        self.wake_ups += wake_ups;
        self.joins += joins;
        self.ends += ends;
        self.opens += opens;
        self.copies += copies;
        self.expiries += expiries;
        self.sweep_rests += sweep_rests;
        self.idle_queues += idle_queues;
        self.rejections += rejections;
        self.duplicates += duplicates;
        self.claimed += claimed;
        self.kept_results += kept_results;
        self.bumps += bumps;
        self.texts += texts;
        self.calls += calls;
    }
}
