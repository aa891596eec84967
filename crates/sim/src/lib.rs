//! Whole-system simulation on a simulated disk and clock.
