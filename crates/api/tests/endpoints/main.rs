//! Tests of the endpoints through the router, without a socket.

#![expect(clippy::unwrap_used, reason = "a test may end there")]

mod access;
mod acting;
mod bodies;
mod cold;
mod connections;
mod events;
mod history;
mod jobs;
mod kept;
mod operations;
mod past_jobs;
mod queues;
mod reading;
mod routes;
mod search;
mod versions;
mod why;
mod world;
