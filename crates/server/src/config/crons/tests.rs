//! Tests of the `[[cron]]` tables: every key, every refusal, and the output for operators.

use super::*;
use crate::config::sources::tests::Folder;

fn loaded(text: &str) -> CronTable {
    let (_folder, sources) = Folder::with(text);
    sources.load().unwrap().config.crons
}

fn mistakes(text: &str) -> Vec<String> {
    let (folder, sources) = Folder::with(text);
    let path = format!("{}/", folder.path().display());
    let text = sources.load().unwrap_err().to_string().replace(&path, "");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn every_key_is_read() {
    let text = "[[cron]]\nname = \"nightly\"\nqueue = \"reports\"\nspec = \"0 3 * * mon-fri\"\n\
                tz = \"Europe/Berlin\"\nbody = \"{}\"\noverlap = \"replace\"\n\
                catch_up = \"all\"\njitter = \"5m\"\n\n\
                [[cron]]\nname = \"tick\"\nqueue = \"ticks\"\nspec = \"@hourly\"\n";
    let nightly = CronEntry {
        name: b"nightly"[..].into(),
        queue: b"reports"[..].into(),
        cron: "0 3 * * mon-fri".parse().unwrap(),
        zone: "Europe/Berlin".parse().unwrap(),
        body: b"{}"[..].into(),
        overlap: Overlap::Replace,
        catch_up: CatchUp::All,
        jitter_ms: 300_000,
        line: 1,
    };
    let tick = CronEntry {
        name: b"tick"[..].into(),
        queue: b"ticks"[..].into(),
        cron: "@hourly".parse().unwrap(),
        zone: Zone::default(),
        body: b""[..].into(),
        overlap: Overlap::Skip,
        catch_up: CatchUp::One,
        jitter_ms: 0,
        line: 11,
    };
    assert_eq!(loaded(text), CronTable(vec![nightly, tick]));
}

#[test]
fn a_body_can_come_from_a_file_beside_the_configuration() {
    let text =
        "[[cron]]\nname = \"a\"\nqueue = \"q\"\nspec = \"@daily\"\nbody_file = \"body.bin\"\n";
    let (folder, sources) = Folder::with(text);
    std::fs::write(folder.path().join("body.bin"), [0, 255, 10]).unwrap();
    let table = sources.load().unwrap().config.crons;
    assert_eq!(&*table.0[0].body, &[0, 255, 10]);
    std::fs::write(folder.path().join("body.bin"), vec![0; (64 << 10) + 1]).unwrap();
    let error = sources.load().unwrap_err().to_string();
    assert!(error.contains("lineshaft.toml:5:13: cron.body_file: "), "{error}");
    assert!(error.contains("body.bin: it is larger than 64KiB; name a smaller file"), "{error}");
    std::fs::remove_file(folder.path().join("body.bin")).unwrap();
    let error = sources.load().unwrap_err().to_string();
    assert!(error.contains("cannot read"), "{error}");
}

#[test]
fn a_body_file_without_an_end_is_refused_at_once() {
    let text = |file| {
        format!(
            "[[cron]]\nname = \"a\"\nqueue = \"q\"\nspec = \"@daily\"\nbody_file = \"{file}\"\n"
        )
    };
    let (folder, fifo) = Folder::with(&text("fifo"));
    let (_other, zero) = Folder::with(&text("/dev/zero"));
    let path = folder.path().join("fifo");
    // Nobody writes to the FIFO.
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    for (sources, file) in [(fifo, path.to_str().unwrap()), (zero, "/dev/zero")] {
        let error = sources.load().unwrap_err().to_string();
        let expected = format!(
            "lineshaft.toml:5:13: cron.body_file: cannot read {file}: it is not a regular file"
        );
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn each_mistake_has_its_place() {
    let text = "[[cron]]\nname = 3\nqueue = \"q\"\nspec = \"0 25 * * *\"\ntz = \"Berlin\"\n\
                overlap = \"stop\"\ncatch_up = \"two\"\njitter = \"2h\"\nbodi = \"x\"\n\
                [[cron]]\nbody = \"a\"\nbody_file = \"b\"\n";
    let found = mistakes(text);
    let starts = [
        "lineshaft.toml:2:8: cron.name: cannot be of type integer",
        "lineshaft.toml:4:8: cron.spec: `25` is not a hour: write numbers from 0 to 23",
        "lineshaft.toml:5:6: cron.tz: `Berlin` is not a time zone",
        "lineshaft.toml:6:11: cron.overlap: `stop` is neither `skip`, `queue` nor `replace`",
        "lineshaft.toml:7:12: cron.catch_up: `two` is neither `none`, `one` nor `all`",
        "lineshaft.toml:8:10: cron.jitter: `2h` is longer than an hour",
        "lineshaft.toml:9:1: cron: unknown key `bodi`; did you mean `body`?",
        "lineshaft.toml:12:13: cron.body_file: cannot read",
        "lineshaft.toml:10:1: cron: `name` is missing",
        "lineshaft.toml:10:1: cron: `queue` is missing",
        "lineshaft.toml:10:1: cron: `spec` is missing",
        "lineshaft.toml:10:1: cron: an entry has `body` or `body_file`, not both",
    ];
    for (found, start) in found.iter().zip(starts) {
        assert!(found.contains(start), "{found} / {start}");
    }
    assert_eq!(found.len(), starts.len(), "{found:?}");
    let twice = "[[cron]]\nname = \"a\"\nqueue = \"q\"\nspec = \"@daily\"\n".repeat(2);
    let found = mistakes(&twice);
    assert!(found[0].contains("lineshaft.toml:5: cron: name: there are two entries"), "{found:?}");
    for text in ["[cron]\nname = \"a\"\n", "cron = 3\n", "cron = [3]\n"] {
        let found = mistakes(text);
        assert!(found[0].contains("cron: each entry begins with a line [[cron]]"), "{found:?}");
    }
}

#[test]
fn shown_entries_can_be_read_again() {
    let text = "[[cron]]\nname = \"a\"\nqueue = \"q\"\nspec = \"0 3  * * *\"\ntz = \"asia/tokyo\"\n\
                body = \"x\\\"y\"\noverlap = \"queue\"\njitter = \"90s\"\n";
    let (_folder, sources) = Folder::with(text);
    let effective = sources.load().unwrap();
    let shown = effective.show();
    assert!(shown.contains("spec = \"0 3 * * *\""), "{shown}");
    assert!(shown.contains("lineshaft.toml:1\n"), "{shown}");
    let without_lines = |table: CronTable| {
        table.0.into_iter().map(|entry| CronEntry { line: 0, ..entry }).collect::<Vec<_>>()
    };
    assert_eq!(without_lines(loaded(&shown)), without_lines(effective.config.crons.clone()));
}
