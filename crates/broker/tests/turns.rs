//! Tests the lock of the broker.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lineshaft_broker::{Broker, Millis, Options};

const NOW: Millis = Millis(1_000_000);

#[test]
fn no_turn_begins_after_a_panic_in_a_turn() {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let options = Options::without_threads(disk, log::Settings::default());
    let (broker, _) = Broker::open(options, NOW).expect("the log is whole");
    let fails = |act: &dyn Fn()| catch_unwind(AssertUnwindSafe(act)).is_err();
    assert!(!fails(&|| drop(broker.turn(NOW))));
    assert!(fails(&|| {
        let _turn = broker.turn(NOW);
        panic!("a request is half done");
    }));
    assert!(fails(&|| drop(broker.turn(NOW))));
}
