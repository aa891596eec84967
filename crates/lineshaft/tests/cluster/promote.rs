//! An operator chooses the node that leads.

use std::time::Duration;

use serde_json::Value;
use testkit::wait;

use crate::rig::{Rig, drain, put};

const START_MAX: Duration = Duration::from_secs(20);

/// Starts all nodes. The first one leads, and each has told about itself.
fn started(rig: &mut Rig) {
    rig.start(0);
    rig.wait_for_leader(&[0], START_MAX);
    for at in 1..rig.nodes.len() {
        rig.start(at);
        rig.wait_for_follower(at);
    }
    // The small test servers of NATS are not well, so only the nodes count.
    let is_live = |node: &Value| node["live"] == true && node["role"] != "starts";
    wait::until("all nodes tell about themselves", || {
        let (_, out, _) = rig.command(0, &["status", "--json"]);
        let shown: Value = serde_json::from_str(&out).unwrap();
        let nodes = shown["nodes"].as_array().unwrap();
        nodes.len() == rig.nodes.len() && nodes.iter().all(is_live)
    });
}

#[test]
fn a_chosen_node_leads() {
    let Some(mut rig) = Rig::new(3) else { return };
    started(&mut rig);
    let (code, out, _) = rig.command(1, &["promote", "node-0"]);
    assert_eq!((code, out.as_str()), (0, "node node-0 leads already\n"));
    let (code, _, err) = rig.command(1, &["promote", "nobody"]);
    assert!(code == 1 && err.contains("no node is named nobody"), "{err}");
    let mut client = rig.client(1);
    put(&mut client, 0..30);
    let held = client.reserve(0).unwrap().unwrap();
    client.expect(&format!("delete {}", held.id), "DELETED").unwrap();

    // From any node, and each node can be chosen.
    let mut before = 0;
    for chosen in [2, 1] {
        let (code, out, err) = rig.command(0, &["promote", &format!("node-{chosen}"), "--json"]);
        assert_eq!(code, 0, "{err}");
        let shown: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(shown["leader"], format!("node-{chosen}"), "{shown}");
        assert_eq!(shown["before"], format!("node-{before}"), "{shown}");
        assert_eq!(rig.wait_for_leader(&[0, 1, 2], START_MAX), chosen);
        // The old leader's service manager starts it again.
        let mut old = rig.nodes[before].server.take().unwrap();
        assert_eq!(old.wait().unwrap().code(), Some(76), "{}", old.stderr());
        assert!(old.stderr().contains("the lead is handed over to node node-"), "{}", old.stderr());
        rig.start(before);
        rig.wait_for_follower(before);
        before = chosen;
    }
    assert_eq!(drain(&mut rig.client(0)), (1..30).collect::<Vec<u32>>());

    // A node that is down cannot lead, and the leader goes on.
    rig.kill(2);
    let (code, _, err) = rig.command(0, &["promote", "node-2"]);
    assert!(code == 1 && err.contains("node node-2 cannot lead now: it is silent"), "{err}");
    assert_eq!(rig.wait_for_leader(&[0, 1], START_MAX), 1);
}
