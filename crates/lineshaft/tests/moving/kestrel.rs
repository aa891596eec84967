//! Tests the import of Kestrel's journals.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use testkit::process::{Program, Server, free_port};

use super::{all, done, exported, path, run, serve};

/// The journal's record of an added item.
fn add(data: &str, created_ms: u64, expires_ms: u64) -> Vec<u8> {
    let size = (16 + data.len() as i32).to_le_bytes();
    let times = [created_ms.to_le_bytes(), expires_ms.to_le_bytes()].concat();
    [&[2], &size[..], &times, data.as_bytes()].concat()
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// Sends memcache commands, then `quit`. Returns all replies.
fn ask(server: &Server, commands: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(format!("{commands}quit\r\n").as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

fn fill(folder: &Path) {
    fs::create_dir(folder).unwrap();
    let write = |name: &str, records: &[Vec<u8>]| {
        fs::write(folder.join(name), records.concat()).unwrap();
    };
    let now = now_ms();
    let open = [&[9][..], &1_i32.to_le_bytes()].concat();
    write("news.100", &[add("not read", now, 0)]);
    write("news.200.pack", &[add("taken", now, 0), add("one", now - 5000, 0)]);
    write("news.300", &[vec![1], add("two", now - 4000, 0)]);
    write("news", &[open, add("three", now - 3000, now + 3_600_000)]);
    write("news+archive", &[add("copy", now - 2000, 0), add("over", now - 2000, now - 1000)]);
    write("news+empty", &[]);
}

#[test]
fn items_come_in_their_order_and_children_stay_children() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fill(&place.join("old"));
    let said = done(place, &["import", "kestrel", "old"]);
    assert!(said.contains("Imported 5 jobs"), "{said}");
    let jobs = exported(place, "lineshaft-data");
    assert_eq!(all(&jobs, "body"), ["one", "two", "three", "copy", "over"]);
    let left_ms = jobs[2]["expires_ms"].as_u64().unwrap() - now_ms();
    assert!((3_000_000..3_600_000).contains(&left_ms), "it expires in {left_ms} ms");
    let said = done(place, &["export", "news+empty"]);
    assert!(said.contains("0 jobs written"), "the folder knows the empty queue: {said}");
    let age_ms = now_ms() - jobs[0]["created_ms"].as_u64().unwrap();
    assert!(age_ms >= 5000, "the age is {age_ms} ms");

    let server = serve(place, "lineshaft-data", &["kestrel"]);
    assert_eq!(ask(&server, "get news\r\n"), "VALUE news 0 3\r\none\r\nEND\r\n");
    let said = ask(&server, "set news 0 0 4\r\nmore\r\nget news+empty\r\nget news\r\nget news\r\n");
    let wanted = [
        "STORED\r\n",
        "VALUE news+empty 0 4\r\nmore\r\nEND\r\n",
        "VALUE news 0 3\r\ntwo\r\nEND\r\n",
        "VALUE news 0 5\r\nthree\r\nEND\r\n",
    ];
    assert_eq!(said, wanted.concat());
    let said = ask(&server, "get news+archive\r\nget news+archive\r\nget news+archive\r\n");
    let [copy, more] = [("copy", 4), ("more", 4)]
        .map(|(item, len)| format!("VALUE news+archive 0 {len}\r\n{item}\r\nEND\r\n"));
    assert_eq!(said, format!("{copy}{more}END\r\n"), "what is over is not handed out");
}

#[test]
fn a_folder_of_the_original_is_taken_over_in_its_place() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let old = place.join("old");
    fill(&old);
    let flags = ["kestrel", "--listen", "127.0.0.1", "--text-port", "off", "--thrift-port", "off"];
    let port = free_port().unwrap();
    let port_text = port.to_string();
    let rest = ["--admin-port", "off", "--port", &port_text, "--data", old.to_str().unwrap()];
    let replacement = Program::like_beanstalkd(path(), &[&flags[..], &rest].concat());
    let refused = replacement.run().unwrap();
    let (_, advice) = refused.stderr.split_once("run: lineshaft ").expect("a way out is named");
    let (advice, _) = advice.split_once(';').unwrap();
    let advice: Vec<&str> = advice.split_whitespace().collect();
    let said = done(place, &advice);
    assert!(said.contains("Moved 6 files"), "{said}");
    // `news.100` moved, too: without its pack, it would be a journal with an item.
    assert_eq!(fs::read_dir(old.join("imported")).unwrap().count(), 6);
    let server = replacement.start_at((Ipv4Addr::LOCALHOST, port).into()).unwrap();
    assert_eq!(ask(&server, "get news\r\n"), "VALUE news 0 3\r\none\r\nEND\r\n");
}

#[test]
fn a_source_in_the_data_folder_is_the_same_after_a_server_has_used_the_folder() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fill(&place.join("old"));
    let import = ["import", "kestrel", "old", "--data", "old"];
    let said = done(place, &import);
    assert!(said.contains("Imported 5 jobs"), "{said}");
    // A killed server leaves more files than one that stops.
    serve(place, "old", &["kestrel"]).kill();
    let said = done(place, &import);
    assert!(said.contains("there is nothing to do"), "{said}");
}

#[test]
fn a_cut_journal_gives_its_whole_items() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::create_dir(place.join("old")).unwrap();
    let whole = add("whole", 1, 0);
    let bytes = [whole.clone(), add("cut off", 1, 0)].concat();
    fs::write(place.join("old/q"), &bytes[..bytes.len() - 1]).unwrap();
    let (code, said) = run(place, &["import", "kestrel", "old"]);
    let damage = format!("q at offset {}: ", whole.len());
    assert!(code == 65 && said.contains(&damage), "{code} {said}");
    assert_eq!(all(&exported(place, "lineshaft-data"), "body"), ["whole"]);
}
