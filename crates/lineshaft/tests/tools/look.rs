//! `lineshaft stats`, `peek`, `kick` and `watch`.

use super::World;

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
        let unknown = world.run(&["peek", "--id", "99"], b"");
        assert_eq!(unknown.stderr, "lineshaft: there is no job 99\n");
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
        assert_eq!(kick(&["mail", "--all"]), "1 delayed job kicked in mail\n");
        let nothing = world.run(&["kick", "mail"], b"");
        assert_eq!(nothing.status.code(), Some(1));
        assert_eq!(nothing.stderr, "lineshaft: no job in mail is buried or delayed\n");
        let ready = world.run(&["kick", "--id", "5"], b"");
        assert_eq!(ready.stderr, "lineshaft: job 5 is ready; nothing to kick\n");
    }
}

#[test]
fn peek_and_kick_want_a_queue_or_an_id() {
    for world in World::each() {
        for tool in ["peek", "kick"] {
            let output = world.run(&[tool], b"");
            assert_eq!(output.status.code(), Some(2));
            assert!(output.stderr.contains("<QUEUE|--id <ID>>"), "{output:?}");
            let both = world.run(&[tool, "mail", "--id", "1"], b"");
            assert_eq!(both.status.code(), Some(2), "{both:?}");
        }
    }
}

#[test]
fn watch_needs_a_terminal() {
    for world in World::each() {
        let output = world.run(&["watch"], b"");
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stderr.contains("watch needs a terminal"), "{output:?}");
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
    let note = "1 more queue has a name that beanstalkd's protocol cannot say; the server's \
                /metrics has it\n";
    assert_eq!(stats(&[]).stderr, note);
    put("Image::crop");
    let json = stats(&["--json"]);
    assert!(json.stderr.starts_with("2 more queues have names that "), "{json:?}");
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["queues"].as_array().unwrap().len(), 2, "default and mail");
}
