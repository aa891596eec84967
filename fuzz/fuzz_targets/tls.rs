//! TLS clients follow the rules or break them, and an attacker between them and the server changes
//! bytes. The dialect must read what the client wrote, up to the first violation.
#![no_main]

// The body is that of a property test.
#[path = "../../crates/server/src/net/tls_script.rs"]
mod tls_script;
#[path = "../../crates/server/src/net/tls_stream.rs"]
#[allow(dead_code, reason = "the server needs the rest")]
mod tls_stream;

libfuzzer_sys::fuzz_target!(|script: &[u8]| tls_script::check(script));
