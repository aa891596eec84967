//! A date as text.

use broker::Millis;

const DAY_S: u64 = 86_400;
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The date in UTC, in Kestrel's format: `Thu Jan 01 00:00:00 UTC 1970`.
pub(crate) fn written(moment: Millis) -> String {
    let seconds = moment.0 / 1_000;
    let (mut days, second) = (seconds / DAY_S, seconds % DAY_S);
    let weekday = WEEKDAYS[(days % 7) as usize];
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let mut year = 1970;
    while days >= days_of(year) {
        days -= days_of(year);
        year += 1;
    }
    let mut month = 0;
    while days >= days_in(month, year) {
        days -= days_in(month, year);
        month += 1;
    }
    let month = MONTHS[month];
    let day = days + 1;
    format!("{weekday} {month} {day:02} {hour:02}:{minute:02}:{second:02} UTC {year}")
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

/// Number of days in a month. January is month 0.
fn days_in(month: usize, year: u64) -> u64 {
    match month {
        1 if is_leap(year) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_calendars_have_them() {
        for (second, wanted) in [
            (0, "Thu Jan 01 00:00:00 UTC 1970"),
            (951_827_696, "Tue Feb 29 12:34:56 UTC 2000"),
            (1_709_251_199, "Thu Feb 29 23:59:59 UTC 2024"),
            (1_767_225_599, "Wed Dec 31 23:59:59 UTC 2025"),
            (4_107_542_400, "Mon Mar 01 00:00:00 UTC 2100"),
        ] {
            assert_eq!(written(Millis(second * 1_000)), wanted);
        }
    }
}
