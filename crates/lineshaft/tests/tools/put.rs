//! Tests `lineshaft put`.

use std::io::{BufRead, Read, Write};
use std::net::{Ipv4Addr, TcpListener};

use rustix::process::Signal;
use testkit::process::Program;
use testkit::process::free_port;
use testkit::tls::certificates::Authority;

use super::{LINESHAFT, Tool, World, wait_until};

fn bodies(world: &World, queue: &str) -> Vec<String> {
    let mut client = world.client(queue);
    let mut bodies = Vec::new();
    while let Some(job) = client.reserve(0).unwrap() {
        bodies.push(String::from_utf8(job.body).unwrap());
    }
    bodies
}

#[test]
fn each_argument_is_a_job() {
    for world in World::each() {
        let output = world.run_well(&["put", "mail", "to=ann", "", "to=bob"], b"");
        assert!(output.stderr.starts_with("3 jobs put into mail (ids 1…3) in 0."), "{output:?}");
        assert_eq!(output.stdout, "");
        assert_eq!(bodies(&world, "mail"), ["to=ann", "", "to=bob"]);
        let output = world.run_well(&["put", "--ids", "--quiet", "mail", "x", "y"], b"");
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("4\n5\n", ""));
    }
}

#[test]
fn each_line_is_a_job() {
    for world in World::each() {
        world.run_well(&["put", "mail"], b"one\n\ntwo words\r\nlast");
        assert_eq!(bodies(&world, "mail"), ["one", "", "two words\r", "last"]);
        world.run_well(&["put", "none"], b"");
        assert_eq!(bodies(&world, "none"), [""; 0]);
    }
}

#[test]
fn a_person_gets_a_hint_about_typed_input() {
    for world in World::each() {
        for (command, told) in [
            ("put mail", "one job per line; end with Ctrl-D:"),
            ("put --whole mail", "the whole input is one job; end with Ctrl-D:"),
        ] {
            let Some(output) = world.run_on_terminal(command, b"two\nlines\n\x04") else { return };
            assert!(output.stdout.contains(told), "{output:?}");
        }
        assert_eq!(bodies(&world, "mail"), ["two", "lines", "two\nlines\n"]);
    }
}

#[test]
fn many_lines_go_through_the_window_in_order() {
    for world in World::each() {
        let numbers: Vec<String> = (1..=5_000).map(|number| number.to_string()).collect();
        let input = format!("line {}\n", numbers.join("\nline "));
        let output = world.run_well(&["put", "--ids", "mail"], input.as_bytes());
        assert!(output.stderr.starts_with("5,000 jobs put into mail (ids 1…5000)"), "{output:?}");
        assert_eq!(output.stdout, numbers.join("\n") + "\n");
        assert_eq!(world.client("mail").reserve(0).unwrap().unwrap().body, b"line 1");
    }
}

#[test]
fn a_whole_input_is_one_job() {
    for world in World::each() {
        world.run_well(&["put", "--whole", "orders"], b"{\n  \"id\": 7\n}\n");
        assert_eq!(bodies(&world, "orders"), ["{\n  \"id\": 7\n}\n"]);
        let file = world.path("addresses.txt");
        std::fs::write(&file, "ann\nbob\n").unwrap();
        world.run_well(&["put", "--file", &file, "mail"], b"");
        assert_eq!(bodies(&world, "mail"), ["ann", "bob"]);
        world.run_well(&["put", "--whole", "--file", &file, "whole"], b"");
        assert_eq!(bodies(&world, "whole"), ["ann\nbob\n"]);
    }
}

#[test]
fn jobs_get_the_chosen_schedule() {
    for world in World::each() {
        world.run_well(&["put", "--priority", "7", "--delay", "1h", "--ttr", "2m", "q", "x"], b"");
        world.run_well(&["put", "q", "x"], b"");
        let values = |id: u64| {
            ["pri", "delay", "ttr", "state"].map(|key| world.stat(&format!("stats-job {id}"), key))
        };
        assert_eq!(values(1), ["7", "3600", "120", "delayed"]);
        assert_eq!(values(2), ["1024", "0", "60", "ready"]);
    }
}

#[test]
fn a_line_is_put_before_the_next_one_is_there() {
    for world in World::each() {
        let mut tool = world.start(&["put", "--ids", "log"]);
        let mut input = tool.child.stdin.take().unwrap();
        for ids in ["1\n", "1\n2\n", "1\n2\n3\n"] {
            input.write_all(b"something happened\n").unwrap();
            wait_until("the id", || tool.printed("stdout") == ids);
        }
        drop(input);
        assert!(tool.wait().status.success());
    }
}

#[test]
fn a_line_over_the_limit_is_named_and_the_others_are_in() {
    for world in World::each() {
        let big = "x".repeat(70_000);
        let input = format!("one\n{big}\nthree\n");
        let output = world.run(&["put", "--ids", "mail"], input.as_bytes());
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stderr.contains("2 jobs put into mail (ids 1…2)"), "{output:?}");
        assert!(
            output.stderr.contains("line 2 refused: 70,000 bytes is more than the 65,535 bytes"),
            "{output:?}"
        );
        assert_eq!(output.stdout, "1\n\n2\n");
        assert_eq!(bodies(&world, "mail"), ["one", "three"]);
    }
}

#[test]
fn a_draining_server_is_named() {
    for world in World::each() {
        world.server().signal(Signal::USR1).unwrap();
        wait_until("draining", || world.stat("stats", "draining") == "true");
        let output = world.run(&["put", "mail", "x", "y"], b"");
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stderr.contains("0 jobs put into mail"), "{output:?}");
        assert!(
            output.stderr.contains("refused: the server is in drain mode (DRAINING)"),
            "{output:?}"
        );
        let stats = world.run_well(&["stats"], b"");
        assert!(stats.stdout.contains("draining"), "{stats:?}");
    }
}

#[test]
fn unread_ids_end_it_with_an_error() {
    for world in World::each() {
        let (mut tool, mut ids) = world.start_piped(&["put", "--ids", "log"]);
        let mut input = tool.child.stdin.take().unwrap();
        input.write_all(b"one\n").unwrap();
        let mut id = String::new();
        ids.read_line(&mut id).unwrap();
        assert_eq!(id, "1\n");
        drop(ids);
        // The input stays open. So the test would notice a tool that waits for the input's end.
        input.write_all(b"two\n").unwrap();
        let output = tool.wait();
        drop(input);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stderr.starts_with("2 jobs put into log (ids 1…2) in "), "{output:?}");
        let reason =
            "lineshaft: cannot print the ids; lines after 2 may or may not be in the queue: ";
        assert!(output.stderr.contains(reason), "{output:?}");
    }
}

#[test]
fn an_interrupt_ends_it_while_it_waits_for_input() {
    for world in World::each() {
        for (queue, form) in [("json", "--json"), ("ids", "--ids"), ("quiet", "--quiet")] {
            let mut tool = world.start(&["put", form, queue]);
            let mut input = tool.child.stdin.take().unwrap();
            input.write_all(b"one\n").unwrap();
            let tube = format!("stats-tube {queue}");
            wait_until("the job", || world.stat(&tube, "current-jobs-ready") == "1");
            tool.signal(Signal::INT);
            let output = tool.wait();
            drop(input);
            assert_eq!(output.status.code(), Some(130), "{form}: {output:?}");
            let rest = "lineshaft: interrupted; jobs in flight may be in the queue, too\n";
            assert!(output.stderr.ends_with(rest), "{form}: {output:?}");
            let has_summary = output.stdout.starts_with('{') && output.stdout.contains("\"put\":");
            assert_eq!(has_summary, form == "--json", "{form}: {output:?}");
        }
    }
}

#[test]
fn a_server_that_goes_away_is_noticed_while_the_input_is_idle() {
    for mut world in World::each() {
        let mut tool = world.start(&["put", "--ids", "log"]);
        let mut input = tool.child.stdin.take().unwrap();
        input.write_all(b"one\n").unwrap();
        wait_until("the id", || tool.printed("stdout") == "1\n");
        // The server is stopped, so the second line is sent but gets no reply.
        world.server().signal(Signal::STOP).unwrap();
        input.write_all(b"two\n").unwrap();
        world.end();
        let output = tool.wait();
        drop(input);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stderr.starts_with("1 job put into log (id 1) in "), "{output:?}");
        let gone =
            "lineshaft: no answer to line 2; it and later ones may or may not be in the queue: ";
        assert!(output.stderr.contains(gone), "{output:?}");
    }
}

#[test]
fn an_absent_server_is_one_clear_line() {
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    for arguments in [&["put", "mail", "x"][..], &["work", "mail", "--", "true"], &["stats"]] {
        let output = Tool::start(&address, arguments).wait();
        assert_eq!(output.status.code(), Some(1));
        let expected = format!(
            "lineshaft: cannot connect to {address}: connection refused; is the server running? start \
             it with `lineshaft serve`\n"
        );
        assert_eq!(output.stderr, expected);
    }
}

#[test]
fn another_kind_of_server_is_recognised() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 100]).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let output = Tool::start(&address, &["put", "mail", "x"]).wait();
    server.join().unwrap();
    assert_eq!(
        output.stderr,
        "lineshaft: not a beanstalkd server: it answered `HTTP/1.1 400 Bad Request`\n"
    );
}

#[test]
fn a_listener_of_tls_is_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority").unwrap();
    let identity = authority.issue("server").unwrap();
    let memory = ["--memory"];
    for program in
        [Program::serve(LINESHAFT, &memory), Program::serve_on(&["gearman"], LINESHAFT, &memory)]
    {
        let server = program.with_tls(&identity).start().unwrap();
        let address = server.address().to_string();
        for (protocol, name) in [("beanstalk", "beanstalkd"), ("gearman", "Gearman")] {
            let put = ["put", "--protocol", protocol, "mail", "x"];
            let output = Tool::start(&address, &put).wait();
            assert_eq!(output.status.code(), Some(1));
            let begin = format!("lineshaft: not a {name} server: it answered `\\x15\\x03");
            assert!(output.stderr.starts_with(&begin), "{output:?}");
            let hint = "; it seems to speak TLS: write tls: before its address\n";
            assert!(output.stderr.ends_with(hint), "{output:?}");
        }
    }
}

#[test]
fn impossible_queue_names_are_refused() {
    for world in World::each() {
        let spaces = world.run(&["put", "my mail", "x"], b"");
        assert!(spaces.stderr.contains("`my mail` is not a valid queue name"), "{spaces:?}");
        let odd = world.run(&["put", "-q", "--", "a:b", "x"], b"");
        assert!(odd.stderr.contains("the server refuses the queue name `a:b`"), "{odd:?}");
        assert_eq!(odd.status.code(), Some(1));
    }
}
