//! Tests of schedules: the fields, and the clock changes of several zones.

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;

fn cron(text: &str) -> Cron {
    text.parse().expect("a cron expression")
}

fn zone(name: &str) -> Zone {
    name.parse().expect("a time zone")
}

fn millis(text: &str) -> Millis {
    Millis(text.parse::<Timestamp>().expect("an instant").as_millisecond() as u64)
}

fn shown(wall: Millis) -> String {
    Timestamp::from_millisecond(wall.0 as i64).expect("in the calendar").to_string()
}

/// The next instants after `from`, in UTC.
fn next(text: &str, name: &str, from: &str, count: usize) -> Vec<String> {
    let (cron, zone) = (cron(text), zone(name));
    let mut at = millis(from);
    let mut found = Vec::new();
    for _ in 0..count {
        at = cron.next_after(at, &zone).expect("there is a next instant");
        found.push(shown(at));
    }
    found
}

#[test]
fn each_field_has_numbers_names_ranges_lists_and_steps() {
    let from = "2026-11-24T10:07:30Z";
    let one = |text: &str| next(text, "UTC", from, 1).remove(0);
    assert_eq!(one("* * * * *"), "2026-11-24T10:08:00Z");
    assert_eq!(one("7 * * * *"), "2026-11-24T11:07:00Z");
    assert_eq!(one("*/15 * * * *"), "2026-11-24T10:15:00Z");
    assert_eq!(one("1-31/10 9,22 * * *"), "2026-11-24T22:01:00Z");
    assert_eq!(one("0 0 * FEB *"), "2027-02-01T00:00:00Z");
    assert_eq!(one("30 3 * * mon-fri"), "2026-11-25T03:30:00Z");
    assert_eq!(one("0 0 * * 7"), "2026-11-29T00:00:00Z");
    assert_eq!(one("0 0 * * fri-7"), "2026-11-27T00:00:00Z");
    assert_eq!(one("0 0 29 2 *"), "2028-02-29T00:00:00Z");
    assert_eq!(one(" 0  0\t31 * * "), "2026-12-31T00:00:00Z");
    assert_eq!(one("@weekly"), "2026-11-29T00:00:00Z");
    assert_eq!(one("@hourly"), "2026-11-24T11:00:00Z");
    // 2100 is no leap year.
    assert_eq!(next("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", 1), ["2104-02-29T00:00:00Z"]);
}

#[test]
fn a_day_matches_one_of_two_fields_of_days_if_both_are_restricted() {
    let from = "2026-11-24T00:00:00Z";
    let days = next("0 0 1,15 * mon", "UTC", from, 4);
    assert_eq!(
        days,
        [
            "2026-11-30T00:00:00Z",
            "2026-12-01T00:00:00Z",
            "2026-12-07T00:00:00Z",
            "2026-12-14T00:00:00Z"
        ]
    );
    // A field that begins with `*` does not restrict: here, an odd day that is a Monday.
    assert_eq!(
        next("0 0 */2 * mon", "UTC", from, 2),
        ["2026-12-07T00:00:00Z", "2026-12-21T00:00:00Z"]
    );
}

#[test]
fn what_is_not_a_schedule_is_refused() {
    let field = |text: &str, field, first, last| {
        Err(CronError::Field { text: text.into(), field, first, last })
    };
    let read = |text: &str| text.parse::<Cron>().map(|cron| cron.as_str().to_owned());
    for text in ["", "* * * *", "* * * * * *", "@reboot"] {
        assert_eq!(read(text), Err(CronError::Fields), "{text}");
    }
    assert_eq!(read("60 * * * *"), field("60", "minute", 0, 59));
    assert_eq!(read("* 5,24 * * *"), field("24", "hour", 0, 23));
    assert_eq!(read("* * 0 * *"), field("0", "day of the month", 1, 31));
    assert_eq!(read("* * * foo *"), field("foo", "month", 1, 12));
    assert_eq!(read("* * * * 5-1"), field("5-1", "day of the week", 0, 7));
    for part in ["*/0", "5/2", "1-", "-1", "+1", "1,", "", "0001", "*-5", "1/x"] {
        assert!(read(&format!("{part} * * * *")).is_err(), "{part}");
    }
    assert_eq!(read("0 0 31 2,4 *"), Err(CronError::Never));
    assert_eq!(read(&"1,".repeat(CRON_BYTES)), Err(CronError::TooLong));
    assert_eq!("Mars/Base".parse::<Zone>(), Err(ZoneError("Mars/Base".into())));
    assert_eq!(read(" 0 5  * * 1 "), Ok("0 5 * * 1".into()));
}

const CRON_BYTES: usize = super::cron::CRON_BYTES_MAX;

#[test]
fn zones_have_their_names_in_any_case_and_are_equal_by_name() {
    assert_eq!(zone("europe/berlin").as_str(), "Europe/Berlin");
    assert_eq!(zone("Europe/Berlin"), zone("EUROPE/BERLIN"));
    assert_ne!(zone("Europe/Berlin"), zone("Europe/Paris"));
    assert_eq!((zone("UTC"), zone("UTC").as_str()), (Zone::default(), "UTC"));
}

#[test]
fn a_skipped_local_time_happens_at_the_next_valid_instant() {
    // Berlin, 2027-03-28: after 01:59 comes 03:00, which is 01:00 in UTC.
    let from = "2027-03-27T12:00:00Z";
    assert_eq!(
        next("30 2 * * *", "Europe/Berlin", from, 2),
        ["2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"]
    );
    // All skipped times happen together, and with the first valid one.
    assert_eq!(
        next("*/20 2,3 28 3 *", "Europe/Berlin", from, 4),
        [
            "2027-03-28T01:00:00Z",
            "2027-03-28T01:20:00Z",
            "2027-03-28T01:40:00Z",
            "2028-03-28T00:00:00Z"
        ]
    );
    // Half an hour, in Lord Howe: after 01:59 comes 02:30.
    assert_eq!(
        next("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", 1),
        ["2026-10-03T15:30:00Z"]
    );
    // A whole day, in Samoa: the 30th of December 2011 did not exist.
    assert_eq!(
        next("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", 1),
        ["2011-12-30T10:00:00Z"]
    );
}

#[test]
fn a_repeated_local_time_happens_once() {
    // Berlin, 2026-10-25: 02:00 to 02:59 happen twice, first from 00:00 in UTC.
    let from = "2026-10-24T22:00:00Z";
    assert_eq!(
        next("30 2 * * *", "Europe/Berlin", from, 2),
        ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    );
    // From within the second pass, the next time is after it.
    assert_eq!(
        next("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 4),
        [
            "2026-10-25T00:00:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-25T02:00:00Z",
            "2026-10-25T02:30:00Z"
        ]
    );
    assert_eq!(
        next("* * * * *", "Europe/Berlin", "2026-10-25T01:10:30Z", 1),
        ["2026-10-25T02:00:00Z"]
    );
}

#[test]
fn the_end_of_the_calendar_is_no_error() {
    let last = Millis(i64::MAX as u64);
    assert_eq!(cron("* * * * *").next_after(last, &Zone::default()), None);
    assert_eq!(cron("* * * * *").next_after(Millis(u64::MAX), &Zone::default()), None);
    let end = millis("9999-12-30T20:00:00Z");
    assert_eq!(cron("0 0 1 1 *").next_after(end, &Zone::default()), None);
}

const ZONES: [&str; 6] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/St_Johns",
];

const EXPRESSIONS: [&str; 6] =
    ["*/7 * * * *", "30 1-3 * * *", "0 0 * * 6", "5,59 2 * 3,10,11 *", "0 2 1-8 * sun", "@monthly"];

proptest! {
    /// The search finds what looking at each minute finds: a match whose local time is shown for
    /// the first time, or the end of a change that skips a match.
    #[test]
    fn the_next_instant_is_the_first_minute_that_matches(
        hours in 0_u64..24 * 366 * 2,
        minute in 0_u64..60,
        text in proptest::sample::select(&EXPRESSIONS[..4]),
        name in proptest::sample::select(&ZONES[..]),
    ) {
        let (cron, zone) = (cron(text), zone(name));
        let from = Millis(millis("2026-01-01T00:00:00Z").0 + (hours * 60 + minute) * 60_000);
        let local = |at: Millis| zone.local_minute(at).expect("in the calendar");
        let matches = |at| cron.next_local(at) == Some(at);
        // The latest local time that the zone's clocks have shown. The clocks were set back at most
        // an hour ago, or not at all.
        let mut shown = (0..=180).map(|ago| local(Millis(from.0 - ago * 60_000))).max().unwrap();
        let mut at = from;
        let found = cron.next_after(from, &zone).expect("there is one");
        for _ in 0..3000 {
            at = Millis(at.0 + 60_000);
            let now = local(at);
            let mut happens = false;
            while shown < now {
                shown = super::zone::minute_after(shown).unwrap();
                happens |= matches(shown);
            }
            if happens {
                prop_assert_eq!(found, at);
                return Ok(());
            }
            prop_assert!(found > at, "{} comes too early", super::tests::shown(found));
        }
    }

    #[test]
    fn a_text_never_breaks_the_parser(text in "[-*/,0-9a-z @]{0,30}") {
        if let Ok(cron) = text.parse::<Cron>() {
            prop_assert_eq!(cron.as_str().parse::<Cron>(), Ok(cron.clone()));
            prop_assert!(cron.next_after(Millis(0), &Zone::default()).is_some());
        }
    }
}

#[test]
fn every_expression_goes_on_for_years() {
    for (text, name) in EXPRESSIONS.iter().zip(ZONES) {
        let (cron, zone) = (cron(text), zone(name));
        let mut at = millis("2026-01-01T00:00:00Z");
        for _ in 0..500 {
            let next = cron.next_after(at, &zone).expect("there is a next instant");
            assert!(next > at);
            at = next;
        }
    }
}
