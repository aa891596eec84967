//! Converts a client's expiry into the time when an item expires.

use broker::{Millis, When};

/// An expiry from this number on is in seconds since 1970. A smaller expiry is in seconds from now
/// (spec kestrel 0).
// COMPAT(kestrel): memcached's limit is 30 days; cases mc-expiry-999999-relative,
// mc-expiry-absolute-past.
const ABSOLUTE_FROM_S: i32 = 1_000_000;

/// Converts the expiry of a `SET`, in seconds. `None` means that the item never expires.
pub(crate) fn of_seconds(seconds: i32, now: Millis) -> Option<When> {
    match seconds {
        0 => None,
        ABSOLUTE_FROM_S.. => Some(When::Wall(Millis(u64::from(seconds.unsigned_abs()) * 1_000))),
        _ => Some(later(i64::from(seconds) * 1_000, now)),
    }
}

/// Converts the expiry of a text `put`, in milliseconds from now.
// COMPAT(kestrel): 0 means now, and not never; case tx-put-expiry-zero-is-now.
pub(crate) fn of_millis(millis: i32, now: Millis) -> When {
    later(i64::from(millis), now)
}

/// The time that is `millis` milliseconds after `now`. A negative number gives a time before `now`.
fn later(millis: i64, now: Millis) -> When {
    When::At(Millis(now.0.saturating_add_signed(millis)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_700_000_000_000);

    #[test]
    fn small_numbers_count_from_now_and_large_ones_from_1970() {
        let at = |millis| Some(When::At(Millis(millis)));
        let wall = |millis| Some(When::Wall(Millis(millis)));
        assert_eq!(of_seconds(0, NOW), None);
        assert_eq!(of_seconds(5, NOW), at(NOW.0 + 5_000));
        assert_eq!(of_seconds(-1, NOW), at(NOW.0 - 1_000));
        assert_eq!(of_seconds(999_999, NOW), at(NOW.0 + 999_999_000));
        assert_eq!(of_seconds(1_000_000, NOW), wall(1_000_000_000));
        assert_eq!(of_seconds(i32::MAX, NOW), wall(2_147_483_647_000));
        assert_eq!(of_seconds(i32::MIN, NOW), at(0));
        assert_eq!(of_millis(0, NOW), When::At(NOW));
        assert_eq!(of_millis(-3, NOW), When::At(Millis(NOW.0 - 3)));
    }
}
