//! Generates the client with the thrift compiler.

use std::path::Path;
use std::process::Command;

fn main() {
    let idl = "../../../../../../corpus/kestrel-thrift/kestrel.thrift";
    println!("cargo::rerun-if-changed={idl}");
    let folder = std::env::var("OUT_DIR").expect("cargo sets it");
    let status = Command::new("thrift").args(["--gen", "rs", "-out", &folder, idl]).status();
    assert!(status.expect("the thrift compiler is installed").success());
    let file = Path::new(&folder).join("kestrel.rs");
    let code = std::fs::read_to_string(&file).expect("it was just made");
    // The generated file is included into `main.rs`, where attributes for a whole file are invalid.
    // So `main.rs` has these attributes at the module.
    let lines = code.lines().filter(|line| !line.starts_with("#!["));
    std::fs::write(&file, lines.collect::<Vec<_>>().join("\n")).expect("the folder is ours");
}
