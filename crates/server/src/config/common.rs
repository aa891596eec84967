//! What the configurations of all nodes of a cluster should have in common, as a short text. Nodes tell
//! it to each other, so that a difference is noticed before another node leads.

use replica::chain::Mix;

use crate::config::settings::settings;
use crate::config::{Config, crons, policies};

/// The parts, and the keys that belong to each of them. Keys of addresses, files and of one machine
/// belong to none.
const PARTS: [(&str, &[&str]); 3] = [
    ("limits", &["limits.", "memory."]),
    ("protocols", &["gearman.", "kestrel."]),
    (
        "cluster",
        &["cluster.lease", "cluster.stream_keep", "cluster.stream_max", "cluster.unsafe_flush"],
    ),
];

impl Config {
    /// The common settings, as parts such as `limits=0123456789abcdef`. Equal parts have equal
    /// settings.
    pub(crate) fn common(&self) -> String {
        let policies = Mix::new()
            .bytes(policies::show(&self.policies, |_| String::new()).as_bytes())
            .bytes(crons::show(&self.crons, |_| String::new()).as_bytes());
        let mut parts = vec![format!("policies={:016x}", policies.value())];
        for (name, prefixes) in PARTS {
            let is_part = |key: &str| prefixes.iter().any(|prefix| key.starts_with(prefix));
            let mix = settings().filter(|setting| is_part(setting.key)).fold(
                Mix::new(),
                |mix, setting| {
                    mix.bytes(setting.key.as_bytes()).bytes((setting.show)(self).as_bytes())
                },
            );
            parts.push(format!("{name}={:016x}", mix.value()));
        }
        parts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use nats::hints::differing_settings;

    use super::*;
    use crate::config::sources::tests::Folder;

    #[test]
    fn nodes_with_other_settings_are_noticed() {
        let usual = Config::default().common();
        let differing = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            differing_settings(&usual, &config.common()).join(", ")
        };
        assert_eq!(differing(|_| ()), "");
        assert_eq!(differing(|config| config.limits.queues = Some(7)), "limits");
        assert_eq!(differing(|config| config.gearman.job_retries = 7), "protocols");
        assert_eq!(differing(|config| config.cluster.stream_max_bytes = 1 << 40), "cluster");
        let own = |config: &mut Config| {
            config.data.dir = "/elsewhere".into();
            config.cluster.node = Some("other".to_owned());
        };
        assert_eq!(differing(own), "", "each node has its own folder and name");
        let policy = |config: &mut Config| {
            let (_folder, sources) = Folder::with("[[policy]]\nmatch = \"q\"\nlimits.jobs = 5\n");
            config.policies = sources.load().expect("it is right").config.policies;
        };
        assert_eq!(differing(policy), "policies");
    }
}
