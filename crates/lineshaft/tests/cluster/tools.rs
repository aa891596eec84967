//! The commands with which an operator begins, watches and repairs a cluster.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nats::{Access, Place};
use serde_json::Value;
use tempfile::TempDir;
use testkit::client::Client;
use testkit::cluster::{FLUSH_ALWAYS, NatsServers, find_nats_server};
use testkit::process::{Program, Server, free_port, lineshaft_path};
use testkit::wait;

const START_MAX: Duration = Duration::from_secs(30);

/// What a command has printed, and its exit code.
#[derive(Debug)]
struct Done {
    code: i32,
    out: String,
    err: String,
}

/// Servers of NATS, and the folder of one node.
struct World {
    servers: NatsServers,
    folder: TempDir,
    beanstalk: u16,
    http: u16,
    peers: u16,
}

impl World {
    fn new(flush: &str) -> Option<World> {
        let servers = NatsServers::start(flush)?;
        let folder = tempfile::tempdir().unwrap();
        let [beanstalk, http, peers] = [(); 3].map(|()| free_port().unwrap());
        let world = World { servers, folder, beanstalk, http, peers };
        fs::write(world.configuration(), world.text()).unwrap();
        let said = world.done(&["cluster", "keys", "keys", "--node", "one"]);
        assert!(said.contains("one: copy ca.pem, one.pem and one-key.pem to this node"), "{said}");
        Some(world)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn configuration(&self) -> PathBuf {
        self.folder.path().join("node.toml")
    }

    fn text(&self) -> String {
        let data = self.data().display().to_string();
        let (beanstalk, http) = (self.beanstalk, self.http);
        let peers = self.peers;
        let (nats, monitors) = (self.servers.urls(), self.servers.monitors());
        let keys = self.folder.path().join("keys");
        let key_file = |name| keys.join(name).display().to_string();
        let [ca, certificate, key] = ["ca.pem", "one.pem", "one-key.pem"].map(key_file);
        format!(
            "[data]\ndir = {data:?}\n[listen]\nbeanstalk = \"127.0.0.1:{beanstalk}\"\n\
             http = \"127.0.0.1:{http}\"\ngearman = \"off\"\nkestrel = \"off\"\n\
             kestrel_text = \"off\"\nkestrel_thrift = \"off\"\nkestrel_admin = \"off\"\n\
             [cluster]\nname = \"tools\"\nnode = \"one\"\nnats = {nats:?}\n\
             nats_monitor = {monitors:?}\nallow_colocated = true\nstream_max = \"64MiB\"\n\
             stream_keep = \"1MiB\"\nlisten = \"127.0.0.1:{peers}\"\n\
             ca = {ca:?}\ncertificate = {certificate:?}\nkey = {key:?}\n"
        )
    }

    /// Runs `lineshaft` with a line of input.
    fn run(&self, arguments: &[&str], input: &str) -> Done {
        let mut child = Command::new(lineshaft_path(env!("CARGO_BIN_EXE_lineshaft")))
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let done = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = done.status.code().unwrap();
        Done { code, out: text(done.stdout), err: text(done.stderr) }
    }

    /// Runs a command that must succeed.
    fn done(&self, arguments: &[&str]) -> String {
        let done = self.run(arguments, "");
        assert_eq!(done.code, 0, "{arguments:?}: {done:?}");
        done.out
    }

    /// Runs a command that must fail, and say this.
    fn refused(&self, arguments: &[&str], input: &str, what: &str) {
        let done = self.run(arguments, input);
        assert_eq!(done.code, 1, "{arguments:?}: {done:?}");
        assert!(done.err.contains(what), "{arguments:?}: {done:?}");
    }

    fn status(&self) -> (i32, Value) {
        let done = self.run(&["cluster", "status", "--json", "--config", "node.toml"], "");
        (done.code, serde_json::from_str(&done.out).unwrap())
    }

    /// Loses all claims of the stream, or the stream.
    fn lose(&self, only_claims: bool) {
        let place = Place {
            servers: self.servers.urls(),
            name: "tools".to_owned(),
            replicas: 3,
            access: Access::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let context = nats::connect(&place).await.unwrap();
            if only_claims {
                let stream = context.get_stream_no_info(place.stream()).await.unwrap();
                stream.purge().filter(place.claims()).await.unwrap();
            } else {
                nats::stream::delete(&context, &place.stream()).await.unwrap();
            }
        });
    }

    /// Starts the node, and waits until it leads.
    fn start(&self) -> (Server, Client) {
        let binary = lineshaft_path(env!("CARGO_BIN_EXE_lineshaft"));
        let program = Program::serve_under(binary, &["serve"]).with_configuration(&self.text());
        let server = program.start_at(([127, 0, 0, 1], self.http).into()).unwrap();
        let connect = || {
            let mut client = Client::connect(([127, 0, 0, 1], self.beanstalk).into()).ok()?;
            client.put(0, 0, 600, b"new").ok().map(|_| client)
        };
        let client = wait::for_some(START_MAX, connect).expect("the node leads");
        (server, client)
    }

    fn group(&self, data: &Path) -> Value {
        let shown = self.done(&["cluster", "check", "--json", "--offline", data.to_str().unwrap()]);
        serde_json::from_str(&shown).unwrap()
    }
}

/// Adds jobs to a folder that no server uses.
fn import(world: &World, count: usize) {
    let line = "{\"queue\":\"default\",\"body\":\"old\"}\n";
    fs::write(world.folder.path().join("jobs"), line.repeat(count)).unwrap();
    world.done(&["import", "jsonl", "jobs", "--data", "data"]);
}

#[test]
fn a_cluster_is_created_watched_and_recovered() {
    let Some(world) = World::new(FLUSH_ALWAYS) else { return };
    let config = ["--config", "node.toml"];
    let with = |arguments: &[&'static str]| [&["cluster"][..], arguments, &config].concat();
    // The check waits until the servers have elected a leader.
    world.refused(&with(&["check"]), "", "does not exist");
    world.refused(&with(&["status"]), "", "does not exist");
    import(&world, 5);
    world.refused(&["cluster", "check", "--offline", "data"], "", "it belongs to no cluster");

    let said = world.done(&with(&["create"]));
    assert!(said.contains("is the origin of the cluster, with 5 jobs"), "{said}");
    assert!(said.contains("n2, version 2."), "{said}");
    // A command that was interrupted can run again.
    let said = world.done(&with(&["create"]));
    assert!(said.contains("stream LS_tools_LOG_000 is ready"), "{said}");
    assert_eq!(world.group(&world.data())["group"], 0);
    let said = world.done(&with(&["check"]));
    assert!(said.contains("no node has led yet"), "{said}");

    let (server, mut client) = world.start();
    for _ in 0..20 {
        client.put(0, 0, 600, b"more").unwrap();
    }
    // The node leaves its first hint after a second.
    let mut shown = (0, Value::Null);
    wait::until("the status shows the node", || {
        shown = world.status();
        shown.1["nodes"][0]["applied"].as_u64() >= Some(1) && shown.1["nodes"][0]["live"] == true
    });
    let (code, status) = shown;
    let problems = "only one node is up: its loss stops the cluster";
    assert_eq!(status["problems"], Value::from(vec![problems]), "{status}");
    assert_eq!((code, &status["well"]), (1, &Value::from(false)));
    let node = &status["nodes"][0];
    assert_eq!((&node["name"], &node["role"]), (&"one".into(), &"leads".into()), "{status}");
    assert_eq!(status["nats"][0]["flushes"], true);
    let text = world.run(&with(&["status"]), "").out;
    assert!(text.contains("node one leads: epoch 1, group "), "{text}");
    wait::until("the check compares the node", || {
        let done = world.run(&with(&["check"]), "");
        assert_eq!(done.code, 0, "{done:?}");
        assert!(done.out.contains("The stream is whole."), "{done:?}");
        done.out.contains("agrees     node one at group")
    });

    let ended = server.terminate().unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    let (code, status) = world.status();
    assert_eq!(code, 1);
    assert!(status["problems"].to_string().contains("node one is silent"), "{status}");
    world.refused(&with(&["forget", "two"]), "", "no node is named two; known are: one");
    assert_eq!(world.done(&with(&["forget", "one"])), "node one is forgotten\n");
    let (_, status) = world.status();
    assert_eq!(status["nodes"], Value::from(Vec::<Value>::new()));
    let folder = world.group(&world.data());
    assert_eq!(folder["verified"], true);
    let last = folder["group"].as_u64().unwrap();
    assert!(last > 0);

    // A copy of the folder leaves the cluster, and serves alone.
    let copy = world.folder.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for file in fs::read_dir(world.data()).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
    }
    let said = world.done(&["cluster", "leave", "copy"]);
    assert!(said.contains(&format!("It has 26 jobs, as of group {last}.")), "{said}");
    world.refused(&["cluster", "leave", "copy"], "", "belongs to no cluster");
    let jobs = world.done(&["export", "--all", "--data", "copy"]);
    assert_eq!(jobs.lines().count(), 26);

    // Somebody removes the last claim.
    world.lose(true);
    world.refused(&with(&["check"]), "", "the last claim of the stream is lost");

    // The stream is lost, so the folder begins a new one.
    let recover = ["recover", "--from", "data"];
    world.refused(&with(&recover), "", "stream LS_tools_LOG_000 exists");
    world.lose(false);
    world.refused(&with(&recover), "no\n", "nothing was changed");
    assert_eq!(world.group(&world.data())["group"], last);
    let yes = world.run(&with(&recover), &format!("{last}\n"));
    assert_eq!(yes.code, 0, "{yes:?}");
    let recovered = world.group(&world.data());
    assert_eq!((&recovered["group"], &recovered["jobs"]), (&0.into(), &26.into()));
    assert_ne!(recovered["lineage"], folder["lineage"]);
    let (server, _client) = world.start();
    assert!(server.terminate().unwrap().status.success());
    assert_eq!(world.group(&world.data())["jobs"], 27);
}

#[test]
fn servers_that_do_not_flush_are_refused() {
    let Some(world) = World::new("") else { return };
    let create = ["cluster", "create", "--config", "node.toml"];
    world.refused(&create, "", "NATS server n0 acknowledges records before they are on disk");
    assert!(!world.data().exists(), "nothing was made");
    let alone = fs::read_to_string(world.configuration()).unwrap();
    let (alone, _) = alone.split_once("[cluster]").unwrap();
    fs::write(world.configuration(), alone).unwrap();
    world.refused(&create, "", "the configuration has no cluster");
}

#[test]
fn the_demonstration_counts_and_cleans_up() {
    let Some(nats_server) = find_nats_server() else { return };
    let Some(python) = testkit::tools::find_or_skip("python3") else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/try-cluster");
    let folder = tempfile::tempdir().unwrap();
    let done = Command::new(python)
        .arg(script)
        // These faults: a server of NATS, the leader and a follower are killed.
        .args(["--faults", "3", "--seed", "10", "--program"])
        .arg(lineshaft_path(env!("CARGO_BIN_EXE_lineshaft")))
        .arg("--nats-server")
        .arg(nats_server)
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
    assert!(done.status.success(), "{said}");
    assert!(said.contains("Nothing acknowledged was lost"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{said}");
}
