//! The history of the numbers.

use std::collections::BTreeMap;

use broker::NewJob;
use serde_json::Value;

use crate::world::World;

/// Lets the server add to its history once a second for this time.
fn pass(world: &World, seconds: u64) {
    for _ in 0..seconds {
        world.block_on(async {
            world.api.tick();
            // The task that adds a row needs a few turns of the runtime.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        });
        world.pass(1_000);
    }
}

fn values(history: &Value, series: &str) -> Vec<Option<f64>> {
    history["series"][series].as_array().unwrap().iter().map(Value::as_f64).collect()
}

#[test]
fn the_history_has_counts_rates_and_the_oldest_job() {
    let world = World::new();
    pass(&world, 10);
    for number in 0..20 {
        world.put(format!("q{number}").as_bytes(), NewJob::default(), b"x");
    }
    world.put(b"later", NewJob { delay_s: 600, ..NewJob::default() }, b"x");
    pass(&world, 21);
    let history = world.get("/server/history");
    assert_eq!(history["step_ms"], 10_000);
    assert_eq!(history["from_at"], "2023-11-14T22:13:20.000Z");
    let of = |series: &str| values(&history, series);
    assert_eq!(of("ready"), [Some(0.0), Some(20.0), Some(20.0), Some(20.0)]);
    assert_eq!(of("delayed").last(), Some(&Some(1.0)));
    // A rate needs two rows. There is no log, so there are no syncs.
    assert_eq!(of("puts_per_s"), [None, Some(2.1), Some(0.0), Some(0.0)]);
    assert_eq!(of("oldest_ms"), [Some(0.0), Some(0.0), Some(10_000.0), Some(20_000.0)]);
    assert_eq!(of("sync_p99_us"), [None; 4]);
    assert_eq!(of("connections"), [Some(7.0); 4]);
    let minutes = world.get("/server/history?span=24h&series=ready,oldest_ms");
    let series: BTreeMap<String, Value> =
        serde_json::from_value(minutes["series"].clone()).unwrap();
    assert_eq!(series.keys().collect::<Vec<_>>(), ["oldest_ms", "ready"]);
    assert_eq!(minutes["step_ms"], 60_000);
    assert_eq!(values(&minutes, "oldest_ms"), [Some(20_000.0)]);
}

#[test]
fn wrong_parameters_are_named() {
    let world = World::new();
    for (query, parameter) in [("span=2h", "span"), ("series=ready,puts", "series")] {
        let reply = world.ask("GET", &format!("/server/history?{query}"));
        assert_eq!((reply.status, &reply.body["parameter"]), (400, &parameter.into()));
    }
    let empty = world.get("/server/history?series=ready");
    assert_eq!(values(&empty, "ready"), [None]);
}
