//! What a follower tells the leader, twice a second, as one line of text.

use crate::{Epoch, Incarnation, Lineage, NodeId};

/// Bytes of the longest report.
pub const REPORT_BYTES_MAX: usize = 512;

/// A report of a follower.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq, Hash)]
pub struct Report {
    /// The follower.
    pub node: NodeId,
    /// Its process.
    pub incarnation: Incarnation,
    /// The lineage of its folder.
    pub lineage: Lineage,
    /// The epoch that it follows. A leader of another epoch must not rely on the report.
    pub epoch: Epoch,
    /// The last group that it has applied.
    pub applied: u64,
    /// The last group that is durable in its folder. 0 while it fetches a copy.
    pub durable: u64,
    /// It follows from this group, so the stream must keep it.
    pub needs: u64,
    /// The newest format that it reads.
    pub format: u16,
    /// It would not claim now: it must not lead, its folder hangs, or its check of the stream's servers
    /// failed. So the leader gives it no lead.
    pub cannot_lead: bool,
}

impl Report {
    /// The line, without a line end.
    #[must_use]
    pub fn encode(&self) -> String {
        let Report { node, incarnation, lineage, epoch, applied, durable, needs, format, .. } =
            self;
        format!(
            "report 1 {node:016x} {incarnation:016x} {lineage} {epoch} {applied} {durable} \
             {needs} {format} {}",
            u8::from(self.cannot_lead)
        )
    }

    /// Reads a line without its end. Fields that a later version adds at the end are ignored. An older
    /// version does not say whether the node cannot lead.
    #[must_use]
    pub fn decode(line: &str) -> Option<Report> {
        if line.len() > REPORT_BYTES_MAX {
            return None;
        }
        let mut words = line.strip_prefix("report 1 ")?.split(' ');
        let hex = |word: &str| {
            let is_hex = word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
            if is_hex { u64::from_str_radix(word, 16).ok() } else { None }
        };
        let (node, incarnation) = (hex(words.next()?)?, hex(words.next()?)?);
        let lineage = words.next()?.parse().ok()?;
        let mut number = || words.next()?.parse().ok();
        let (epoch, applied, durable, needs) = (number()?, number()?, number()?, number()?);
        let format = u16::try_from(number()?).ok()?;
        let cannot_lead = words.next() == Some("1");
        Some(Report {
            node,
            incarnation,
            lineage,
            epoch,
            applied,
            durable,
            needs,
            format,
            cannot_lead,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let report = Report {
            node: 0xfeed,
            incarnation: u64::MAX,
            lineage: Lineage([0xab; 16]),
            epoch: 17,
            applied: u64::MAX,
            durable: 4,
            needs: 5,
            format: 1,
            cannot_lead: true,
        };
        let line = report.encode();
        assert!(line.len() <= REPORT_BYTES_MAX);
        assert_eq!(Report::decode(&line), Some(report));
        assert_eq!(Report::decode(&format!("{line} later")), Some(report));
        // An older version wrote this line.
        let older = line.strip_suffix(" 1").expect("it cannot lead");
        assert_eq!(Report::decode(older), Some(Report { cannot_lead: false, ..report }));
    }

    #[test]
    fn other_lines_are_refused() {
        let line = Report::default().encode();
        for end in 0..line.len() - " 0".len() {
            assert_eq!(Report::decode(&line[..end]), None, "{end} bytes");
        }
        assert_eq!(Report::decode(&line.replace("report 1", "report 2")), None);
        assert_eq!(Report::decode(&line.replacen("00", "+0", 1)), None);
        assert_eq!(Report::decode(&format!("{line} {}", "x".repeat(REPORT_BYTES_MAX))), None);
    }
}
