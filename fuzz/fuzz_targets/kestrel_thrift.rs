//! Three clients of Kestrel's thrift service send any bytes, in whole pieces and in fragments. The
//! replies must be the same, nothing may panic, and memory must stay in proportion to the input.
#![no_main]

// The property test has the same body, and runs without a nightly toolchain.
#[path = "../../crates/kestrel/tests/thrift/fragments.rs"]
mod fragments;
#[path = "../../crates/kestrel/tests/thrift/world.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|script: &[u8]| fragments::check_script(script));
