//! The settings of the section `disk`: how much room of the disk stays free.

use broker::DiskLimit;
use notation::size;

use crate::config::settings::{Setting, assign, quote};

/// The keys of the section.
pub(crate) static SETTINGS: [Setting; 2] = [
    Setting {
        key: "disk.low",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.limits.disk.low, parse(value[0])),
        show: |config| quote(&show(config.limits.disk.low)),
    },
    Setting {
        key: "disk.critical",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.limits.disk.critical, parse(value[0])),
        show: |config| quote(&show(config.limits.disk.critical)),
    },
];

/// Reads `10%`, a size or `off`.
fn parse(text: &str) -> Result<Option<DiskLimit>, String> {
    if text == "off" {
        return Ok(None);
    }
    let Some(percent) = text.strip_suffix('%') else {
        return size::parse(text).map(|bytes| Some(DiskLimit::Bytes(bytes)));
    };
    match percent.trim_end().parse() {
        Ok(percent @ 1..=99) => Ok(Some(DiskLimit::Percent(percent))),
        _ => Err(format!("`{text}` is not a percentage; write 1% to 99%, a size, or off")),
    }
}

fn show(limit: Option<DiskLimit>) -> String {
    match limit {
        None => "off".to_owned(),
        Some(DiskLimit::Percent(percent)) => format!("{percent}%"),
        Some(DiskLimit::Bytes(bytes)) => size::format(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_written() {
        for (text, limit) in [
            ("off", None),
            ("5%", Some(DiskLimit::Percent(5))),
            ("20GiB", Some(DiskLimit::Bytes(20 << 30))),
        ] {
            assert_eq!(parse(text), Ok(limit));
            assert_eq!(show(limit), text);
        }
        for wrong in ["0%", "100%", "%", "little", "-1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
