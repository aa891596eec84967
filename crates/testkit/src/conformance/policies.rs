//! The policies for Kestrel's cases with the tags `policies` and `testconfig`. They have two forms:
//! values for a dialect in this process, and a configuration for a server.

use broker::policy::{Rule, Rules, Setting, WhenFull};

/// The policies as values.
pub fn rules() -> Rules {
    let name = |name: &str| Box::from(name.as_bytes());
    let destinations = [name("kt_dest1"), name("kt_dest2")].into();
    let discarding = [Setting::JobsMax(Some(3)), Setting::WhenFull(WhenFull::DropOldest)];
    Rules(vec![
        Rule::new(["kt_max1"], [Setting::JobsMax(Some(1))]),
        Rule::new(["kt_size510"], [Setting::BytesMax(Some(510))]),
        Rule::new(["kt_item128"], [Setting::ItemBytesMax(Some(128))]),
        Rule::new(["kt_discard3"], discarding),
        Rule::new(["kt_age1"], [Setting::AgeMax(Some(1_000))]),
        Rule::new(["kt_fanonly"], [Setting::FanoutOnly(true)]),
        Rule::new(["kt_open2"], [Setting::OpenMax(2)]),
        Rule::new(["kt_jobs"], [Setting::ExpireTo(Some(name("kt_expired")))]),
        Rule::new(["kt_sweep*"], [Setting::ExpireSweep(Some(1))]),
        Rule::new(["kt_alias"], [Setting::Alias(destinations)]),
    ])
}

/// The policies as a configuration. It lacks the rule for `kt_sweep*`, because no case over sockets
/// needs this rule.
pub const CONFIGURATION: &str = r#"
[[policy]]
match = "kt_max1"
limits = { jobs = 1 }

[[policy]]
match = "kt_size510"
limits = { bytes = 510 }

[[policy]]
match = "kt_item128"
limits = { item_bytes = 128 }

[[policy]]
match = "kt_discard3"
limits = { jobs = 3, when_full = "drop-oldest" }

[[policy]]
match = "kt_age1"
limits = { age = "1s" }

[[policy]]
match = "kt_fanonly"
fanout_only = true

[[policy]]
match = "kt_open2"
open = { max = 2 }

[[policy]]
match = "kt_jobs"
expire_to = "kt_expired"

[[policy]]
match = "kt_alias"
alias = ["kt_dest1", "kt_dest2"]
"#;
