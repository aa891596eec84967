//! Clients of TLS keep the rules or break them, and somebody in between changes what they send: what the dialect
//! reads is what the client wrote, up to the first broken rule.
#![no_main]

// The body is that of a property test.
#[path = "../../crates/server/src/net/tls_script.rs"]
mod tls_script;
#[path = "../../crates/server/src/net/tls_stream.rs"]
#[allow(dead_code, reason = "the server needs the rest")]
mod tls_stream;

libfuzzer_sys::fuzz_target!(|script: &[u8]| tls_script::check(script));
