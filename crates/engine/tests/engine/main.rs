//! The engine, tested through its public interface.

mod items;
mod routes;
mod semantics;
mod work;
mod world;
