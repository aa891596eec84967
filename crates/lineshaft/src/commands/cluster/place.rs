//! The configuration of a node, and the random identity of a new cluster.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ::log::Settings;
use anyhow::{Context as _, Result, anyhow, bail};
use nats::Place;
use nats::guard::{self, Found, Question};
use nats::stream::StreamError;
use replica::Lineage;
use server::config::{Cluster, Config};

use super::super::import::configuration;

/// Servers of NATS that have just started answer late: measured up to 7 s.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(200);

/// The node that the configuration describes.
pub(super) struct Node {
    pub(super) config: Config,
    pub(super) question: Question,
}

impl Node {
    /// Reads the configuration. `replicas` only counts for a new stream.
    pub(super) fn read(
        file: Option<PathBuf>,
        data: Option<&Path>,
        replicas: usize,
    ) -> Result<Node> {
        let data = data.map(|folder| folder.to_str().context("the name of the folder is no text"));
        let config = configuration(file, data.transpose()?.map(str::to_owned))?;
        let question = question(&config.cluster, replicas)?;
        question.place.access.check()?;
        Ok(Node { config, question })
    }

    pub(super) fn place(&self) -> &Place {
        &self.question.place
    }

    /// The settings of the log, for a change of a stopped folder.
    pub(super) fn log_settings(&self) -> Settings {
        log_settings(self.config.data.segment_bytes, self.config.data.bytes_max)
    }

    /// Looks at NATS, and waits while its servers start.
    pub(super) async fn look(&self) -> Result<Found, StreamError> {
        patiently(async || guard::look(&self.question).await).await
    }
}

/// Repeats a question that nobody answers.
pub(super) async fn patiently<T>(
    mut ask: impl AsyncFnMut() -> Result<T, StreamError>,
) -> Result<T, StreamError> {
    let begun = Instant::now();
    loop {
        match ask().await {
            Err(error) if error.may_pass() && begun.elapsed() < PATIENCE => {
                tokio::time::sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}

/// A setting of the log is that of the server, except that every change is synced.
pub(super) fn log_settings(segment_bytes: u64, bytes_max: Option<u64>) -> Settings {
    let sync = ::log::Sync::Always;
    Settings { segment_bytes, bytes_max, sync, ..Settings::default() }
}

fn question(cluster: &Cluster, replicas: usize) -> Result<Question> {
    let Some(name) = cluster.name.clone() else {
        bail!(
            "the configuration has no cluster: set cluster.name, cluster.nats and \
             cluster.nats_monitor; docs/replication.md has an example"
        );
    };
    Ok(cluster.question(cluster.place(name, replicas), None))
}

/// The identity of a new history.
pub(super) fn new_lineage() -> Result<Lineage> {
    let mut lineage = Lineage::default();
    let mut random = File::open("/dev/urandom").context("cannot read random bytes")?;
    random.read_exact(&mut lineage.0)?;
    if lineage == Lineage::default() {
        return Err(anyhow!("/dev/urandom has only zeros"));
    }
    Ok(lineage)
}
