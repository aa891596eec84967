//! TLS clients obey the protocol or violate it. An attacker between a client and the server changes
//! bytes. The dialect must read the bytes that the client wrote, up to the first violation.
#![no_main]

// A property test has the same body.
#[path = "../../crates/server/src/net/tls_script.rs"]
mod tls_script;
#[path = "../../crates/server/src/net/tls_stream.rs"]
#[allow(dead_code, reason = "the server needs the rest")]
mod tls_stream;

libfuzzer_sys::fuzz_target!(|script: &[u8]| tls_script::check(script));
