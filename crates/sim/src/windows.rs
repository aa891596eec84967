//! Pauses by a schedule, computed without the engine's code. The simulator uses only schedules of
//! some minutes of each hour. So it needs no calendar: it counts minutes since 1970.

const MINUTE_MS: u64 = 60_000;

/// A pause that begins with each minute whose number has a certain factor. All times are in
/// milliseconds.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Window {
    /// The time between two beginnings.
    period: u64,
    length: u64,
    /// How far the clocks of the zone are ahead.
    ahead: u64,
}

impl Window {
    pub(crate) fn new(cron: &str, length_ms: u64, zone: &str) -> Self {
        let minutes = cron.split(' ').next().and_then(|minute| minute.strip_prefix("*/"));
        let minutes: u64 = minutes.expect("all schedules have steps").parse().expect("a number");
        assert_eq!((cron, 60 % minutes), (format!("*/{minutes} * * * *").as_str(), 0));
        let ahead_minutes = match zone {
            "UTC" => 0,
            "Asia/Kathmandu" => 5 * 60 + 45,
            zone => panic!("the simulator does not know {zone}"),
        };
        Self { period: minutes * MINUTE_MS, length: length_ms, ahead: ahead_minutes * MINUTE_MS }
    }

    /// How long ago the last pause began.
    fn since_begin(&self, wall: u64) -> u64 {
        (wall + self.ahead) % self.period
    }

    /// How long the pause of this time of the wall clock has lasted.
    pub(crate) fn lasts(&self, wall: u64) -> Option<u64> {
        Some(self.since_begin(wall)).filter(|since| *since < self.length)
    }

    /// The next time at which a pause begins or ends.
    pub(crate) fn turns(&self, wall: u64) -> u64 {
        let since = self.since_begin(wall);
        let turn = if since < self.length { self.length } else { self.period };
        wall + turn - since
    }
}
