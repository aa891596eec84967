//! Clients connect to any node.

use std::time::Duration;

use testkit::wait;

use crate::rig::{Rig, drain, put};

const START_MAX: Duration = Duration::from_secs(20);

#[test]
fn a_follower_passes_its_clients_on() {
    let Some(mut rig) = Rig::new(2) else { return };
    rig.start(0);
    rig.wait_for_leader(&[0], START_MAX);
    rig.start(1);
    rig.wait_for_follower(1);
    wait::until("the follower reaches the leader", || {
        rig.ask(1, "/health/ready").is_some_and(|(code, _)| code == 200)
    });
    let (code, text) = rig.ask(1, "/health/leader").unwrap();
    assert_eq!(code, 503, "{text}");

    let mut client = rig.client(1);
    put(&mut client, 0..20);
    // A large job goes through in both directions.
    let body = vec![b'x'; 60_000];
    let id = client.put(9, 0, 600, &body).unwrap();
    assert_eq!(client.peek(&format!("peek {id}")).unwrap().unwrap().body, body);
    client.expect(&format!("delete {id}"), "DELETED").unwrap();
    // A client that waits at the follower gets a job that comes at the leader.
    let mut taker = rig.client(1);
    taker.expect("watch other", "WATCHING 2").unwrap();
    taker.expect("ignore default", "WATCHING 1").unwrap();
    taker.send(b"reserve-with-timeout 20\r\n").unwrap();
    let mut producer = rig.client(0);
    producer.expect("use other", "USING other").unwrap();
    producer.put(0, 0, 60, b"found").unwrap();
    assert!(taker.read_line().unwrap().starts_with("RESERVED "));

    // The leader's process is gone: the follower notices at once. Its clients reconnect.
    rig.kill(0);
    let leader = rig.wait_for_leader(&[1], Duration::from_secs(2));
    assert!(client.command("stats").is_err(), "connections to the old leader end");
    assert_eq!(drain(&mut rig.client(leader)), (0..20).collect::<Vec<u32>>());
}

#[test]
fn a_client_that_comes_while_nobody_leads_waits() {
    let Some(mut rig) = Rig::new(2) else { return };
    for at in [0, 1] {
        rig.start(at);
    }
    rig.wait_for_leader(&[0], START_MAX);
    rig.wait_for_follower(1);
    rig.kill(0);
    put(&mut rig.client(1), 0..5);
    assert_eq!(drain(&mut rig.client(1)), (0..5).collect::<Vec<u32>>());
}
