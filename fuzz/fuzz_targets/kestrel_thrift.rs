//! Three clients of Kestrel's thrift service say anything at all, in whole pieces and in fragments: the
//! replies must be the same, nothing may panic, and memory must follow what was sent.
#![no_main]

// The body is that of the property test, which runs without a nightly toolchain.
#[path = "../../crates/kestrel/tests/thrift/fragments.rs"]
mod fragments;
#[path = "../../crates/kestrel/tests/thrift/world.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|script: &[u8]| fragments::check_script(script));
