//! The engine, tested through its public interface.

mod items;
mod random;
mod routes;
mod semantics;
mod work;
mod world;
