//! Two clients of Gearman's HTTP front and a worker send any bytes, in whole pieces and in
//! fragments. The replies must be the same, nothing may panic, and memory must stay in proportion
//! to the input.
#![no_main]

// A property test has the same body.
#[path = "../../crates/gearman/tests/dialect/fragments.rs"]
#[allow(dead_code, reason = "packets have a target of their own")]
mod fragments;
#[path = "../../crates/gearman/tests/dialect/world.rs"]
#[allow(dead_code, reason = "other tests need the rest")]
mod world;

libfuzzer_sys::fuzz_target!(|script: &[u8]| fragments::check_http(script));
