//! Tests of the configuration: which source applies, and what the messages about mistakes contain.
use std::time::Duration;

use super::*;
use crate::config::{ClientAuth, Durability, Gearman, MessageFormat};
use notation::address::Address;

pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn with(text: &str) -> (Folder, Sources) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lineshaft.toml");
        std::fs::write(&file, text).unwrap();
        (Folder(folder), Sources { file: Some(file), ..Sources::default() })
    }
}

/// All mistakes of a file. Each message has the name of the file, without its folder.
pub(crate) fn messages(text: &str) -> Vec<String> {
    let (folder, sources) = Folder::with(text);
    let folder = format!("{}/", folder.0.path().display());
    let Mistakes(mistakes) = sources.load().unwrap_err();
    mistakes.iter().map(|mistake| mistake.to_string().replace(&folder, "")).collect()
}

fn variable(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn flag(name: &'static str, key: &'static str, value: &str) -> Flag {
    Flag { name, key, values: vec![value.to_owned()] }
}

#[test]
fn every_key_is_read_from_a_file() {
    let (_folder, sources) = Folder::with(
        r#"
        io_threads = 3
        [data]
        dir = "/d"
        sync = "50ms"
        segment_size = 1_048_576
        max_bytes = "1GiB"
        [listen]
        beanstalk = ["0.0.0.0:1", "unix:/s"]
        gearman = "0.0.0.0:2"
        unix_mode = "0660"
        [limits]
        connections = 5
        beanstalk_job_size = "1MiB"
        gearman_packet_size = "3MiB"
        unsent_size = "2MiB"
        unsent_total_size = "4MiB"
        unfinished_size = "3MiB"
        unsent_time = "9s"
        [gearman]
        round_robin = true
        job_retries = 4
        worker_wakeup = 6
        exceptions = true
        handle_prefix = "H:here"
        [messages]
        format = "json"
        level = "debug"
        "#,
    );
    let config = sources.load().unwrap().config;
    assert_eq!(config.io_threads, 3);
    assert_eq!(config.data.dir, PathBuf::from("/d"));
    assert_eq!(config.data.sync, Durability::Every(Duration::from_millis(50)));
    assert_eq!(config.data.segment_bytes, 1 << 20);
    assert_eq!(config.data.bytes_max, Some(1 << 30));
    let host = "0.0.0.0".to_owned();
    let addresses = vec![
        Address::Tcp { host: host.clone(), port: 1 }.into(),
        Address::Unix("/s".into()).into(),
    ];
    assert_eq!(config.listen.of(Protocol::Beanstalk), addresses);
    assert_eq!(config.listen.of(Protocol::Gearman), [Address::Tcp { host, port: 2 }.into()]);
    assert_eq!(config.listen.unix_mode, Some(0o660));
    assert_eq!(config.limits.connections, Some(5));
    assert_eq!(config.limits.beanstalk_job_bytes, 1 << 20);
    assert_eq!(config.limits.gearman_packet_bytes, 3 << 20);
    assert_eq!(config.limits.unsent_bytes, 2 << 20);
    assert_eq!(config.limits.unsent_total_bytes, 4 << 20);
    assert_eq!(config.limits.unfinished_bytes, 3 << 20);
    assert_eq!(config.limits.unsent_time, Duration::from_secs(9));
    let gearman = Gearman {
        round_robin: true,
        job_retries: 4,
        worker_wakeup: 6,
        exceptions: true,
        handle_prefix: Some("H:here".to_owned()),
        verbosity: None,
    };
    assert_eq!(config.gearman, gearman);
    assert_eq!(config.messages.format, MessageFormat::Json);
    assert_eq!(config.messages.level, tracing::Level::DEBUG);
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let (_folder, mut sources) =
        Folder::with("io_threads = 2\n[data]\nsync = \"never\"\ndir = \"/file\"\n");
    sources.environment =
        vec![variable("LINESHAFT_DATA_SYNC", "always"), variable("LINESHAFT_DATA_DIR", "/env")];
    sources.flags = vec![flag("--data", "data.dir", "/flag")];
    let effective = sources.load().unwrap();
    assert_eq!(effective.config.io_threads, 2);
    assert_eq!(effective.config.data.sync, Durability::Always);
    assert_eq!(effective.config.data.dir, PathBuf::from("/flag"));
    assert!(matches!(
        effective.origin("io_threads"),
        Origin::File(_, FilePosition { line: 1, .. })
    ));
    assert_eq!(effective.origin("data.sync").to_string(), "environment LINESHAFT_DATA_SYNC");
    assert_eq!(effective.origin("data.dir").to_string(), "--data");
    assert_eq!(effective.origin("messages.level"), &Origin::Default);
}

#[test]
fn all_sources_win_over_the_defaults_of_a_command() {
    let (_folder, mut sources) = Folder::with("io_threads = 2\n");
    sources.defaults =
        &[("io_threads", "3"), ("data.dir", "/usual"), ("kestrel.admin_get", "true")];
    sources.flags = vec![flag("--data", "data.dir", "/flag")];
    let effective = sources.load().unwrap();
    assert_eq!(effective.config.io_threads, 2);
    assert_eq!(effective.config.data.dir, PathBuf::from("/flag"));
    assert!(effective.config.kestrel.admin_get);
    assert_eq!(effective.origin("kestrel.admin_get"), &Origin::Default);
}

#[test]
fn only_named_listeners_are_on_with_only() {
    let (_folder, mut sources) = Folder::with("[listen]\nbeanstalk = \"1.2.3.4:5\"\n");
    sources.only_named_listeners = true;
    assert_eq!(sources.load().unwrap().config.listen.of(Protocol::Beanstalk), []);
    sources.flags = vec![flag("--beanstalk", "listen.beanstalk", "unix:/x")];
    let expected = vec![Address::Unix("/x".into()).into()];
    let listen = sources.load().unwrap().config.listen;
    assert_eq!(listen.of(Protocol::Beanstalk), expected);
    assert_eq!(listen.of(Protocol::Gearman), []);
}

#[test]
fn mistakes_name_their_line_and_what_was_meant() {
    assert_eq!(
        messages("io_thread = 1\n[data]\nsnyc = \"never\"\n[limit]\nconnections = 3\n[xyz]\na = 1"),
        [
            "lineshaft.toml:1:1: unknown key `io_thread`; did you mean `io_threads`?",
            "lineshaft.toml:3:1: unknown key `data.snyc`; did you mean `data.sync`?",
            "lineshaft.toml:4:2: unknown key `limit`; did you mean `limits`?",
            "lineshaft.toml:6:2: unknown key `xyz`",
        ]
    );
    assert_eq!(
        messages("sync = \"never\""),
        ["lineshaft.toml:1:1: unknown key `sync`; did you mean `data.sync`?"]
    );
}

#[test]
fn wrong_values_are_named_by_line_and_key() {
    assert_eq!(
        messages("io_threads = 0\n[data]\nsync = \"sometimes\"\nmax_bytes = 1.5\n"),
        [
            "lineshaft.toml:1:14: io_threads: `0` is not a number from 1 to 64",
            "lineshaft.toml:3:8: data.sync: `sometimes` is not `always`, `never`, `memory` or a time such as `50ms`",
            "lineshaft.toml:4:13: data.max_bytes: cannot be of type float",
        ]
    );
    assert_eq!(
        messages("[listen]\nbeanstalk = [\"127.0.0.1\"]"),
        [
            "lineshaft.toml:2:13: listen.beanstalk: `127.0.0.1` is not an address; write HOST:PORT, unix:PATH or off"
        ]
    );
}

#[test]
fn an_address_with_tls_needs_a_certificate_and_its_key() {
    let listeners =
        "[listen]\nbeanstalk = [\"a:1\", \"tls:b:2\"]\ngearman = \"tls:unix:/s\"\n[tls]\n";
    let both = "an address with `tls:` also needs tls.certificate and tls.key";
    assert_eq!(
        messages(listeners),
        [
            format!("lineshaft.toml:2: listen.beanstalk: {both}"),
            format!("lineshaft.toml:3: listen.gearman: {both}"),
        ]
    );
    let one = messages(&format!("{listeners}certificate = \"c\"\n"));
    assert!(one[0].ends_with("also needs tls.key"), "{one:?}");
    let complete = format!("{listeners}certificate = \"c\"\nkey = \"k\"\n");
    let (_folder, sources) = Folder::with(&complete);
    let config = sources.load().unwrap().config;
    let tls = Address::Tcp { host: "b".to_owned(), port: 2 }.with_tls();
    assert_eq!(config.listen.of(Protocol::Beanstalk)[1], tls);
    assert_eq!(config.tls.key, Some(PathBuf::from("k")));
    assert_eq!(config.tls.client_auth, ClientAuth::Auto);
    assert_eq!(
        messages("[tls]\nclient_auth = \"maybe\"\nclient_ca = \"\"\n"),
        [
            "lineshaft.toml:2:15: tls.client_auth: `maybe` is not `auto`, `none`, `optional` or `required`",
            "lineshaft.toml:3:13: tls.client_ca: the file has no name; write its path, or `off`",
        ]
    );
}

#[test]
fn client_auth_without_an_authority_is_a_mistake() {
    for asked in ["required", "optional"] {
        assert_eq!(
            messages(&format!("[tls]\nclient_auth = \"{asked}\"\n")),
            [format!("lineshaft.toml:2: tls.client_auth: `{asked}` also needs tls.client_ca")]
        );
        let (_folder, sources) =
            Folder::with(&format!("[tls]\nclient_auth = \"{asked}\"\nclient_ca = \"c\"\n"));
        sources.load().unwrap();
    }
    for silent in ["auto", "none"] {
        let (_folder, sources) = Folder::with(&format!("[tls]\nclient_auth = \"{silent}\"\n"));
        sources.load().unwrap();
    }
}

#[test]
fn wrong_values_of_gearman_are_named() {
    assert_eq!(
        messages(
            "[gearman]\nround_robin = 1\njob_retries = 256\nhandle_prefix = \"a b\"\n\
             [limits]\ngearman_packet_size = 100"
        ),
        [
            "lineshaft.toml:2:15: gearman.round_robin: `1` is neither `true` nor `false`",
            "lineshaft.toml:3:15: gearman.job_retries: `256` is not a number from 0 (no limit) to 255",
            "lineshaft.toml:4:17: gearman.handle_prefix: `a b` is neither `auto` nor 1 to 46 characters without spaces",
            "lineshaft.toml:6:23: limits.gearman_packet_size: `100` is not a size from 8KiB to 1GiB",
        ]
    );
}

#[test]
fn broken_toml_is_named_by_line_and_column() {
    let found = messages("io_threads = 1\n[data\n");
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("lineshaft.toml:2:6: "), "{found:?}");
}

#[test]
fn a_misspelt_variable_is_found_and_a_tools_own_is_left_alone() {
    let environment = vec![
        variable("LINESHAFT_SERVER", "127.0.0.1:1"),
        variable("LINESHAFT_DATA_SNYC", "never"),
        variable("LINESHAFT_IO_THREADS", "x"),
    ];
    let sources = Sources { environment, ..Sources::default() };
    assert_eq!(
        sources.load().unwrap_err().to_string(),
        "LINESHAFT_DATA_SNYC: no such setting; did you mean LINESHAFT_DATA_SYNC?\n\
         environment LINESHAFT_IO_THREADS: io_threads: `x` is not a number from 1 to 64"
    );
}

#[test]
fn variables_of_kubernetes_are_ignored() {
    let environment = [
        ("GEARMAN_SERVICE_HOST", "10.0.0.1"),
        ("GEARMAN_SERVICE_PORT", "4730"),
        ("GEARMAN_SERVICE_PORT_JOBS", "4730"),
        ("KESTREL_PORT", "tcp://10.0.0.1:22133"),
        ("KESTREL_PORT_22133_TCP", "tcp://10.0.0.1:22133"),
        ("METRICS_PORT_7300_TCP_ADDR", "10.0.0.1"),
        ("METRICS_PORT_7300_TCP_PORT", "7300"),
        ("METRICS_PORT_7300_TCP_PROTO", "tcp"),
    ];
    let environment =
        environment.map(|(name, value)| variable(&format!("LINESHAFT_{name}"), value)).to_vec();
    let sources = Sources { environment, ..Sources::default() };
    assert_eq!(sources.load().unwrap().config, Config::default());
    // No setting looks like a variable of Kubernetes.
    for setting in settings() {
        let suffix = variable_suffix(setting.key);
        assert!(!is_of_kubernetes(&suffix, "tcp://10.0.0.1:4730"), "{suffix}");
    }
}

#[test]
fn a_port_that_a_person_sets_is_not_ignored() {
    let environment = vec![variable("LINESHAFT_GEARMAN_PORT", "4731")];
    let Mistakes(mistakes) = Sources { environment, ..Sources::default() }.load().unwrap_err();
    assert!(mistakes[0].message.starts_with("no such setting"), "{}", mistakes[0].message);
}

#[test]
fn a_variable_that_resembles_a_setting_is_a_mistake_and_those_of_tools_are_none() {
    let misspelt = [
        ("IO_THREAD", "IO_THREADS"),
        ("DATADIR", "DATA_DIR"),
        ("SERVR", "SERVER"),
        ("CONFG", "CONFIG"),
    ];
    for (name, meant) in misspelt {
        let environment = vec![variable(&format!("LINESHAFT_{name}"), "4")];
        let Mistakes(mistakes) = Sources { environment, ..Sources::default() }.load().unwrap_err();
        let message = format!("no such setting; did you mean LINESHAFT_{meant}?");
        assert_eq!(mistakes[0].message, message);
    }
    let of_tools = ["SERVER", "QUEUE", "JOB_ID", "ATTEMPT", "UNIQUE", "REDUCER", "CONFIG"];
    let of_tests = ["SEED", "SEEDS", "BIN", "DURABLE", "ROUNDS", "CASE", "REQUIRE_TOOLS"];
    for name in of_tools.into_iter().chain(of_tests) {
        let environment = vec![variable(&format!("LINESHAFT_{name}"), "4")];
        Sources { environment, ..Sources::default() }.load().unwrap();
    }
}

#[test]
fn the_usual_file_may_come_later_and_must_stay_then() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(DEFAULT_FILE);
    let mut sources = Sources { usual_file: Some(file.clone()), ..Sources::default() };
    assert_eq!(sources.load_and_keep().unwrap().file, None);
    std::fs::write(&file, "io_threads = 7").unwrap();
    let effective = sources.load_and_keep().unwrap();
    assert_eq!((effective.config.io_threads, effective.file), (7, Some(file.clone())));
    std::fs::remove_file(&file).unwrap();
    assert!(sources.load_and_keep().unwrap_err().to_string().contains("cannot read"));
}

#[test]
fn a_section_that_is_written_otherwise_is_explained() {
    for (text, column) in
        [("messages = \"debug\"", 1), ("[[messages]]\nlevel = \"debug\"", 3), ("messages = 3", 1)]
    {
        let wanted = "`messages` is a section: write [messages], and its keys below";
        assert_eq!(messages(text), [format!("lineshaft.toml:1:{column}: {wanted}")]);
    }
}

#[test]
fn the_section_log_still_means_messages() {
    let (_folder, mut sources) = Folder::with("[log]\nformat = \"json\"\n");
    sources.environment = vec![variable("LINESHAFT_LOG_LEVEL", "debug")];
    let effective = sources.load().unwrap();
    assert_eq!(effective.config.messages.format, MessageFormat::Json);
    assert_eq!(effective.config.messages.level, tracing::Level::DEBUG);
    assert!(effective.show().contains("[messages]\n") && !effective.show().contains("[log]"));
    for (text, wanted) in [
        ("[log]\nlevle = 1", "2:1: unknown key `log.levle`; did you mean `messages.level`?"),
        ("log = 3", "1:1: `log` is a section: write [messages], and its keys below"),
    ] {
        assert_eq!(messages(text), [format!("lineshaft.toml:{wanted}")]);
    }
}

#[test]
fn a_key_and_its_old_name_are_not_both_set() {
    let text = "[log]\nlevel = \"info\"\n[messages]\nlevel = \"warn\"\n";
    let found = messages(text);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("lineshaft.toml:4:9: messages.level: already set at "));
    let (_folder, mut sources) = Folder::with("[log]\nlevel = \"info\"\n");
    sources.environment = vec![variable("LINESHAFT_MESSAGES_LEVEL", "warn")];
    let config = sources.load().expect("the environment wins over the file").config;
    assert_eq!(config.messages.level, tracing::Level::WARN);
    sources.environment.push(variable("LINESHAFT_LOG_LEVEL", "warn"));
    assert!(sources.load().is_err(), "but not over itself");
}

#[test]
fn a_number_is_no_name() {
    let text = "[data]\ndir = 5\n[gearman]\nhandle_prefix = true\n";
    let wanted = [
        "lineshaft.toml:2:7: data.dir: cannot be of type integer",
        "lineshaft.toml:4:17: gearman.handle_prefix: cannot be of type boolean",
    ];
    assert_eq!(messages(text), wanted);
    let text = "[[policy]]\nmatch = \"q\"\nexpire_to = 5\nalias = [\"a\", 3]\n";
    let wanted = [
        "lineshaft.toml:3:13: policy.expire_to: cannot be of type integer",
        "lineshaft.toml:4:9: policy.alias: cannot be of type array",
    ];
    assert_eq!(messages(text), wanted);
}

#[test]
fn a_reader_has_some_time_to_read() {
    let wanted = "lineshaft.toml:2:15: limits.unsent_time: `0ms` must be greater than zero";
    assert_eq!(messages("[limits]\nunsent_time = \"0ms\""), [wanted]);
}

#[test]
fn lists_of_the_environment_are_parted_by_commas() {
    let environment = vec![variable("LINESHAFT_LISTEN_BEANSTALK", "a:1, b:2")];
    let sources = Sources { environment, ..Sources::default() };
    assert_eq!(sources.load().unwrap().config.listen.of(Protocol::Beanstalk).len(), 2);
}

#[test]
fn shown_settings_can_be_read_again() {
    let (_folder, sources) = Folder::with(
        "[listen]\nbeanstalk = [\"a:1\", \"b:2\"]\n[limits]\nconnections = 7\n[data]\nmax_bytes = \"5MiB\"\n",
    );
    let effective = sources.load().unwrap();
    let (_folder, again) = Folder::with(&effective.show());
    assert_eq!(again.load().unwrap().config, effective.config);
    let (_folder, defaults) = Folder::with(&Sources::default().load().unwrap().show());
    assert_eq!(defaults.load().unwrap().config, Config::default());
}

#[test]
fn a_configuration_with_mistakes_has_its_other_values() {
    let (_folder, sources) = Folder::with("io_threads = 0\n[data]\ndir = \"/d\"\n");
    let (effective, Mistakes(mistakes)) = sources.load_with_mistakes();
    assert_eq!((effective.unwrap().config.data.dir, mistakes.len()), (PathBuf::from("/d"), 1));

    let (_folder, broken) = Folder::with("[data]\ndir = \"/d\"\n[data\n");
    let missing = Sources { file: Some("/no/such/file.toml".into()), ..Sources::default() };
    for sources in [broken, missing] {
        let (effective, Mistakes(mistakes)) = sources.load_with_mistakes();
        assert!(effective.is_none(), "all values are unknown");
        assert_eq!(mistakes.len(), 1);
    }
    let (effective, Mistakes(mistakes)) = Sources::default().load_with_mistakes();
    assert_eq!((effective.unwrap().config, mistakes), (Config::default(), Vec::new()));
}

#[test]
fn a_missing_file_is_a_mistake() {
    let sources = Sources { file: Some("/no/such/file.toml".into()), ..Sources::default() };
    assert!(sources.load().unwrap_err().to_string().starts_with("/no/such/file.toml: cannot read"));
}

#[test]
fn a_configuration_file_can_be_a_device_but_has_a_bound() {
    let load = |file: &str| Sources { file: Some(file.into()), ..Sources::default() }.load();
    assert_eq!(load("/dev/null").unwrap().config, Config::default());
    let error = load("/dev/zero").unwrap_err().to_string();
    assert!(error.starts_with("/dev/zero: cannot read: it is larger than 16MiB"), "{error}");
}

/// The example contains all keys. Only one key is set. All other keys are comments with the default
/// value, so the test first removes the comment signs.
#[test]
fn the_example_file_has_every_key_with_its_default() {
    let example = include_str!("../../../../../packaging/lineshaft.toml");
    let is_prose = |line: &str| line.starts_with("# ") || line == "#";
    let lines: Vec<&str> = example.lines().filter(|line| !is_prose(line)).collect();
    let (_folder, sources) = Folder::with(&lines.join("\n").replace("\n#", "\n"));
    let effective = sources.load().unwrap();
    for setting in settings() {
        let origin = effective.origin(setting.key);
        assert!(matches!(origin, Origin::File(..)), "{} is missing", setting.key);
    }
    // The example sets the mode of unix sockets. Otherwise the umask of the service would keep
    // other users from connecting.
    let mut config = effective.config;
    assert_eq!(config.listen.unix_mode.take(), Some(0o666));
    let io_threads = Config::default().io_threads;
    assert_eq!(Config { io_threads, ..config }, Config::default());
    let service = include_str!("../../../../../packaging/systemd/lineshaft.service");
    assert!(!service.contains("UNIX_MODE"), "it would win over the file");
}

#[test]
fn shown_settings_can_have_any_characters() {
    for text in ["a\u{7f}b", "\u{1}", "\"\\", "\n\t"] {
        let shown = format!("key = {}", crate::config::settings::quote(text));
        let read = toml::de::DeTable::parse(&shown).unwrap();
        assert_eq!(read.get_ref()["key"].get_ref().as_str(), Some(text), "{shown}");
    }
}

#[test]
fn the_critical_limit_of_the_disk_is_not_above_the_other_one() {
    let read = |disk: &str| messages(&format!("[disk]\n{disk}"));
    let error = "lineshaft.toml:2: disk.critical: must not be above disk.low, which is";
    assert_eq!(read("critical = \"11%\"\n"), [format!("{error} \"10%\"; raise disk.low")]);
    let both = "critical = \"2GiB\"\nlow = \"1GiB\"\n";
    assert_eq!(read(both), [format!("{error} \"1GiB\"; raise disk.low")]);
    for right in ["critical = \"10%\"", "critical = \"50%\"\nlow = \"off\"", "critical = \"5GiB\""]
    {
        let (_folder, sources) = Folder::with(&format!("[disk]\n{right}\n"));
        assert!(sources.load().is_ok(), "{right}");
    }
}

#[test]
fn traces_need_a_pointer_and_a_collector() {
    let read = |traces: &str| messages(&format!("[traces]\n{traces}"));
    let both = "pointer = \"/meta/traceparent\"\nendpoint = \"http://[::1]:4318/v1/traces\"\n";
    let (_folder, sources) = Folder::with(&format!("[traces]\n{both}"));
    let pointer = sources.load().unwrap().config.traces.pointer.unwrap();
    assert_eq!(pointer.text(), "/meta/traceparent");
    assert_eq!(
        read("pointer = \"/traceparent\"\n"),
        ["lineshaft.toml:2: traces.pointer also needs traces.endpoint"]
    );
    assert_eq!(
        read("endpoint = \"http://collector\"\n"),
        ["lineshaft.toml:2: traces.endpoint also needs traces.pointer"]
    );
    for wrong in ["traceparent", "", "/a~2", "/a~"] {
        let all = read(&format!("pointer = \"{wrong}\"\n"));
        assert!(all[0].contains(&format!("`{wrong}` is not `off` or a JSON pointer")), "{all:?}");
    }
    for wrong in [
        "https://collector/v1/traces",
        "collector:4318",
        "/v1/traces",
        "http://",
        "http://collector:65536/v1/traces",
        "http://collector:0/v1/traces",
        "http://collector:/v1/traces",
    ] {
        let all = read(&format!("endpoint = \"{wrong}\"\n"));
        assert!(all[0].contains(&format!("`{wrong}` is not `off` or a URL")), "{all:?}");
    }
    let all = read("endpoint = \"http://ann:secret@collector/v1/traces\"\n");
    assert!(all[0].contains("no password") && !all[0].contains("secret"), "{all:?}");
    for (written, full) in [
        ("http://collector", "http://collector/v1/traces"),
        ("http://[::1]:65535/", "http://[::1]:65535/v1/traces"),
        ("http://collector/otlp?a=b", "http://collector/otlp?a=b"),
    ] {
        let text = format!("[traces]\npointer = \"/a\"\nendpoint = \"{written}\"\n");
        let (_folder, sources) = Folder::with(&text);
        let endpoint = sources.load().unwrap().config.traces.endpoint.unwrap();
        assert_eq!(endpoint.to_string(), full);
    }
}

/// A column is a number of characters, not of bytes, as in editors.
#[test]
fn a_column_counts_characters() {
    let text = "data = { dir = \"é\", x = 1 }";
    assert_eq!(messages(text)[0].split(": ").next(), Some("lineshaft.toml:1:21"));
}

#[test]
fn a_node_of_a_cluster_needs_its_servers() {
    let read = |cluster: &str| messages(&format!("[cluster]\n{cluster}"));
    let servers = "nats = [\"nats://a:4222\", \"tls://b\"]\n";
    let monitor = "nats_monitor = [\"http://a:8222\"]\n";
    let keys = "ca = \"ca.pem\"\ncertificate = \"node.pem\"\nkey = \"node.key\"\n";
    let (_folder, sources) =
        Folder::with(&format!("[cluster]\nname = \"north-1\"\n{servers}{monitor}{keys}"));
    let cluster = sources.load().unwrap().config.cluster;
    assert_eq!(cluster.name.as_deref(), Some("north-1"));
    assert_eq!(cluster.nats, ["nats://a:4222", "tls://b"]);
    assert!(sources.load().unwrap().show().contains("name = \"north-1\""));
    assert_eq!(
        read(&format!("name = \"a\"\n{monitor}")),
        ["lineshaft.toml:2: cluster.name: a cluster also needs cluster.nats"]
    );
    let unchecked = read(&format!("name = \"a\"\n{servers}"));
    assert!(unchecked[0].contains("needs cluster.nats_monitor"), "{unchecked:?}");
    let without_keys = read(&format!("name = \"a\"\n{servers}{monitor}"));
    assert!(without_keys[0].contains("needs cluster.ca"), "{without_keys:?}");
    let any = format!("name = \"a\"\n{servers}{monitor}{keys}listen = \"0.0.0.0:7301\"\n");
    assert!(read(&any)[0].contains("need cluster.advertise"));
    let never = format!("name = \"a\"\n{servers}{monitor}{keys}[data]\nsync = \"never\"\n");
    assert!(read(&never)[0].contains("data.sync: a node of a cluster needs `always` or a time"));
    assert_eq!(
        read(servers),
        ["lineshaft.toml:2: cluster.nats: without cluster.name, the server is alone"]
    );
    for wrong in ["name = \"a b\"", "name = \"\"", "nats = [\"a:4222\"]", "lease = \"100ms\""] {
        assert_eq!(read(&format!("{wrong}\n")).len(), 1, "{wrong}");
    }
}
