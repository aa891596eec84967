//! Fills a log folder with any bytes. A start must open the folder, or refuse it and name a file. A
//! repair must save all jobs that it reports.
#![no_main]

extern crate broker as lineshaft_broker;

// A property test has the same body.
#[path = "../../crates/broker/tests/recovery/folder.rs"]
mod folder;
#[path = "../../crates/broker/tests/recovery/script.rs"]
#[allow(dead_code, reason = "rules have a target of their own")]
mod script;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| script::check(bytes));
