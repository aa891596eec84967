//! Cron expressions: minute, hour, day of the month, month, day of the week, as in crontab(5).

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

use jiff::ToSpan;
use jiff::civil::{Date, DateTime, date};

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
/// Sunday is 0 and 7.
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const SUNDAY_AGAIN: u32 = 7;

/// The words for whole expressions.
const WORDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The longest time between two days that match: the 29th of February, around a year such as 2100.
const YEARS_MAX: i16 = 9;

/// The longest expression, in bytes.
pub(crate) const CRON_BYTES_MAX: usize = 200;

/// A cron expression.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cron(Arc<Expression>);

/// The values of each field, as bits.
#[derive(Debug, Eq, PartialEq)]
struct Expression {
    text: String,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether a day must match both fields of days. Otherwise, it must match one of them.
    needs_both: bool,
}

/// The reason why a text is not a cron expression.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CronError {
    /// It does not have five fields.
    #[error(
        "a cron expression has five fields: minute, hour, day of the month, month, day of the week"
    )]
    Fields,
    /// A field cannot be read.
    #[error(
        "`{text}` is not a {field}: write numbers from {first} to {last}, such as `*`, `{first}`, \
         `{first}-{last}`, `*/2`, or a list"
    )]
    Field {
        /// The part that cannot be read.
        text: String,
        /// The name of the field.
        field: &'static str,
        /// The least value.
        first: u32,
        /// The greatest value.
        last: u32,
    },
    /// No day matches.
    #[error("no day matches this cron expression")]
    Never,
    /// It is too long.
    #[error("a cron expression has at most {CRON_BYTES_MAX} bytes")]
    TooLong,
}

/// One of the five fields.
struct Field {
    name: &'static str,
    values: RangeInclusive<u32>,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", values: 0..=59, names: &[] },
    Field { name: "hour", values: 0..=23, names: &[] },
    Field { name: "day of the month", values: 1..=31, names: &[] },
    Field { name: "month", values: 1..=12, names: &MONTHS },
    Field { name: "day of the week", values: 0..=SUNDAY_AGAIN, names: &WEEKDAYS },
];

impl Field {
    /// Reads a list of values, as bits.
    fn read(&self, text: &str) -> Result<u64, CronError> {
        text.split(',').map(|part| self.part(part)).try_fold(0, |bits, part| Ok(bits | part?))
    }

    fn part(&self, text: &str) -> Result<u64, CronError> {
        self.range(text).ok_or_else(|| CronError::Field {
            text: text.to_owned(),
            field: self.name,
            first: *self.values.start(),
            last: *self.values.end(),
        })
    }

    /// Reads a value, or a range, which can have a step.
    fn range(&self, text: &str) -> Option<u64> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(number(step).filter(|step| *step > 0)?)),
            None => (text, None),
        };
        let (first, last) = if range == "*" {
            (*self.values.start(), *self.values.end())
        } else if let Some((first, last)) = range.split_once('-') {
            let (first, last) = (self.value(first)?, self.value(last)?);
            // A range up to Sunday: Sunday is 0, and 7 at the end of a week.
            let ends_on_sunday = last == 0 && first > 0 && *self.values.end() == SUNDAY_AGAIN;
            (first, if ends_on_sunday { SUNDAY_AGAIN } else { last })
        } else if step.is_some() {
            // A step needs a range.
            return None;
        } else {
            let value = self.value(range)?;
            (value, value)
        };
        let values = (first..=last).step_by(step.unwrap_or(1) as usize);
        let bits = values.fold(0, |bits, value| bits | 1_u64 << value);
        (bits != 0).then_some(bits)
    }

    fn value(&self, text: &str) -> Option<u32> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let value = match named {
            Some(place) => place as u32 + self.values.start(),
            None => number(text)?,
        };
        self.values.contains(&value).then_some(value)
    }
}

/// Reads one to three digits.
fn number(text: &str) -> Option<u32> {
    let is_number = text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

impl FromStr for Cron {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        if text.len() > CRON_BYTES_MAX {
            return Err(CronError::TooLong);
        }
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let text = fields.join(" ");
        if let [word] = fields[..]
            && let Some((_, meaning)) = WORDS.iter().find(|(known, _)| *known == word)
        {
            let fields: Vec<&str> = meaning.split(' ').collect();
            return Expression::read(text, &fields);
        }
        Expression::read(text, &fields)
    }
}

impl Expression {
    fn read(text: String, fields: &[&str]) -> Result<Cron, CronError> {
        let [minutes, hours, days, months, weekdays] = fields else {
            return Err(CronError::Fields);
        };
        let of_week = FIELDS[4].read(weekdays)?;
        let sunday = of_week >> SUNDAY_AGAIN & 1;
        let is_free = |field: &str| field.starts_with('*');
        let expression = Self {
            text,
            minutes: FIELDS[0].read(minutes)?,
            hours: FIELDS[1].read(hours)?,
            days: FIELDS[2].read(days)?,
            months: FIELDS[3].read(months)?,
            weekdays: of_week & !(1 << SUNDAY_AGAIN) | sunday,
            needs_both: is_free(days) || is_free(weekdays),
        };
        let happens = expression.next_local(date(2000, 1, 1).at(0, 0, 0, 0)).is_some();
        if happens { Ok(Cron(Arc::new(expression))) } else { Err(CronError::Never) }
    }

    fn matches(&self, day: Date) -> bool {
        let by_month = self.days >> day.day() & 1 == 1;
        let by_week = self.weekdays >> day.weekday().to_sunday_zero_offset() & 1 == 1;
        if self.needs_both { by_month && by_week } else { by_month || by_week }
    }

    /// The first time of a day that matches, from this hour and minute on.
    fn time(&self, hour: i8, minute: i8) -> Option<(i8, i8)> {
        let first = |bits: u64| (bits != 0).then(|| bits.trailing_zeros() as i8);
        let from = |bits: u64, start: i8| first(bits >> start).map(|more| start + more);
        let is_this_hour = self.hours >> hour & 1 == 1;
        if is_this_hour && let Some(minute) = from(self.minutes, minute) {
            return Some((hour, minute));
        }
        Some((from(self.hours, hour + 1)?, first(self.minutes)?))
    }

    fn next_local(&self, start: DateTime) -> Option<DateTime> {
        let (mut day, mut hour, mut minute) = (start.date(), start.hour(), start.minute());
        let last_year = start.year().saturating_add(YEARS_MAX);
        while day.year() <= last_year {
            if self.months >> day.month() & 1 == 0 {
                day = day.first_of_month().checked_add(1.month()).ok()?;
            } else if self.matches(day)
                && let Some((hour, minute)) = self.time(hour, minute)
            {
                return Some(day.at(hour, minute, 0, 0));
            } else {
                day = day.tomorrow().ok()?;
            }
            (hour, minute) = (0, 0);
        }
        None
    }
}

impl Cron {
    /// The text, with single spaces.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// The first local time from this one on that matches.
    pub(super) fn next_local(&self, start: DateTime) -> Option<DateTime> {
        self.0.next_local(start)
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
