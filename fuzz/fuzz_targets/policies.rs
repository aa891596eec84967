//! Decodes any bytes as rules in the log's encoding. Bytes that are not rules must be refused.
//! Decoded rules must encode to rules that are equal.
#![no_main]

extern crate broker as lineshaft_broker;

// A property test has the same body.
#[path = "../../crates/broker/tests/recovery/folder.rs"]
#[allow(dead_code, reason = "recovery has a target of its own")]
mod folder;
#[path = "../../crates/broker/tests/recovery/script.rs"]
#[allow(dead_code, reason = "recovery has a target of its own")]
mod script;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| script::check_rules(bytes));
