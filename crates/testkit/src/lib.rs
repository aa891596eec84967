//! Case runners, process control and free ports for tests.
