//! Tests the import of gearmand's sqlite table.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use testkit::process::{Program, Server};
use testkit::tools;

use super::{all, done, exported, path, run, serve};

const SUBMIT_JOB_BG: u32 = 18;
const SUBMIT_JOB_HIGH_BG: u32 = 32;
const SUBMIT_JOB_LOW_BG: u32 = 34;
const SUBMIT_JOB_EPOCH: u32 = 36;

/// A time far in the future.
const LATE_S: u64 = 4_102_444_800;

/// The original with its queue in this file. `None` if the original is not installed.
fn original(file: &Path) -> Option<Program> {
    let program = tools::find_or_skip("/usr/sbin/gearmand")?;
    let file = file.to_str().unwrap();
    let arguments =
        ["-l", "stderr", "-P", "gearmand.pid", "-q", "libsqlite3", "--libsqlite3-db", file];
    Some(Program::like_gearmand(program, &arguments))
}

/// Submits a job, and waits for its handle.
fn submit(stream: &mut TcpStream, kind: u32, arguments: &[&[u8]]) {
    let body = arguments.join(&0);
    let head = [b"\0REQ", &kind.to_be_bytes()[..], &(body.len() as u32).to_be_bytes()].concat();
    stream.write_all(&[head, body].concat()).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[..8], *b"\0RES\0\0\0\x08", "a job was created");
    let len = u32::from_be_bytes(*head.last_chunk().unwrap());
    stream.read_exact(&mut vec![0; len as usize]).unwrap();
}

fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address()).unwrap()
}

/// Submits many jobs, and large jobs, so that the table has all kinds of pages: interior pages and
/// overflow pages, too.
fn fill(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    submit(&mut stream, SUBMIT_JOB_BG, &[b"wc", b"normal", b"text"]);
    submit(&mut stream, SUBMIT_JOB_HIGH_BG, &[b"wc", b"high", b"bytes \xFF\0"]);
    submit(&mut stream, SUBMIT_JOB_LOW_BG, &[b"wc", b"low \xFE", b"x"]);
    let late = LATE_S.to_string();
    submit(&mut stream, SUBMIT_JOB_EPOCH, &[b"later", b"late", late.as_bytes(), b"y"]);
    submit(&mut stream, SUBMIT_JOB_BG, &[b"wc", b"empty", b""]);
    for number in 0..300_usize {
        let body = format!("{number:0>width$}", width = 10 + number * 40);
        let key = format!("key {number}");
        submit(&mut stream, SUBMIT_JOB_BG, &[b"many", key.as_bytes(), body.as_bytes()]);
    }
}

#[test]
fn background_jobs_of_the_original_come_with_all_their_facts() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let file = place.join("queue.db");
    let Some(program) = original(&file) else { return };
    let server = program.start().unwrap();
    fill(server.address());
    server.kill();

    let said = done(place, &["import", "gearmand", "queue.db"]);
    assert!(said.contains("Imported 305 jobs"), "{said}");
    let jobs = exported(place, "lineshaft-data");
    let of = |queue: &str| jobs.iter().filter(|job| job["queue"] == queue).cloned().collect();
    let wc: Vec<_> = of("wc");
    assert_eq!(all(&wc, "priority"), [1024_u64, 512, 3 << 30, 1024]);
    assert_eq!(all(&wc, "key")[..2], ["normal", "high"]);
    assert_eq!((&wc[0]["body"], &wc[1]["body_base64"]), (&"text".into(), &"Ynl0ZXMg/wA=".into()));
    assert_eq!((&wc[2]["key_base64"], &wc[3]["body"]), (&"bG93IP4=".into(), &"".into()));
    let later: Vec<_> = of("later");
    assert_eq!(all(&later, "state"), ["delayed"]);
    assert_eq!(all(&later, "due_ms"), [LATE_S * 1000]);
    assert_eq!(all(&later, "by_clock"), [true]);
    let many: Vec<_> = of("many");
    assert_eq!(many.len(), 300);
    for (number, job) in many.iter().enumerate() {
        assert_eq!(job["body"], format!("{number:0>width$}", width = 10 + number * 40));
    }

    // A submit with the key of an imported job joins this job.
    let server = serve(place, "lineshaft-data", &["gearman"]);
    submit(&mut connect(&server), SUBMIT_JOB_BG, &[b"wc", b"normal", b"other"]);
    submit(&mut connect(&server), SUBMIT_JOB_BG, &[b"wc", b"new", b"other"]);
    server.terminate().unwrap();
    assert_eq!(exported(place, "lineshaft-data").len(), 306);

    let said = done(place, &["import", "gearmand", "queue.db"]);
    assert!(said.contains("nothing to do"), "{said}");
    let said = done(place, &["import", "gearmand", "queue.db", "--again"]);
    assert!(said.contains("305 jobs: not imported: an unfinished job"), "{said}");
}

#[test]
fn a_file_of_the_original_is_taken_over_in_its_place() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let file = place.join("queue.db");
    let Some(program) = original(&file) else { return };
    let server = program.start().unwrap();
    submit(&mut connect(&server), SUBMIT_JOB_BG, &[b"wc", b"k", b"text"]);
    server.kill();
    let flags = ["gearmand", "-l", "stderr", "-P", "gearmand.pid", "-q", "libsqlite3"];
    let replacement = Program::like_gearmand(path(), &flags)
        .with(&["--libsqlite3-db".as_ref(), file.as_os_str()]);
    let refused = replacement.run_on(0).unwrap();
    let (_, advice) = refused.stderr.split_once("run: lineshaft ").expect("a way out is named");
    let advice: Vec<&str> = advice.split_whitespace().collect();
    done(place, &advice);
    assert!(place.join("imported/queue.db").exists() && !file.exists());
    let server = replacement.start().unwrap();
    let mut stream = connect(&server);
    stream.write_all(b"status\n").unwrap();
    let mut reply = [0; 11];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"wc\t1\t0\t0\n.\n");
}

#[test]
fn damaged_and_foreign_files_are_named() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::write(place.join("text"), "nothing\n").unwrap();
    let (code, said) = run(place, &["import", "gearmand", "text"]);
    assert!(code == 1 && said.contains("unique_key"), "{code} {said}");
    assert!(!place.join("lineshaft-data").exists());

    let file = place.join("queue.db");
    let Some(program) = original(&file) else { return };
    let server = program.start().unwrap();
    fill(server.address());
    server.kill();
    let (code, said) = run(place, &["import", "gearmand", "queue.db", "--table", "other"]);
    assert!(code == 1 && said.contains("the tables are: gearman_queue"), "{code} {said}");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..].fill(0xEE);
    fs::write(&file, bytes).unwrap();
    let (code, said) = run(place, &["import", "gearmand", "queue.db"]);
    assert!(code == 65 && said.contains("queue.db at offset"), "{code} {said}");
    let jobs = exported(place, "lineshaft-data").len();
    assert!((50..305).contains(&jobs), "{jobs} jobs are left");
}

#[test]
fn a_dump_of_another_database_is_taken() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let dump = "unique_key,function_name,priority,data,when_to_run\n\
                k1,wc,0,\\x6869,0\n,\"a,b\",2,\"two\nlines\",0\nbroken\n";
    fs::write(place.join("dump.csv"), dump).unwrap();
    let (code, said) = run(place, &["import", "gearmand", "dump.csv"]);
    assert!(code == 65 && said.contains("dump.csv in line 5"), "{code} {said}");
    let jobs = exported(place, "lineshaft-data");
    assert_eq!(all(&jobs, "queue"), ["a,b", "wc"]);
    assert_eq!(all(&jobs, "body"), ["two\nlines", "hi"]);
}
