//! Tests of the original's command line: forms of flags, their meanings, and error messages.

use super::*;

fn parsed(words: &[&str]) -> Result<Options, String> {
    let arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
    parse(&arguments)
}

fn options(line: &str) -> Options {
    let words: Vec<&str> = line.split_whitespace().collect();
    parsed(&words).unwrap_or_else(|message| panic!("{line}: {message}"))
}

fn wrong(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    parsed(&words).unwrap_err()
}

/// Writes a configuration file, and returns the flag that names the file. Dropping the returned
/// folder deletes the file.
fn config_file(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gearmand.conf");
    std::fs::write(&file, text).unwrap();
    let flag = format!("--config-file={}", file.display());
    (folder, flag)
}

#[test]
fn every_flag_has_a_name_of_its_own() {
    for (at, flag) in FLAGS.iter().enumerate() {
        for other in &FLAGS[at + 1..] {
            assert_ne!(flag.long, other.long);
            assert!(flag.short.is_none() || flag.short != other.short, "{}", flag.long);
        }
    }
}

#[test]
fn the_short_the_long_and_the_glued_form_mean_the_same() {
    let long = options(
        "--backlog=7 --file-descriptors 99 --job-retries=3 --log-file=none --listen 127.0.0.1 \
         --port=5 --pid-file /p --round-robin --queue-type=builtin --threads 2 --user me \
         --worker-wakeup=4",
    );
    let short = "-b 7 -f 99 -j 3 -l none -L 127.0.0.1 -p 5 -P /p -R -q builtin -t 2 -u me -w 4";
    assert_eq!(long, options(short));
    assert_eq!(long, options("-b7 -f99 -j3 -lnone -L127.0.0.1 -p5 -P/p -Rqbuiltin -t2 -ume -w4"));
    assert_eq!(long.backlog, Some(7));
    assert_eq!(long.file_descriptors, Some(99));
    assert_eq!((long.job_retries, long.worker_wakeup, long.threads), (3, 4, 2));
    assert!(options("-dR").daemon);
}

#[test]
fn numbers_are_taken_as_the_original_does() {
    assert_eq!(options("-j 300").job_retries, 255);
    assert_eq!(options("-j -1").job_retries, 255);
    assert_eq!(options("-b -5").backlog, None);
    let keepalive = options("--keepalive --keepalive-idle -1 --keepalive-count 3");
    assert_eq!((keepalive.keepalive_idle_s, keepalive.keepalive_count), (None, Some(3)));
    assert_eq!(wrong("-w 99999999999"), invalid("99999999999", "worker-wakeup"));
    assert_eq!(wrong("-t abc"), invalid("abc", "threads"));
    assert_eq!(wrong("-dfoo"), invalid("oo", "file-descriptors"));
}

fn invalid(value: &str, long: &str) -> String {
    format!("the argument ('{value}') for option '--{long}' is invalid")
}

#[test]
fn flags_that_the_original_refuses_are_refused_in_its_words() {
    assert_eq!(wrong("--bogus"), "unrecognised option '--bogus'");
    assert_eq!(wrong("--por=5"), "unrecognised option '--por=5'");
    assert_eq!(wrong("foo"), "unrecognised option 'foo'");
    assert_eq!(wrong("-v"), "unrecognised option '-v'");
    assert_eq!(wrong("-vvv"), "unrecognised option '-vvv'");
    assert_eq!(wrong("-"), "unrecognised option '-'");
    assert_eq!(wrong("-p"), "the required argument for option '--port' is missing");
    assert_eq!(wrong("-p 1 -p 2"), "option '--port' cannot be specified more than once");
    assert_eq!(wrong("--daemon=1"), "option '--daemon' does not take any arguments");
    assert_eq!(wrong("--verbose notice"), "Invalid value for --verbose supplied");
    assert_eq!(wrong("--hashtable-buckets 0"), "hashtable-buckets has to be greater than 0");
    assert_eq!(
        wrong("--port="),
        "the argument for option '--port' should follow immediately after the equal sign"
    );
}

#[test]
fn flags_of_plug_ins_are_accepted_and_remembered() {
    let options = options("--redis-server=h --libsqlite3-db /q --store-queue-on-shutdown");
    assert_eq!(options.ignored, ["redis-server", "store-queue-on-shutdown"]);
    assert_eq!(options.queue_file, Some("/q".into()));
}

#[test]
fn the_command_line_wins_over_the_file() {
    let (_folder, flag) = config_file("--port=1\n-R   --verbose INFO\n# words are passed over\n");
    let read = parsed(&[&flag, "-p", "3"]).unwrap();
    assert_eq!(read.port.as_deref(), Some("3"));
    assert!(read.round_robin);
    assert_eq!(read.verbosity, Verbosity::Info);
}

#[test]
fn mistakes_of_the_file_are_found() {
    let (_folder, flag) = config_file("--bogus");
    assert_eq!(parsed(&[&flag]), Err("unrecognised option '--bogus'".to_owned()));
    let missing = parsed(&["--config-file", "/no/such/file"]);
    assert_eq!(missing, Err("Could not open configuration file.".to_owned()));
}
