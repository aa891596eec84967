//! Random scripts for the property tests of dialects. The module `fragments` describes scripts.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::fragments::{HALF_CLOSE, RECONNECT, SWITCH, WAIT};

/// A script with at most `pieces_max` pieces. Most pieces are commands. Some are noise or other
/// actions of clients.
pub fn script(
    command: impl Strategy<Value = Vec<u8>>,
    pieces_max: usize,
) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        18 => command,
        1 => vec(any::<u8>(), 0..30),
        1 => vec(select(&b"\r\n"[..]), 1..5),
        4 => any::<u8>().prop_map(|client| vec![SWITCH, client]),
        2 => (0..30_u8).prop_map(|tenths| vec![WAIT, tenths]),
        1 => Just(vec![HALF_CLOSE]),
        1 => Just(vec![RECONNECT]),
    ];
    (any::<u8>(), vec(piece, 0..pieces_max))
        .prop_map(|(seed, pieces)| [&[seed], &pieces.concat()[..]].concat())
}

/// A script of random bytes. Most of them are sent unchanged.
pub fn noise() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..600)
}

/// A line that may be longer than a dialect accepts.
pub fn long_line(lengths: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    lengths.prop_map(|len| [&vec![b'x'; len][..], b"\r\n"].concat())
}

/// A job's body. Most bodies are short and can contain line ends; some have about 300 bytes.
pub fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => vec(select(&b"\r\n\0xyz"[..]), 0..8),
        1 => vec(Just(b'z'), 290..320),
    ]
}
