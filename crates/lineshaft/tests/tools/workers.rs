//! Runs the producers and workers of the page about workers in ten languages.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use testkit::process::{Program, Server};
use testkit::readme::{Running, blocks_of, root, shell};
use testkit::tools;

use super::{LINESHAFT, wait_until};

const LISTENERS: [(&str, &str); 3] =
    [("beanstalk", "11300"), ("gearman", "4730"), ("kestrel-thrift", "2229")];

/// The programs of one language.
struct Language<'a> {
    /// The heading of its section.
    heading: &'a str,
    /// Programs and files that its programs need.
    needs: &'a [&'a str],
    /// The names of the producer and the worker.
    files: [&'a str; 2],
    /// Shell commands that compile the programs.
    compile: &'a str,
    /// Shell commands that run the producer and the worker.
    run: [&'a str; 2],
}

/// The path of a client library in `target/test-tools`.
fn installed(path: &str) -> String {
    root().join("target/test-tools").join(path).to_str().unwrap().to_owned()
}

/// Puts a job with the producer, and does it with the worker.
fn play(language: &Language<'_>) {
    if language.needs.iter().any(|tool| tools::find_or_skip(tool).is_none()) {
        return;
    }
    let page = std::fs::read_to_string(root().join("docs/howto/workers.md")).unwrap();
    let blocks = blocks_of(&page, language.heading);
    assert!(blocks.len() >= 2, "{blocks:?}");
    let names = LISTENERS.map(|(name, _)| name);
    let server = Program::serve_on(&names, LINESHAFT, &["--memory"]).start().unwrap();
    let folder = TempDir::new().unwrap();
    for (name, text) in language.files.iter().zip(&blocks) {
        let text = with_ports(text, &server);
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let [put, work] = language.run;
    succeed(&server, folder.path(), language.compile);
    succeed(&server, folder.path(), put);

    let printed = folder.path().join("printed");
    let mut worker = script(&server, folder.path(), work);
    let worker = worker.stdout(File::create(&printed).unwrap()).spawn().unwrap();
    let _worker = Running(worker);
    wait_until("the worker", || std::fs::read_to_string(&printed).unwrap() == "mail to=ann\n");
    wait_until("the end of the job", || {
        let stats = script(&server, folder.path(), "lineshaft stats --json mail").output().unwrap();
        let stats: serde_json::Value = serde_json::from_slice(&stats.stdout).unwrap();
        stats["cmd-delete"] == 1
    });
}

/// The program with the ports of this server instead of the usual ports.
fn with_ports(text: &str, server: &Server) -> String {
    let mut result = text.to_owned();
    // Two steps, because a new port can contain the digits of a usual port.
    for (listener, port) in LISTENERS {
        result = result.replace(port, &format!("@{listener}@"));
    }
    for (listener, _) in LISTENERS {
        let port = server.address_of(listener).port().to_string();
        result = result.replace(&format!("@{listener}@"), &port);
    }
    // Programs in shell have the server's address in the environment.
    assert!(result != text || text.starts_with("lineshaft"), "no port in {text}");
    result
}

fn script(server: &Server, folder: &Path, text: &str) -> Command {
    let mut command = shell(Path::new(LINESHAFT), folder, text).unwrap();
    command.env("LINESHAFT_SERVER", server.address_of("beanstalk").to_string());
    command.env("PYTHONUNBUFFERED", "1");
    command
}

fn succeed(server: &Server, folder: &Path, text: &str) {
    let output = script(server, folder, text).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{text}: {output:?}");
}

#[test]
fn shell_puts_and_works() {
    play(&Language {
        heading: "## Shell",
        needs: &[],
        files: ["put.sh", "work.sh"],
        compile: "true",
        run: ["sh put.sh", "sh work.sh"],
    });
}

#[test]
fn python_puts_and_works() {
    let python = installed("python/bin/python");
    play(&Language {
        heading: "## Python",
        needs: &[&python],
        files: ["put.py", "work.py"],
        compile: "true",
        run: [&format!("{python} put.py"), &format!("{python} work.py")],
    });
}

#[test]
fn php_puts_and_works() {
    play(&Language {
        heading: "## PHP",
        needs: &["php", "/usr/share/php/Pheanstalk/autoload.php"],
        files: ["put.php", "work.php"],
        compile: "true",
        run: ["php put.php", "php work.php"],
    });
}

#[test]
fn ruby_puts_and_works() {
    play(&Language {
        heading: "## Ruby",
        needs: &["ruby", "/usr/share/doc/ruby-beaneater"],
        files: ["put.rb", "work.rb"],
        compile: "true",
        run: ["ruby put.rb", "ruby -e '$stdout.sync = true; load \"work.rb\"'"],
    });
}

#[test]
fn javascript_puts_and_works() {
    let modules = installed("node/node_modules");
    let run = |file: &str| format!("NODE_PATH={modules} node {file}");
    play(&Language {
        heading: "## JavaScript",
        needs: &["node", &modules],
        files: ["put.js", "work.js"],
        compile: "true",
        run: [&run("put.js"), &run("work.js")],
    });
}

#[test]
fn perl_puts_and_works() {
    play(&Language {
        heading: "## Perl",
        needs: &["perl", "/usr/share/perl5/Gearman/Client.pm"],
        files: ["put.pl", "work.pl"],
        compile: "true",
        run: ["perl put.pl", "perl work.pl"],
    });
}

#[test]
fn c_puts_and_works() {
    play(&Language {
        heading: "## C",
        needs: &["cc", "/usr/include/libgearman/gearman.h"],
        files: ["put.c", "worker.c"],
        compile: "cc -Wall -Werror put.c -o put -lgearman && cc -Wall -Werror worker.c -o worker -lgearman",
        run: ["./put", "./worker"],
    });
}

#[test]
fn java_puts_and_works() {
    let page = std::fs::read_to_string(root().join("docs/howto/workers.md")).unwrap();
    let [_, _, commands] = &blocks_of(&page, "## Java")[..] else { panic!("other blocks") };
    let [jars, generate, compile, put, work] = commands.lines().collect::<Vec<_>>()[..] else {
        panic!("other commands: {commands}")
    };
    let service = root().join("corpus/kestrel-thrift/kestrel.thrift");
    let compile = format!("{jars}; cp {} . && {generate} && {compile}", service.display());
    play(&Language {
        heading: "## Java",
        needs: &["thrift", "javac", "/usr/share/java/thrift.jar"],
        files: ["Put.java", "Worker.java"],
        compile: &compile,
        run: [&format!("{jars}; {put}"), &format!("{jars}; {work}")],
    });
}

#[test]
fn rust_puts_and_works() {
    let folder = installed("rust/debug/deps");
    let Some(library) = library(&folder) else {
        return tools::skip(
            "the crate beanstalkc is not built; scripts/install-test-tools.sh builds it",
        );
    };
    let compile = |file: &str| {
        let library = library.display();
        format!("rustc --edition 2024 -L dependency={folder} --extern beanstalkc={library} {file}")
    };
    play(&Language {
        heading: "## Rust",
        needs: &["rustc"],
        files: ["put.rs", "worker.rs"],
        compile: &format!("{} && {}", compile("put.rs"), compile("worker.rs")),
        run: ["./put", "./worker"],
    });
}

/// The compiled crate beanstalkc in this folder.
fn library(folder: &str) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    files.into_iter().find(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libbeanstalkc-") && path.extension().is_some_and(|end| end == "rlib")
    })
}

#[test]
fn go_puts_and_works() {
    if tools::find("go").is_none() {
        return tools::leave_out("go is not installed");
    }
    play(&Language {
        heading: "## Go",
        needs: &[],
        files: ["put.go", "worker.go"],
        compile: "GOCACHE=$PWD/cache go build put.go && GOCACHE=$PWD/cache go build worker.go",
        run: ["./put", "./worker"],
    });
}
