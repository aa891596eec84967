//! Three clients of the Gearman dialect send any bytes, in whole pieces and in fragments. The
//! replies must be the same, nothing may panic, and memory must stay in proportion to the input.
#![no_main]

// The property test has the same body, and runs without a nightly toolchain.
#[path = "../../crates/gearman/tests/dialect/fragments.rs"]
#[allow(dead_code, reason = "HTTP has a target of its own")]
mod fragments;
#[path = "../../crates/gearman/tests/dialect/world.rs"]
#[allow(dead_code, reason = "other tests need the rest")]
mod world;

libfuzzer_sys::fuzz_target!(|script: &[u8]| fragments::check(script));
