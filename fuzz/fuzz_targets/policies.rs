//! Any bytes either are rules in the log's encoding or are refused. Rules that were read are
//! written back as the same bytes.
#![no_main]

extern crate broker as lineshaft_broker;

// The body is that of a property test.
#[path = "../../crates/broker/tests/recovery/folder.rs"]
#[allow(dead_code, reason = "recovery has a target of its own")]
mod folder;
#[path = "../../crates/broker/tests/recovery/script.rs"]
#[allow(dead_code, reason = "recovery has a target of its own")]
mod script;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| script::check_rules(bytes));
