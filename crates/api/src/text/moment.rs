//! Moments as text, in the form of RFC 3339: `2026-11-22T09:30:00.000Z`.

use broker::Millis;

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_1970: u64 = 719_468;
/// Days in 400 years.
const ERA_DAYS: u64 = 146_097;

/// A moment of the wall clock as text.
pub fn written(moment: Millis) -> String {
    let (seconds, millis) = (moment.0 / 1_000, moment.0 % 1_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The moment with this text, exactly as [`written`] writes it.
pub(crate) fn read(text: &str) -> Option<Millis> {
    let number = |from: usize, to: usize| -> Option<u64> { text.get(from..to)?.parse().ok() };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    // The same calendar as in `date`.
    let (year, month) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * month + 2) / 5 + day.checked_sub(1)?;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * ERA_DAYS + day_of_era).checked_sub(DAYS_BEFORE_1970)?;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    let moment = Millis(seconds * 1_000 + number(20, 23)?);
    // Anything else, such as a 30th of February, is written in another way.
    (written(moment) == text).then_some(moment)
}

/// Year, month and day. A year here begins in March, so that the leap day is its last day.
fn date(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + DAYS_BEFORE_1970;
    let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    // The last day of 4, 100 or 400 years is a leap day, or the place of a missing one.
    let leap_days = day_of_era / 1_460 + day_of_era / (ERA_DAYS - 1) - day_of_era / 36_524;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, each five months have 153 days.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_calendars_have_them() {
        for (second, wanted) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_827_696, "2000-02-29T12:34:56.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (1_709_251_200, "2024-03-01T00:00:00.000Z"),
            (1_767_225_599, "2025-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(written(Millis(second * 1_000)), wanted);
            assert_eq!(read(wanted), Some(Millis(second * 1_000)));
        }
        assert_eq!(written(Millis(1_234)), "1970-01-01T00:00:01.234Z");
    }

    #[test]
    fn other_texts_are_no_moments() {
        for wrong in [
            "",
            "2026-11-25",
            "2026-11-25T09:30:00Z",
            "2026-11-25t09:30:00.000Z",
            "2026-02-30T09:30:00.000Z",
            "2026-00-00T00:00:00.000Z",
            "2026-11-25T24:00:00.000Z",
            "2026-11-25T09:30:00.000+",
            "1969-12-31T23:59:59.999Z",
            "+026-11-25T09:30:00.000Z",
            "2026-11-2é 09:30:00.000Z",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_day_follows_the_day_before() {
        let mut before = date(0);
        for day in 1..200_000 {
            let next = date(day);
            let is_next = next == (before.0, before.1, before.2 + 1);
            let begins_month = next.2 == 1
                && (28..=31).contains(&before.2)
                && (next.0, next.1)
                    == if before.1 == 12 { (before.0 + 1, 1) } else { (before.0, before.1 + 1) };
            assert!(is_next || begins_month, "{before:?} {next:?}");
            let moment = Millis(day * 86_400_000 + 1);
            assert_eq!(read(&written(moment)), Some(moment));
            before = next;
        }
    }
}
