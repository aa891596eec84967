//! Parses the statistics and lists of the beanstalkd protocol. They are a small, flat part of YAML.

/// The pairs of keys and values from one statistics reply, in the server's order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    pairs: Vec<(String, String)>,
}

impl Stats {
    /// Parses `---`, then one `key: value` per line. Ignores all other lines.
    pub(crate) fn parse(data: &[u8]) -> Stats {
        let text = String::from_utf8_lossy(data);
        let pairs = text
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(key, value)| (key.to_owned(), unquote(value)))
            .collect();
        Stats { pairs }
    }

    /// The value of `key`, if the server sent it.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The value of `key` as a whole number. Returns 0 if the value is missing, negative or not a
    /// number, because a server with fewer keys must still be shown.
    pub(crate) fn number(&self, key: &str) -> u64 {
        self.get(key).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    /// All pairs in the server's order.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

/// Parses a list reply: `---`, then one `- name` per line.
pub(crate) fn parse_list(data: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(data);
    text.lines().filter_map(|line| line.strip_prefix("- ")).map(unquote).collect()
}

/// Removes the quotes that newer servers write around names and texts.
fn unquote(value: &str) -> String {
    let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inner {
        Some(inner) => inner.replace("\\\"", "\"").replace("\\\\", "\\"),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_be_bare_or_quoted() {
        let bare = Stats::parse(b"---\nid: 16\ntube: mail\nstate: buried\n");
        let quoted = Stats::parse(b"---\nid: 16\ntube: \"mail\"\nstate: buried\n");
        assert_eq!(bare, quoted);
        assert_eq!(bare.get("tube"), Some("mail"));
        assert_eq!(bare.number("id"), 16);
        assert_eq!(parse_list(b"---\n- default\n- \"mail\"\n"), ["default", "mail"]);
    }

    #[test]
    fn odd_values_do_no_harm() {
        let stats = Stats::parse(b"---\nos: #1 SMP: x\ntime-left: -3\nempty:\nbroken\n\"\n");
        assert_eq!(stats.get("os"), Some("#1 SMP: x"));
        assert_eq!(stats.number("time-left"), 0);
        assert_eq!(stats.number("missing"), 0);
        assert_eq!(stats.get("empty"), None);
        assert_eq!(Stats::parse(b"---\nx: \"\n").get("x"), Some("\""));
    }
}
