//! The log folder contains any bytes. A start opens it, or refuses it and names the file. A repair
//! saves what it reports.
#![no_main]

extern crate broker as lineshaft_broker;

// The body is that of a property test.
#[path = "../../crates/broker/tests/recovery/folder.rs"]
mod folder;
#[path = "../../crates/broker/tests/recovery/script.rs"]
#[allow(dead_code, reason = "rules have a target of their own")]
mod script;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| script::check(bytes));
