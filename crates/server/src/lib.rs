//! Sockets, threads, clock, signals and configuration.
