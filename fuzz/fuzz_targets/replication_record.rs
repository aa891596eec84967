//! Reads any bytes as a record of a replicated stream. Bytes that are not a record must be refused.
//! A record that is accepted must be written again with the same bytes.
#![no_main]

// A property test has the same body.
#[path = "../../crates/replica/tests/format/script.rs"]
mod script;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((first, record)) = bytes.split_first() {
        script::check(record, first % 2 == 1);
    }
});
