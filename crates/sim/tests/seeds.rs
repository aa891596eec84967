//! Runs thousands of short simulations, and checks that the model and the oracle notice errors.

use std::time::{SystemTime, UNIX_EPOCH};

use lineshaft_sim::{Options, RunKind, Sabotage, run, run_many};

/// Seeds that are the same on every machine.
const FIXED_SEEDS: u64 = 4_000;
const POLICY_SEEDS: u64 = 500;

/// The number of new seeds in every run.
const FRESH_SEEDS: u64 = 500;

/// These seeds have found mistakes. A change of the simulator gives a seed another run.
const SEEDS_THAT_FAILED: [u64; 28] = [
    117_676_100_000_022_088,
    117_675_971_397_484_576,
    117_673_960_030_339_355,
    9_917_673_917_778_168_777,
    5_000_095,
    5_001_864,
    6_000_008,
    30_001_219,
    30_003_602,
    20_007_852,
    51_010_264,
    771_234_567_890_133_020,
    881_234_567_890_129_462,
    881_234_567_890_131_035,
    117_674_670_911_586_798,
    117_676_200_000_010_637,
    117_676_400_000_001_663,
    780_211_562,
    780_213_026,
    780_015_322,
    780_231_872,
    780_021_731,
    59_546_931_272_810_542,
    91_028_415,
    91_034_658,
    91_041_797,
    1_295_475_868_703_617,
    45_506_385_218_663_616,
];

/// Each kind of sabotage must be noticed within this number of runs.
const SABOTAGED_SEEDS: u64 = 10_000;

#[test]
fn policies_keep_their_promises_on_full_disks() {
    let options = Options { kind: RunKind::Policies, ..Options::default() };
    let summary = run_many(0, POLICY_SEEDS, 2, options).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(summary.refusals_with_policies > POLICY_SEEDS / 20, "{summary:?}");
    assert!(summary.restarts > POLICY_SEEDS, "{summary:?}");
    assert!(summary.judged.item_holds > POLICY_SEEDS, "{summary:?}");
    assert!(summary.judged.slots > POLICY_SEEDS, "{summary:?}");
    assert!(summary.judged.rates > POLICY_SEEDS / 20, "{summary:?}");
    assert!(summary.judged.limits > POLICY_SEEDS / 20, "{summary:?}");
    assert!(summary.judged.duplicates > 0, "{summary:?}");
    assert!(summary.judged.retries > 0, "{summary:?}");
}

#[test]
fn fixed_seeds_keep_every_promise() {
    let summary =
        run_many(0, FIXED_SEEDS, 2, Options::default()).unwrap_or_else(|broken| panic!("{broken}"));
    // The runs must have enough events of each kind. Otherwise the simulation tests too little.
    assert!(summary.restarts > FIXED_SEEDS, "{summary:?}");
    assert!(summary.crashed_recoveries > FIXED_SEEDS / 20, "{summary:?}");
    assert!(summary.failures > FIXED_SEEDS / 50, "{summary:?}");
    assert!(summary.reclaimed > FIXED_SEEDS / 10, "{summary:?}");
    assert!(summary.refusals > FIXED_SEEDS / 20, "{summary:?}");
    assert!(summary.lost_changes > FIXED_SEEDS, "{summary:?}");
    assert!(summary.recovered_jobs > FIXED_SEEDS * 5, "{summary:?}");
    assert!(summary.tally.grabs > FIXED_SEEDS * 5, "{summary:?}");
    assert!(summary.tally.wake_ups > FIXED_SEEDS / 5, "{summary:?}");
    assert!(summary.tally.joins > FIXED_SEEDS, "{summary:?}");
    assert!(summary.tally.ends > FIXED_SEEDS, "{summary:?}");
    assert!(summary.tally.opens > FIXED_SEEDS, "{summary:?}");
    assert!(summary.tally.copies > FIXED_SEEDS, "{summary:?}");
    assert!(summary.tally.expiries > FIXED_SEEDS / 2, "{summary:?}");
    assert!(summary.tally.sweep_rests > FIXED_SEEDS / 20, "{summary:?}");
    assert!(summary.tally.idle_queues > FIXED_SEEDS / 20, "{summary:?}");
    assert!(summary.tally.letters > FIXED_SEEDS / 20, "{summary:?}");
    assert!(summary.tally.rejections > FIXED_SEEDS / 5, "{summary:?}");
    assert!(summary.tally.duplicates > FIXED_SEEDS / 20, "{summary:?}");
    assert!(summary.tally.claimed > 0, "{summary:?}");
    assert!(summary.tally.bumps > 0, "{summary:?}");
    assert!(summary.tally.kept_results > FIXED_SEEDS / 40, "{summary:?}");
    assert!(summary.tally.room_waits > FIXED_SEEDS / 20, "{summary:?}");
    assert!(summary.tally.texts > FIXED_SEEDS * 5, "{summary:?}");
    assert!(summary.tally.calls > FIXED_SEEDS * 5, "{summary:?}");
    assert!(summary.long_clearings > FIXED_SEEDS / 200, "{summary:?}");
    assert!(summary.held_chores > FIXED_SEEDS / 100, "{summary:?}");
    assert!(summary.memory_refusals > FIXED_SEEDS / 20, "{summary:?}");
    assert!(summary.indexes > FIXED_SEEDS / 4, "{summary:?}");
    assert!(summary.cooled > FIXED_SEEDS / 2, "{summary:?}");
    // A quarter of the changes of one job are made in place: see `changes_by_hand`.
    assert!(summary.moves > FIXED_SEEDS * 3 / 4, "{summary:?}");
    assert!(summary.set_asides > FIXED_SEEDS / 20, "{summary:?}");
    assert!(summary.changes_by_hand > FIXED_SEEDS / 20, "{summary:?}");
    assert!(summary.redrives > FIXED_SEEDS / 200, "{summary:?}");
    let judged = summary.judged;
    assert!(judged.orders > FIXED_SEEDS, "{judged:?}");
    assert!(judged.holds > FIXED_SEEDS * 5, "{judged:?}");
    assert!(judged.item_orders > FIXED_SEEDS / 8, "{judged:?}");
    assert!(judged.item_holds > FIXED_SEEDS, "{judged:?}");
    assert!(judged.items_kept > FIXED_SEEDS / 40, "{judged:?}");
    assert!(judged.limits > FIXED_SEEDS / 40, "{judged:?}");
    assert!(judged.rates > FIXED_SEEDS / 40, "{judged:?}");
    assert!(judged.slots > FIXED_SEEDS / 10, "{judged:?}");
    assert!(judged.keys > FIXED_SEEDS / 40, "{judged:?}");
    assert!(judged.pauses > FIXED_SEEDS / 80, "{judged:?}");
}

#[test]
fn fresh_seeds_keep_every_promise() {
    // Set the first variable to run the same seeds again. The test command sets the second one.
    let number = |name| std::env::var(name).ok().and_then(|seed| seed.parse().ok());
    let base = number("LINESHAFT_SIM_SEED")
        .or_else(|| number("LINESHAFT_FRESH_SEED").map(|seed: u64| seed << 16));
    let base: u64 = base.unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_millis() as u64) << 16
    });
    println!("seeds from LINESHAFT_SIM_SEED={base}");
    if let Err(broken) = run_many(base, FRESH_SEEDS, 2, Options::default()) {
        panic!("{broken}");
    }
}

#[test]
fn seeds_that_failed_once_keep_every_promise() {
    for seed in SEEDS_THAT_FAILED {
        run(seed, Options::default()).unwrap_or_else(|broken| panic!("{broken}"));
    }
}

#[test]
fn the_same_seed_makes_the_same_run() {
    for seed in 0..60 {
        let once = run(seed, Options::default()).unwrap_or_else(|broken| panic!("{broken}"));
        let again = run(seed, Options::default()).unwrap_or_else(|broken| panic!("{broken}"));
        assert_eq!(once, again, "seed {seed}");
    }
}

#[test]
fn nothing_that_anybody_sees_depends_on_the_seed_of_the_hashes() {
    for seed in 0..60 {
        let seen = [0, 1, u64::MAX].map(|hash_seed| {
            let options = Options { hash_seed, ..Options::default() };
            run(seed, options).unwrap_or_else(|broken| panic!("{broken}"))
        });
        assert!(seen[0] == seen[1] && seen[0] == seen[2], "seed {seed}");
    }
}

fn assert_is_noticed(sabotage: Sabotage, words: &str) {
    let options = Options { sabotage, ..Options::default() };
    let noticed = (0..SABOTAGED_SEEDS).find_map(|seed| run(seed, options).err());
    let broken = noticed.unwrap_or_else(|| panic!("{sabotage:?} was never noticed"));
    assert!(broken.problem.contains(words), "{broken}");
}

/// Checks that the oracle notices the sabotage in some run. In other runs, the model may notice it
/// first.
fn assert_oracle_notices(sabotage: Sabotage, words: &str) {
    assert_oracle_notices_with(Options { sabotage, ..Options::default() }, words);
}

fn assert_oracle_notices_with(options: Options, words: &str) {
    let sabotage = options.sabotage;
    let is_it = |problem: &str| problem.starts_with("oracle:") && problem.contains(words);
    let mut problems = (0..SABOTAGED_SEEDS).filter_map(|seed| run(seed, options).err());
    let is_noticed = problems.any(|broken| is_it(&broken.problem));
    assert!(is_noticed, "{sabotage:?} was never noticed by the oracle");
}

/// Checks that the model notices the sabotage in some run, because a certain expected reply did not
/// come.
fn assert_is_noticed_in_reply(sabotage: Sabotage, is_such: impl Fn(&str) -> bool) {
    let options = Options { sabotage, ..Options::default() };
    let is_noticed = |problem: &str| {
        let wanted = problem.split_once("expected the reply \"").map(|(_, rest)| rest);
        wanted.and_then(|rest| rest.lines().next()).is_some_and(&is_such)
    };
    let mut problems = (0..SABOTAGED_SEEDS).filter_map(|seed| run(seed, options).err());
    assert!(problems.any(|broken| is_noticed(&broken.problem)), "{sabotage:?} was never noticed");
}

#[test]
fn items_that_vanish_are_noticed_over_text() {
    assert_is_noticed_in_reply(Sabotage::LostJobs, |reply| reply.starts_with(':'));
}

#[test]
fn items_that_outlive_their_moment_are_noticed_over_text() {
    assert_is_noticed_in_reply(Sabotage::LateExpiries, |reply| reply.starts_with("*\\n"));
}

/// The beginning of thrift's reply to a `get`, after its length.
const GOT: &str = "\\x80\\x01\\x00\\x02\\x00\\x00\\x00\\x03get";

#[test]
fn items_that_vanish_are_noticed_over_thrift() {
    assert_is_noticed_in_reply(Sabotage::LostJobs, |reply| reply.contains(GOT));
}

#[test]
fn items_that_outlive_their_moment_are_noticed_over_thrift() {
    assert_is_noticed_in_reply(Sabotage::LateExpiries, |reply| reply.contains(GOT));
}

#[test]
fn leases_that_end_too_early_are_noticed_by_the_oracle() {
    assert_oracle_notices(Sabotage::ShortLeases, "holds it for");
}

#[test]
fn jobs_that_fall_behind_are_noticed_by_the_oracle() {
    assert_oracle_notices(Sabotage::WrongOrder, "comes before");
}

#[test]
fn jobs_that_vanish_are_noticed_by_the_oracle() {
    assert_oracle_notices(Sabotage::LostJobs, "acknowledged and not ended");
}

#[test]
fn jobs_that_come_early_are_noticed_by_the_oracle() {
    assert_oracle_notices(Sabotage::RestlessJobs, "is due in");
}

#[test]
fn items_that_two_have_open_are_noticed_by_the_oracle() {
    assert_oracle_notices(Sabotage::ShortLeases, "has it open");
}

#[test]
fn items_that_fall_behind_are_noticed_by_the_oracle() {
    assert_oracle_notices(Sabotage::WrongOrder, "was put before it");
}

#[test]
fn items_that_vanish_are_noticed_by_the_oracle() {
    assert_oracle_notices(Sabotage::LostJobs, "was there");
}

#[test]
fn a_child_that_misses_an_item_is_noticed_by_the_oracle() {
    assert_oracle_notices(Sabotage::MissedCopies, "the copy of item");
}

#[test]
fn items_that_outlive_their_moment_are_noticed_by_the_oracle() {
    assert_oracle_notices(Sabotage::LateExpiries, "the item expired");
}

#[test]
fn items_that_are_too_big_are_noticed_by_the_oracle() {
    assert_oracle_notices(Sabotage::IgnoredLimits, "takes no item of");
}

#[test]
fn limits_that_are_not_kept_are_noticed_by_the_oracle() {
    assert_oracle_notices(Sabotage::IgnoredLimits, "was full with");
}

#[test]
fn bursts_above_a_rate_are_noticed_by_the_oracle() {
    assert_oracle_notices(Sabotage::OpenGates, "handed out");
}

#[test]
fn too_many_leases_of_a_queue_are_noticed_by_the_oracle() {
    assert_oracle_notices(Sabotage::OpenGates, "are leased, with a limit of");
}

#[test]
fn too_many_leases_of_an_ordered_queue_are_noticed_by_the_oracle() {
    assert_oracle_notices(Sabotage::OpenOrders, "and a strict order");
}

#[test]
fn too_many_leases_of_a_key_are_noticed_by_the_oracle() {
    assert_oracle_notices(Sabotage::OpenKeys, "with the key");
}

#[test]
fn jobs_that_pass_others_in_an_ordered_queue_are_noticed() {
    assert_is_noticed_in_reply(Sabotage::LooseOrders, |_| true);
}

#[test]
fn keys_that_come_out_of_turn_are_noticed() {
    assert_is_noticed_in_reply(Sabotage::OtherShares, |_| true);
}

#[test]
fn jobs_that_do_not_age_are_noticed() {
    assert_is_noticed_in_reply(Sabotage::NoAging, |_| true);
}

#[test]
fn the_oracle_notices_hand_outs_in_a_pause() {
    let sabotage = Sabotage::OpenGates;
    let options = Options { sabotage, kind: RunKind::Policies, ..Options::default() };
    assert_oracle_notices_with(options, "in a pause");
}

#[test]
fn doubles_within_a_window_are_noticed() {
    assert_is_noticed(Sabotage::ForgottenClaims, "");
}

#[test]
fn the_oracle_notices_doubles_of_jobs_that_are_there() {
    let sabotage = Sabotage::ForgottenClaims;
    let options = Options { sabotage, kind: RunKind::Policies, ..Options::default() };
    assert_oracle_notices_with(options, "is there, with");
}

#[test]
fn the_oracle_notices_retries_without_end() {
    let sabotage = Sabotage::EndlessRetries;
    let options = Options { sabotage, kind: RunKind::Policies, ..Options::default() };
    assert_oracle_notices_with(options, "times, the limit is");
}

#[test]
fn retries_without_end_are_noticed() {
    let options = Options { sabotage: Sabotage::EndlessRetries, ..Options::default() };
    let mut problems = (0..SABOTAGED_SEEDS).filter_map(|seed| run(seed, options).err());
    assert!(problems.any(|broken| broken.problem.contains("the model says")));
}

#[test]
fn replies_that_leave_too_early_are_noticed() {
    assert_is_noticed(Sabotage::EarlyReplies, "no prefix");
}

#[test]
fn replies_that_leave_too_early_are_noticed_when_they_leave() {
    assert_is_noticed(Sabotage::HastyReplies, "not written");
}

#[test]
fn a_disk_that_lies_about_its_syncs_is_noticed() {
    assert_is_noticed(Sabotage::LyingSync, "");
}

#[test]
fn a_lost_end_of_the_log_is_noticed() {
    assert_is_noticed(Sabotage::LostTail, "");
}

#[test]
fn sleepers_that_are_not_woken_are_noticed() {
    assert_is_noticed(Sabotage::LostWakeUps, "events under way");
}

#[test]
fn outcomes_that_are_not_sent_are_noticed() {
    assert_is_noticed(Sabotage::LostEnds, "events under way");
}

#[test]
fn outcomes_that_are_sent_twice_are_noticed() {
    assert_is_noticed(Sabotage::DoubledEnds, "events under way");
}

#[test]
fn news_that_overtake_each_other_are_noticed() {
    assert_is_noticed(Sabotage::DisorderedNews, "expected the reply");
}

#[test]
fn jobs_that_come_too_early_are_noticed() {
    assert_is_noticed(Sabotage::FastClock, "");
}

#[test]
fn jobs_that_end_with_their_waiting_clients_are_noticed() {
    assert_is_noticed(Sabotage::TakesAlong, "");
}

#[test]
fn items_that_outlive_their_moment_are_noticed() {
    assert_is_noticed(Sabotage::SlowClock, "");
}

#[test]
fn policies_that_are_not_obeyed_are_noticed() {
    assert_is_noticed(Sabotage::StalePolicies, "");
}

#[test]
fn a_child_that_misses_an_item_is_noticed() {
    assert_is_noticed(Sabotage::LostCopies, "jobs are");
}
