//! Tests of the engine through its public interface.

mod apply;
mod cold;
mod crons;
mod dead_letters;
mod defaults;
mod delivery;
mod expiry;
mod gates;
mod items;
mod lanes;
mod meter;
mod moves;
mod pauses;
mod random;
mod removal;
mod retries;
mod routes;
mod semantics;
mod spans;
mod unique;
mod wall;
mod work;
mod world;
