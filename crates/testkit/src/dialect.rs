//! Tests dialects without a server: sessions, a broker and simulated time in one thread.

pub mod fragments;
pub mod scripts;
pub mod world;
