//! Anything at all lies in the log's folder: a start opens it for good, or refuses it by name; a repair saves what
//! it says.
#![no_main]

extern crate broker as lineshaft_broker;

// The body is that of a property test.
#[path = "../../crates/broker/tests/recovery/folder.rs"]
mod folder;
#[path = "../../crates/broker/tests/recovery/script.rs"]
#[allow(dead_code, reason = "rules have a target of their own")]
mod script;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| script::check(bytes));
