//! Compares the HTTP API with its OpenAPI document. schemathesis reads the document, makes requests
//! that fit it and requests that do not, and checks each response: its status, its content type, its
//! schema, and whether the server survives.

use std::path::PathBuf;
use std::process::Command;

use testkit::tools;

use crate::Site;
use crate::request::Peer;

/// The server forbids changes without the operator's socket or a token, so the run has a token.
const TOKEN: [&str; 5] = ["token", "add", "contract", "--role", "admin"];

/// Requests for each operation of the document. The seed makes each run the same.
const EXAMPLES: &str = "15";

/// These end other requests, because they stop the server or change its mode, or last for long.
const LEFT_OUT: &str = "^/(server/(backup|drain|reload|status)|events)";

/// The checks. A request that fits the document can still be refused: a cursor must come from an
/// earlier page, and a job must exist.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,negative_data_rejection,\
    unsupported_method";

#[test]
fn the_api_keeps_what_its_document_says() {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let program = root.join("target/test-tools/http/python/bin/schemathesis");
    if !program.exists() {
        tools::skip("schemathesis is not installed; scripts/install-test-tools.sh installs it");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &[]);
    let made = crate::running::finish(crate::running::command(folder.path(), &TOKEN));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let token = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let bearer = format!("Authorization: Bearer {token}");
    crate::running::wait_for("the token", || {
        let request = format!("GET /api/v1/me HTTP/1.1\r\nHost: {}\r\n{bearer}\r\n\r\n", site.http);
        let mut peer = Peer::connect(&site.http);
        peer.send(request.as_bytes());
        peer.answer(true).body.contains("\"admin\"").then_some(())
    });
    let output = Command::new(program)
        .arg("run")
        .arg(root.join("docs/openapi.json"))
        .args(["--url", &format!("http://{}/api/v1", site.http), "--header", &bearer])
        .args(["--checks", CHECKS, "--exclude-path-regex", LEFT_OUT])
        .args(["--phases", "coverage,fuzzing", "--max-examples", EXAMPLES, "--seed", "1"])
        .args(["--request-timeout", "20", "--no-color"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("No issues found") || said.contains("passed"), "{said}");
}
