//! Measurements of Gearman's own requests.

use std::time::Duration;

use crate::compare::lab::server::Server;
use crate::compare::lab::{BODY_BYTES, Lab};
use crate::compare::plan::sizes::{Bounds, Span};
use crate::compare::plan::work::{Sample, Shape};
use crate::modes::{submit_drivers, work_drivers};

/// The function of all jobs.
const FUNCTION: &str = "bench";

/// Measures background submits.
pub(crate) fn submit(lab: &Lab, shape: Shape, server: &Server) -> anyhow::Result<Sample> {
    let drivers = submit_drivers(FUNCTION, shape.connections as usize, BODY_BYTES);
    lab.throughput(server, drivers, shape, lab.sizes.span())
}

/// Measures workers that take jobs from a queue that is already long.
pub(crate) fn grab(lab: &Lab, shape: Shape, server: &Server) -> anyhow::Result<Sample> {
    let submits = submit_drivers(FUNCTION, 50, BODY_BYTES);
    lab.load(server, submits, 32, Bounds::exactly(lab.sizes.backlog_jobs))?;
    // There is no warm-up, because a fast server would empty the queue before the measurement
    // begins.
    let workers = work_drivers(FUNCTION, shape.connections as usize);
    lab.throughput(server, workers, shape, Span { warm_up: Duration::ZERO, ..lab.sizes.span() })
}
