//! Tests `lineshaft stats`, `peek`, `kick`, `delete`, `pause` and `top`.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};

use super::{Tool, World};

#[test]
fn stats_show_the_server_and_its_queues() {
    for world in World::each() {
        world.run_well(&["put", "mail", "x", "y"], b"");
        let output = world.run_well(&["stats"], b"");
        let address = world.server().address().to_string();
        assert!(output.stdout.starts_with(&format!("{address}: version ")), "{output:?}");
        let row = output.stdout.lines().find(|line| line.starts_with("mail ")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells, ["mail", "2", "0", "0", "0", "0", "2", "0"]);
        let one = world.run_well(&["stats", "mail"], b"");
        assert!(one.stdout.contains("ready            2 (0 urgent)\n"), "{one:?}");
        let none = world.run(&["stats", "nothing"], b"");
        assert_eq!(none.status.code(), Some(1));
        assert!(none.stderr.contains("the server has no queue `nothing`"), "{none:?}");
    }
}

#[test]
fn stats_as_json_have_the_keys_of_the_protocol() {
    for world in World::each() {
        world.run_well(&["put", "mail", "x"], b"");
        let output = world.run_well(&["stats", "--json"], b"");
        let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(json["server"]["current-jobs-ready"], 1);
        let queues = json["queues"].as_array().unwrap();
        let names: Vec<&str> = queues.iter().map(|queue| queue["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["default", "mail"]);
        let one = world.run_well(&["stats", "--json", "mail"], b"");
        let json: serde_json::Value = serde_json::from_str(&one.stdout).unwrap();
        assert_eq!(json["current-jobs-ready"], 1);
    }
}

#[test]
fn peek_shows_a_body_as_it_is() {
    for world in World::each() {
        world.run_well(&["put", "--whole", "mail"], b"a\r\nb\n");
        world.run_well(&["put", "--delay", "1h", "mail", "later"], b"");
        let next = world.run_well(&["peek", "mail"], b"");
        assert_eq!(next.stdout, "a\r\nb\n");
        assert!(
            next.stderr.starts_with("job 1 in mail: ready, priority 1024, 5 bytes"),
            "{next:?}"
        );
        let delayed = world.run_well(&["peek", "-q", "mail", "--state", "delayed"], b"");
        assert_eq!((delayed.stdout.as_str(), delayed.stderr.as_str()), ("later", ""));
        let by_id = world.run_well(&["peek", "--id", "2"], b"");
        assert!(by_id.stderr.starts_with("job 2 in mail: delayed for 59 m"), "{by_id:?}");
        let buried = world.run(&["peek", "mail", "--state", "buried"], b"");
        assert_eq!(buried.status.code(), Some(1));
        assert_eq!(
            buried.stderr,
            "lineshaft: no job in mail is buried, but 1 ready (see --state ready) and 1 delayed (see \
         --state delayed)\n"
        );
        let json = world.run_well(&["peek", "mail", "--json"], b"").stdout;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["body"], &json["tube"]), (&"a\r\nb\n".into(), &"mail".into()));
        let nothing = world.run(&["peek", "nothing"], b"");
        assert_eq!(nothing.status.code(), Some(1));
        assert!(nothing.stderr.contains("the server has no queue `nothing`"), "{nothing:?}");
        let unknown = world.run(&["peek", "--id", "99"], b"");
        assert_eq!(unknown.stderr, "lineshaft: job 99 does not exist\n");
    }
}

#[test]
fn a_body_cannot_take_over_the_terminal() {
    for world in World::each() {
        world.run_well(&["put", "--whole", "mail"], b"\x1b[2J\x07a\tb\n");
        let piped = world.run_well(&["peek", "-q", "mail"], b"");
        assert_eq!(piped.stdout, "\x1b[2J\x07a\tb\n");
        let Some(output) = world.run_on_terminal("peek -q mail", b"") else { continue };
        assert_eq!(output.stdout, "\\x1b[2J\\x07a\tb\r\n");
    }
}

#[test]
fn kick_makes_jobs_ready() {
    for world in World::each() {
        let mut client = world.client("mail");
        for _ in 0..5 {
            let id = client.put(0, 0, 60, b"x").unwrap();
            client.reserve(0).unwrap().unwrap();
            client.expect(&format!("bury {id} 0"), "BURIED").unwrap();
        }
        client.put(0, 1_000, 60, b"delayed").unwrap();
        let kick =
            |arguments: &[&str]| world.run_well(&[&["kick"], arguments].concat(), b"").stdout;
        assert_eq!(kick(&["mail"]), "1 buried job kicked in mail, 4 left\n");
        assert_eq!(kick(&["--id", "5"]), "job 5 is ready\n");
        assert_eq!(kick(&["mail", "--count", "2"]), "2 buried jobs kicked in mail, 1 left\n");
        assert_eq!(
            kick(&["mail", "--all"]),
            "1 buried job kicked in mail\n",
            "not the delayed one"
        );
        let json = kick(&["mail", "--all", "--json"]);
        let done = r#"{"kicked":1,"left":0,"queue":"mail","state":"delayed"}"#;
        assert_eq!(json, format!("{done}\n"));
        let nothing = world.run(&["kick", "mail"], b"");
        assert_eq!(nothing.status.code(), Some(1));
        assert_eq!(nothing.stderr, "lineshaft: no job in mail is buried or delayed\n");
        let ready = world.run(&["kick", "--id", "5"], b"");
        assert_eq!(ready.stderr, "lineshaft: job 5 is ready; nothing to kick\n");
    }
}

#[test]
fn a_queue_or_an_id_is_wanted() {
    for world in World::each() {
        for tool in ["peek", "kick", "delete"] {
            let output = world.run(&[tool], b"");
            assert_eq!(output.status.code(), Some(2));
            assert!(output.stderr.contains("<QUEUE|--id <ID>>"), "{output:?}");
            let both = world.run(&[tool, "mail", "--id", "1"], b"");
            assert_eq!(both.status.code(), Some(2), "{both:?}");
        }
    }
}

#[test]
fn delete_removes_jobs_in_one_state() {
    for world in World::each() {
        let mut client = world.client("mail");
        for _ in 0..2 {
            let id = client.put(0, 0, 60, b"x").unwrap();
            client.reserve(0).unwrap().unwrap();
            client.expect(&format!("bury {id} 0"), "BURIED").unwrap();
        }
        world.run_well(&["put", "mail", "a", "b", "c"], b"");
        world.run_well(&["put", "--delay", "1h", "mail", "later"], b"");
        let delete =
            |arguments: &[&str]| world.run_well(&[&["delete"], arguments].concat(), b"").stdout;
        assert_eq!(
            delete(&["mail", "--state", "ready"]),
            "1 ready job deleted from mail, 2 left\n"
        );
        assert_eq!(world.run_well(&["peek", "-q", "mail"], b"").stdout, "b", "the first is gone");
        let buried = delete(&["mail", "--state", "buried", "--all"]);
        assert_eq!(buried, "2 buried jobs deleted from mail\n");
        let delayed = delete(&["mail", "-s", "delayed"]);
        assert_eq!(delayed, "1 delayed job deleted from mail\n");
        assert_eq!(delete(&["--id", "5"]), "job 5 is deleted\n");
        client.reserve(0).unwrap().unwrap();
        for (arguments, why) in [
            (&["mail", "--state", "ready", "--all"][..], "no job in mail is ready"),
            (&["--id", "4"], "a worker holds job 4; only that worker can delete it"),
            (&["--id", "5"], "job 5 does not exist"),
        ] {
            let output = world.run(&[&["delete"], arguments].concat(), b"");
            assert_eq!(output.status.code(), Some(1));
            assert_eq!(output.stderr, format!("lineshaft: {why}\n"));
        }
        // Without a state, the tool refuses to delete anything.
        for arguments in [&["delete", "mail"][..], &["delete"], &["delete", "mail", "--all"]] {
            assert_eq!(world.run(arguments, b"").status.code(), Some(2), "{arguments:?}");
        }
    }
}

#[test]
fn delete_goes_on_when_a_worker_was_quicker() {
    // The server's replies if another client takes the first of three jobs between the `peek` and
    // the `delete`.
    let looks = [
        ("use mail", "USING mail\r\n"),
        ("stats-tube mail", "OK 26\r\n---\ncurrent-jobs-ready: 3\n\r\n"),
        ("peek-ready", "FOUND 1 1\r\nx\r\n"),
        ("delete 1", "NOT_FOUND\r\n"),
        ("peek-ready", "FOUND 2 1\r\nx\r\n"),
        ("delete 2", "DELETED\r\n"),
    ];
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let mut asked = Vec::new();
        for (_, answer) in looks {
            let Some(line) = lines.next() else { break };
            asked.push(line.unwrap());
            stream.write_all(answer.as_bytes()).unwrap();
        }
        asked
    });
    let output = Tool::start(&address, &["delete", "mail", "--state", "ready"]).wait();
    assert_eq!(server.join().unwrap(), looks.map(|(question, _)| question));
    assert_eq!(output.stdout, "1 ready job deleted from mail, 1 left\n", "{output:?}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn pause_holds_the_jobs_of_a_queue_back() {
    for world in World::each() {
        world.run_well(&["put", "mail", "x"], b"");
        let pause = |time| world.run_well(&["pause", "mail", time], b"").stdout;
        assert_eq!(pause("1h"), "mail is paused for 1 h\n");
        let mut client = world.client("mail");
        assert!(client.reserve(0).unwrap().is_none());
        let stats = world.run_well(&["stats", "mail"], b"");
        assert!(stats.stdout.contains("paused           paused for 59 m"), "{stats:?}");
        let json = world.run_well(&["pause", "mail", "5m", "--json"], b"").stdout;
        assert_eq!(json, "{\"paused_s\":300,\"queue\":\"mail\"}\n");
        assert_eq!(pause("0"), "mail is no longer paused\n");
        assert!(client.reserve(10).unwrap().is_some());
        let nothing = world.run(&["pause", "nothing", "5s"], b"");
        assert_eq!(nothing.status.code(), Some(1));
        assert!(nothing.stderr.contains("the server has no queue `nothing`"), "{nothing:?}");
    }
}

#[test]
fn an_unread_output_is_no_failure() {
    for world in World::each() {
        let bench = ["bench", "put", "--count", "1", "--connections", "1", "--warm-up", "0"];
        for arguments in [
            &["config", "check"][..],
            &["config", "show"],
            &["policy", "show", "mail"],
            &bench,
            &[&bench[..], &["--json"]].concat(),
            &["stats"],
            &["pause", "mail", "1s"],
            &["kick", "mail"],
            &["kick", "--id", "3"],
            &["delete", "--id", "4"],
            &["delete", "mail", "--state", "delayed"],
        ] {
            world.run_well(&["put", "--quiet", "--delay", "1h", "mail", "x", "y"], b"");
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let server = world.server().address().to_string();
            let tool = Tool::start_writing_to(Some(writer.into()), &server, arguments);
            let output = tool.wait();
            assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
            assert_eq!(output.stderr, "", "{arguments:?}");
        }
    }
}

#[test]
fn top_needs_a_terminal() {
    for world in World::each() {
        let output = world.run(&["watch"], b"");
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stderr.contains("top needs a terminal"), "{output:?}");
    }
}

#[test]
fn queues_with_names_that_no_tube_has_are_counted() {
    let (world, beanstalk) = World::both_protocols();
    let stats = |format: &[&str]| {
        world.run_well(&[&["stats", "--server", &beanstalk], format].concat(), b"")
    };
    let put = |function: &str| {
        world.run_well(&["put", "--protocol", "gearman", function, "x"], b"");
    };
    put("mail");
    assert_eq!(stats(&[]).stderr, "");
    put("Image::resize");
    let note = "1 more queue has a name not allowed in the beanstalkd protocol; the server's \
                /metrics shows it\n";
    assert_eq!(stats(&[]).stderr, note);
    put("Image::crop");
    let json = stats(&["--json"]);
    assert!(json.stderr.starts_with("2 more queues have names not "), "{json:?}");
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["queues"].as_array().unwrap().len(), 2, "default and mail");
}
