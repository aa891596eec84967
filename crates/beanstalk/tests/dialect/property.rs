//! Tests that the replies do not depend on how the bytes are split, for random conversations and
//! for the corpus of the fuzz target.

use proptest::prelude::*;
use proptest::sample::select;
use testkit::dialect::fragments::check_corpus;
use testkit::dialect::scripts::{body, long_line, noise, script};

use crate::fragments::{check, check_cold};

/// Valid and nearly valid lines. Their numbers are small, so that many lines are about the same
/// job.
fn command(pauses_s: Vec<u32>) -> impl Strategy<Value = Vec<u8>> {
    let tube = select(vec!["default", "a", "b"]);
    let id = 1_u64..12;
    let line = prop_oneof![
        (0..4_u32, prop_oneof![3 => Just(0_u32), 1 => 0..3_u32], 0..4_u32, body()).prop_map(
            |(priority, delay_s, ttr_s, body)| {
                let head = format!("put {priority} {delay_s} {ttr_s} {}\r\n", body.len());
                [head.as_bytes(), &body].concat()
            }
        ),
        tube.clone().prop_map(|tube| format!("use {tube}").into()),
        tube.clone().prop_map(|tube| format!("watch {tube}").into()),
        tube.clone().prop_map(|tube| format!("ignore {tube}").into()),
        tube.clone().prop_map(|tube| format!("stats-tube {tube}").into()),
        (tube, select(pauses_s)).prop_map(|(tube, s)| format!("pause-tube {tube} {s}").into()),
        (-1..3_i32).prop_map(|timeout| format!("reserve-with-timeout {timeout}").into()),
        id.clone().prop_map(|id| format!("delete {id}").into()),
        id.clone().prop_map(|id| format!("touch {id}").into()),
        id.clone().prop_map(|id| format!("reserve-job {id}").into()),
        id.clone().prop_map(|id| format!("kick-job {id}").into()),
        id.clone().prop_map(|id| format!("peek {id}").into()),
        id.clone().prop_map(|id| format!("stats-job {id}").into()),
        (id.clone(), 0..2_u32).prop_map(|(id, delay)| format!("release {id} 1 {delay}").into()),
        id.prop_map(|id| format!("bury {id} 1").into()),
        (0..5_u32).prop_map(|bound| format!("kick {bound}").into()),
        select(vec![
            "reserve",
            "stats",
            "list-tubes",
            "list-tubes-watched",
            "list-tube-used",
            "peek-ready",
            "peek-delayed",
            "peek-buried",
            "quit",
            "nonsense",
            "stats ",
            "",
        ])
        .prop_map(Into::into),
    ];
    line.prop_map(|line| [&line[..], b"\r\n"].concat())
}

fn input(pauses_s: Vec<u32>) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![15 => command(pauses_s), 1 => long_line(200..500)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn conversations_get_the_same_replies_in_any_fragments(
        script in script(input(vec![0, 1, 2, 3]), 60),
    ) {
        check(&script);
    }

    #[test]
    fn random_bytes_get_the_same_replies_in_any_fragments(script in noise()) {
        check(&script);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// If a pause ends while a session waits, and the next job is cold, the session gets the job after
    /// a load. Other sessions can act during the load. So no pause ends here during a wait.
    #[test]
    fn conversations_get_the_same_replies_with_cold_jobs(
        script in script(input(vec![5]), 60),
    ) {
        check_cold(&script);
    }
}

/// Runs the corpus of the fuzz target. The fuzz target makes the same check. See `fuzz/README.md`.
#[test]
fn the_fuzz_corpus_gets_the_same_replies_in_any_fragments() {
    check_corpus("beanstalk_session", 13, check);
}
