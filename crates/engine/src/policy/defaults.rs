//! Defaults: what a job gets if its client did not send it.

/// The values of a job whose client did not send them. A dialect may not have them: an item of
/// Kestrel has none of them, and a submit of Gearman has no ttr.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Defaults {
    /// The ttr in seconds. `None`: as the dialect says.
    pub ttr_s: Option<u32>,
    /// The priority. 0 is the most urgent.
    pub priority: u32,
    /// Seconds until the job becomes ready.
    pub delay_s: u32,
}

/// The values of a new job that its client did not send.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Unsent {
    /// The ttr was not sent.
    pub ttr: bool,
    /// The priority was not sent.
    pub priority: bool,
    /// The delay was not sent.
    pub delay: bool,
}

impl Unsent {
    /// The client sent everything.
    pub const NOTHING: Unsent = Unsent { ttr: false, priority: false, delay: false };
    /// The client sent nothing.
    pub const ALL: Unsent = Unsent { ttr: true, priority: true, delay: true };
}

impl Default for Defaults {
    fn default() -> Self {
        Self { ttr_s: None, priority: PRIORITY_DEFAULT, delay_s: 0 }
    }
}

/// The priority of a job, if neither its client nor a policy says another one.
pub const PRIORITY_DEFAULT: u32 = 1024;
