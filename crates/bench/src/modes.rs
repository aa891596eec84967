//! The modes of `bench` that measure one server. Turns arguments into a plan, and a report into
//! text or JSON.

mod plot;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum as _;
use serde::Serialize;

use crate::args::{IdleArgs, LoadArgs, Protocol, PutArgs, TakeArgs, TargetArgs, TripArgs};
use crate::driver::{
    Amqp, Beanstalk, Cursor, Driver, Gearman, Memcache, Nats, Redis, Script, Thrift,
};
use crate::idle::{self, Greeting, IdleReport};
use crate::latency::{LatencySummary, show_micros};
use crate::load::{self, LoadPlan, LoadReport};
use crate::meter::Meter;
use crate::process;
use crate::table::{Table, show_count};
use crate::trip::{self, TripPlan};

/// The time limit of a run that ends by a count.
const COUNTED_RUN_MAX: Duration = Duration::from_hours(1);

/// Runs `bench put`.
pub(crate) fn put(args: &PutArgs) -> anyhow::Result<()> {
    pin(&args.target)?;
    let body_bytes = args.body_bytes as usize;
    let connections = args.load.connections as usize;
    let drivers = match args.queues {
        Some(queues) => {
            let is_beanstalk = args.target.protocol == Protocol::Beanstalk;
            anyhow::ensure!(is_beanstalk, "--queues needs the beanstalk protocol");
            let script = Beanstalk::puts_with_use(body_bytes, queues as usize);
            drivers(connections, script, Beanstalk::script)
        }
        None => queue_put_drivers(args.target.protocol, &args.load.queue, connections, body_bytes),
    };
    let meter = Meter::new();
    let report = run_load(&args.target, &args.load, drivers, &meter)?;
    drop(meter);
    show_load("put", &args.target, &args.load, &report)?;
    if args.queues.is_none() && !args.target.json {
        eprintln!("\nThe jobs stay in the queue. To remove all its jobs: {}", removal(args));
    }
    Ok(())
}

/// The command that removes the jobs of this run, and all others in their queue.
fn removal(args: &PutArgs) -> String {
    let mut words = vec!["lineshaft bench take".to_owned()];
    let protocol = args.target.protocol.to_possible_value();
    if let Some(protocol) = protocol.filter(|_| args.target.protocol != Protocol::Beanstalk) {
        words.push(format!("--protocol {}", protocol.get_name()));
    }
    if args.load.queue != "default" {
        words.push(format!("--queue {}", args.load.queue));
    }
    words.push("--seconds 600 --depth 8".to_owned());
    words.join(" ")
}

/// Runs `bench take`.
pub(crate) fn take(args: &TakeArgs) -> anyhow::Result<()> {
    pin(&args.target)?;
    let meter = Meter::new();
    let connections = args.load.connections as usize;
    let queue = &args.load.queue;
    if args.fill > 0 {
        let body_bytes = args.body_bytes as usize;
        let drivers = queue_put_drivers(args.target.protocol, queue, connections, body_bytes);
        let plan = fill_plan(reach(&args.target)?, drivers, args.fill, &meter);
        let report = load::run(plan)?;
        anyhow::ensure!(
            report.failed == 0,
            "filling failed: {}",
            report.failure.unwrap_or_default()
        );
    }
    let drivers = queue_take_drivers(args.target.protocol, queue, connections);
    let report = run_load(&args.target, &args.load, drivers, &meter)?;
    drop(meter);
    show_load("take", &args.target, &args.load, &report)
}

/// Runs `bench trip`.
pub(crate) fn trip(args: &TripArgs) -> anyhow::Result<()> {
    pin(&args.target)?;
    let meter = Meter::new();
    let mut reports = trip::run(&TripPlan {
        addresses: &[reach(&args.target)?],
        protocol: args.target.protocol,
        pairs: args.connections as usize,
        rate: (args.rate > 0.0).then_some(args.rate),
        duration: seconds(args.seconds)?,
        body_bytes: args.body_bytes as usize,
        meter: &meter,
    })?;
    drop(meter);
    let report = reports.pop().expect("a report for the one server");
    if let Some(path) = &args.plot {
        let title = format!("trip to {}", args.target.server());
        plot::write(&plot::trip_chart(title, &report.latency, &report.curve), path)?;
    }
    let mut table = Table::new(1, &["mode", "trips", "p50", "p90", "p99", "p99.9", "max"]);
    let mut cells = vec!["trip".to_owned(), report.trips.to_string()];
    cells.extend(latency_cells(&report.latency));
    table.row(cells);
    show(&args.target, &report, &table)
}

/// Runs `bench idle`.
pub(crate) fn idle(args: &IdleArgs) -> anyhow::Result<()> {
    pin(&args.target)?;
    let meter = Meter::new();
    let connections = args.connections as usize;
    let hold = seconds(args.seconds)?;
    let greeting = match args.target.protocol {
        Protocol::Beanstalk => Greeting::beanstalk(),
        Protocol::Gearman => Greeting::gearman_worker(idle::FUNCTIONS),
        _ => {
            anyhow::bail!("idle speaks beanstalk or gearman")
        }
    };
    let address = reach(&args.target)?;
    let (report, _streams) =
        idle::run(address, &greeting, connections, args.target.server_pid, &meter)?;
    crate::interrupt::sleep(hold)?;
    drop(meter);
    let mut table =
        Table::new(1, &["mode", "connections", "resident before", "resident after", "bytes each"]);
    table.row(idle_cells(&report));
    show(&args.target, &report, &table)
}

/// Creates one driver per connection. All drivers share the script, and each driver begins at
/// another place of the script.
pub(crate) fn drivers<D: Driver + 'static>(
    connections: usize,
    script: Script,
    driver: impl Fn(Cursor) -> D,
) -> Vec<Box<dyn Driver>> {
    let script = Rc::new(script);
    let cursor = |index| Cursor::cycling(Rc::clone(&script), index, connections);
    boxed(connections, |index| driver(cursor(index)))
}

/// Creates one driver per connection, from the index of the connection.
fn boxed<D: Driver + 'static>(
    connections: usize,
    driver: impl Fn(usize) -> D,
) -> Vec<Box<dyn Driver>> {
    (0..connections).map(|index| Box::new(driver(index)) as Box<dyn Driver>).collect()
}

/// Drivers that put into one tube.
pub(crate) fn put_drivers(
    queue: &str,
    connections: usize,
    body_bytes: usize,
) -> Vec<Box<dyn Driver>> {
    drivers(connections, Beanstalk::puts(body_bytes), |cursor| Beanstalk::put(queue, cursor))
}

/// Drivers that take from one tube.
pub(crate) fn take_drivers(queue: &str, connections: usize) -> Vec<Box<dyn Driver>> {
    boxed(connections, |_| Beanstalk::take(queue))
}

/// Drivers that submit background jobs of one Gearman function.
pub(crate) fn submit_drivers(
    function: &str,
    connections: usize,
    body_bytes: usize,
) -> Vec<Box<dyn Driver>> {
    drivers(connections, Gearman::submits(function, body_bytes), Gearman::submit)
}

/// Drivers that are Gearman workers of one function.
pub(crate) fn work_drivers(function: &str, connections: usize) -> Vec<Box<dyn Driver>> {
    boxed(connections, |_| Gearman::take(function))
}

/// Drivers that put into one queue, in this protocol.
pub(crate) fn queue_put_drivers(
    protocol: Protocol,
    queue: &str,
    connections: usize,
    body_bytes: usize,
) -> Vec<Box<dyn Driver>> {
    match protocol {
        Protocol::Beanstalk => put_drivers(queue, connections, body_bytes),
        Protocol::Gearman => submit_drivers(queue, connections, body_bytes),
        Protocol::Memcache => {
            drivers(connections, Memcache::sets(queue, body_bytes), Memcache::new)
        }
        Protocol::Thrift => drivers(connections, Thrift::puts(queue, body_bytes), Thrift::new),
        Protocol::Redis => drivers(connections, Redis::pushes(queue, body_bytes), Redis::new),
        Protocol::Nats => boxed(connections, |index| Nats::put(queue, body_bytes, index)),
        Protocol::Amqp => drivers(connections, Amqp::publishes(queue, body_bytes), Amqp::put),
    }
}

/// Drivers that take jobs from one queue and finish them, in any protocol.
pub(crate) fn queue_take_drivers(
    protocol: Protocol,
    queue: &str,
    connections: usize,
) -> Vec<Box<dyn Driver>> {
    match protocol {
        Protocol::Beanstalk => take_drivers(queue, connections),
        Protocol::Gearman => work_drivers(queue, connections),
        Protocol::Memcache => drivers(connections, Memcache::gets(queue), Memcache::new),
        Protocol::Thrift => drivers(connections, Thrift::gets(queue), Thrift::new),
        Protocol::Redis => drivers(connections, Redis::pops(queue), Redis::new),
        Protocol::Nats => boxed(connections, |index| Nats::take(queue, index)),
        Protocol::Amqp => boxed(connections, |_| Amqp::take(queue)),
    }
}

fn fill_plan(
    address: SocketAddr,
    drivers: Vec<Box<dyn Driver>>,
    count: u64,
    meter: &Meter,
) -> LoadPlan<'_> {
    LoadPlan {
        address,
        drivers,
        depth: 32,
        count: Some(count),
        duration: COUNTED_RUN_MAX,
        least: 0,
        warm_up: Duration::ZERO,
        rate: None,
        spin: false,
        server_pid: None,
        meter,
    }
}

fn run_load(
    target: &TargetArgs,
    load: &LoadArgs,
    drivers: Vec<Box<dyn Driver>>,
    meter: &Meter,
) -> anyhow::Result<LoadReport> {
    anyhow::ensure!(load.rate.is_none_or(|rate| rate > 0.0), "--rate must be positive");
    process::raise_file_limit();
    let duration = match (load.count, load.seconds) {
        (Some(_), None) => COUNTED_RUN_MAX,
        (_, given) => seconds(given.unwrap_or(5.0))?,
    };
    load::run(LoadPlan {
        address: reach(target)?,
        drivers,
        depth: load.depth as usize,
        count: load.count,
        duration,
        least: 0,
        warm_up: seconds(load.warm_up)?,
        rate: load.rate,
        spin: true,
        server_pid: target.server_pid,
        meter,
    })
}

/// Returns the first of the server's addresses that accepts a connection.
fn reach(target: &TargetArgs) -> anyhow::Result<SocketAddr> {
    let server = target.server();
    let candidates = server.to_socket_addrs().with_context(|| format!("cannot find {server}"))?;
    let mut failure = None;
    for address in candidates {
        match TcpStream::connect(address) {
            Ok(_) => return Ok(address),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        // Show only the kind of the error, because the text of the error also contains the error's
        // number.
        Some(error) => {
            anyhow::bail!("cannot connect to {server}: {}; is the server running?", error.kind())
        }
        None => anyhow::bail!("{server} has no address"),
    }
}

fn pin(target: &TargetArgs) -> anyhow::Result<()> {
    target.pin.map_or(Ok(()), process::pin)
}

/// Parses a time from the command line, in seconds.
pub(crate) fn seconds(value: f64) -> anyhow::Result<Duration> {
    Duration::try_from_secs_f64(value).map_err(|error| anyhow::anyhow!("{value} seconds: {error}"))
}

fn show_load(
    mode: &str,
    target: &TargetArgs,
    load: &LoadArgs,
    report: &LoadReport,
) -> anyhow::Result<()> {
    if let Some(path) = &load.plot {
        let (connections, depth) = (load.connections, load.depth);
        let title = format!("{mode}, {connections}×{depth}, {}", target.server());
        plot::write(&plot::load_chart(title, report), path)?;
    }
    let mut table = Table::new(
        1,
        &[
            "mode",
            "load",
            "done",
            "rate",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max",
            "server CPU",
            "generator",
        ],
    );
    let mut cells = vec![
        mode.to_owned(),
        format!("{}×{}", load.connections, load.depth),
        show_count(report.finished as f64),
        format!("{}/s", show_count(report.rate)),
    ];
    cells.extend(latency_cells(&report.latency));
    cells
        .push(report.server_cpu_us.map_or("–".to_owned(), |micros| format!("{micros:.2} µs each")));
    cells.push(format!("{:.0} % busy", report.generator_cpu * 100.0));
    table.row(cells);
    show(target, report, &table)?;
    if let Some(failure) = &report.failure {
        anyhow::bail!("{} operations were refused, the first with: {failure}", report.failed);
    }
    Ok(())
}

fn latency_cells(latency: &LatencySummary) -> [String; 5] {
    [latency.p50_us, latency.p90_us, latency.p99_us, latency.p999_us, latency.max_us]
        .map(show_micros)
}

fn idle_cells(report: &IdleReport) -> Vec<String> {
    let mebibytes = |bytes: Option<u64>| {
        bytes.map_or("–".to_owned(), |b| format!("{:.1} MiB", b as f64 / 1_048_576.0))
    };
    vec![
        "idle".to_owned(),
        report.connections.to_string(),
        mebibytes(report.resident_before),
        mebibytes(report.resident_after),
        report.bytes_per_connection.map_or("–".to_owned(), |bytes| format!("{bytes:.0}")),
    ]
}

fn show(target: &TargetArgs, report: &impl Serialize, table: &Table) -> anyhow::Result<()> {
    let mut output = io::stdout();
    if target.json {
        let text = serde_json::to_string_pretty(report)?;
        writeln!(output, "{text}")?;
    } else {
        output.write_all(table.text().as_bytes())?;
    }
    Ok(())
}
