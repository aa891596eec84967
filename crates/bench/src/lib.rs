//! Load generator and comparisons with the originals.
