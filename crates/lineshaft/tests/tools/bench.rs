//! Tests the parts of `lineshaft bench` that are the same as in the other tools.

use rustix::process::Signal;

use super::{Tool, World, wait_until};

#[test]
fn bench_finds_the_server_as_the_other_tools_do() {
    for world in World::each() {
        let by_variable = ["bench", "put", "--count", "10", "--connections", "2"];
        let count = ["--warm-up", "0", "--queue", "load"];
        let output = world.run_well(&[&by_variable[..], &count].concat(), b"");
        let removal = "bench take --queue load --seconds 600 --depth 8";
        assert!(output.stderr.ends_with(&format!("all its jobs: lineshaft {removal}\n")));
        assert_eq!(world.stat("stats-tube load", "current-jobs-ready"), "10", "the jobs stay");
        let named = format!("localhost:{}", world.server().address().port());
        let by_name = ["bench", "put", "--count", "5", "--connections", "1", "--server", &named];
        world.run_well(&[&by_name[..], &count].concat(), b"");
        assert_eq!(world.stat("stats-tube load", "current-jobs-ready"), "15");
        let removal: Vec<&str> = removal.split(' ').collect();
        world.run_well(&removal, b"");
        assert_eq!(world.stat("stats", "current-jobs-ready"), "0", "all jobs were removed");
        let socket = world.run(&["bench", "put", "--server", "unix:/nowhere"], b"");
        assert_eq!(socket.status.code(), Some(2));
        assert!(socket.stderr.contains("the generator speaks only TCP"), "{socket:?}");
    }
}

#[test]
fn an_interrupted_measurement_says_so_to_a_script() {
    for world in World::each() {
        let put = ["bench", "put", "--queue", "load", "--rate", "100", "--seconds", "3600"];
        let tool = world.start(&put);
        wait_until("a job", || {
            !["", "0"].contains(&world.stat("stats-tube load", "current-jobs-ready").as_str())
        });
        tool.signal(Signal::INT);
        let output = tool.wait();
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        assert_eq!(output.stderr, "lineshaft: interrupted\n");
    }
}

#[test]
fn an_unreachable_server_is_reported_in_words() {
    for mut world in World::each() {
        let address = world.end().to_string();
        let output = Tool::start(&address, &["bench", "put"]).wait();
        assert_eq!(output.status.code(), Some(1));
        let why = format!(
            "lineshaft: cannot connect to {address}: connection refused; is the server running?\n"
        );
        assert_eq!(output.stderr, why);
    }
}

#[test]
fn trip_refuses_a_queue_that_has_jobs() {
    for world in World::each() {
        world.run_well(&["put", "bench-trip-0", "x", "y"], b"");
        let trip = ["bench", "trip", "--seconds", "0.2"];
        let output = world.run(&trip, b"");
        assert_eq!(output.status.code(), Some(1));
        let why = "the queue bench-trip-0 has jobs (2 ready), but trip needs an empty one; empty \
                   it with `lineshaft work bench-trip-0 --drain -- true`";
        assert!(output.stderr.contains(why), "{output:?}");
        world.run_well(&["work", "bench-trip-0", "--drain", "--", "true"], b"");
        world.run_well(&trip, b"");
    }
}
