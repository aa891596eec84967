//! Tube names: which names the protocol allows.

/// Longest tube name in bytes.
const NAME_BYTES_MAX: usize = 200;

/// The valid bytes of a tube name.
static IS_NAME_BYTE: [bool; 256] = {
    let mut table = [false; 256];
    let allowed = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()";
    let mut index = 0;
    while index < allowed.len() {
        table[allowed[index] as usize] = true;
        index += 1;
    }
    table
};

/// Whether `name` is a tube name.
pub(crate) fn is_tube_name(name: &[u8]) -> bool {
    let fits = matches!(name.len(), 1..=NAME_BYTES_MAX);
    fits && name[0] != b'-' && name_prefix_len(name) == name.len()
}

/// Number of bytes at the front of `text` that are valid in a tube name.
pub(crate) fn name_prefix_len(text: &[u8]) -> usize {
    text.iter().position(|&byte| !IS_NAME_BYTE[usize::from(byte)]).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_1_to_200_bytes() {
        assert!(!is_tube_name(b""));
        assert!(is_tube_name(b"a"));
        assert!(is_tube_name(&[b'a'; 200]));
        assert!(!is_tube_name(&[b'a'; 201]));
    }

    #[test]
    fn a_name_does_not_begin_with_a_dash() {
        assert!(!is_tube_name(b"-"));
        assert!(!is_tube_name(b"-a"));
        assert!(is_tube_name(b"a-"));
        assert!(is_tube_name(b"+a"));
    }

    #[test]
    fn each_byte_is_allowed_or_not() {
        for byte in 0..=u8::MAX {
            let allowed = byte.is_ascii_alphanumeric() || b"-+/;.$_()".contains(&byte);
            assert_eq!(is_tube_name(&[b'x', byte]), allowed, "{}", byte.escape_ascii());
        }
    }
}
