//! The engine, tested through its public interface.

mod semantics;
mod work;
mod world;
