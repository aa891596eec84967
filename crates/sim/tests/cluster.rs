//! Runs simulations of a cluster of three nodes, and checks that the oracle and the nodes notice
//! errors.

use lineshaft_sim::{Options, RunKind, Sabotage, Summary, run, run_many};

/// Seeds that are the same on every machine.
const SEEDS: u64 = 700;

/// Each kind of sabotage must be noticed within this number of runs.
const SABOTAGED_SEEDS: u64 = 300;

fn options(sabotage: Sabotage) -> Options {
    Options { kind: RunKind::Cluster, sabotage, ..Options::default() }
}

#[test]
fn cluster_seeds_keep_every_promise() {
    let ran = run_many(0, SEEDS, 2, options(Sabotage::None));
    let Summary { replication, judged, replies, .. } =
        ran.unwrap_or_else(|broken| panic!("{broken}"));
    // The runs must have enough events of each kind. Otherwise the simulation tests too little.
    assert!(replies > SEEDS * 50, "{replies}");
    assert!(replication.takeovers > SEEDS * 3, "{replication:?}");
    assert!(replication.groups > SEEDS * 20, "{replication:?}");
    assert!(replication.unknown > SEEDS, "{replication:?}");
    assert!(replication.refused > SEEDS, "{replication:?}");
    assert!(replication.stale > SEEDS / 50, "{replication:?}");
    assert!(replication.deposed > SEEDS / 10, "{replication:?}");
    assert!(replication.resigned > SEEDS / 2, "{replication:?}");
    assert!(replication.yields > SEEDS / 20, "{replication:?}");
    assert!(replication.fired > SEEDS / 10, "{replication:?}");
    assert!(judged.rates > 0 && judged.slots > 0, "{judged:?}");
    assert!(replication.trims > SEEDS / 10, "{replication:?}");
    assert!(replication.renewals > SEEDS / 20, "{replication:?}");
    assert!(judged.holds > SEEDS, "{judged:?}");
    assert!(judged.item_holds > SEEDS / 4, "{judged:?}");
    assert!(judged.outcomes > SEEDS / 10, "{judged:?}");
    assert!(judged.sleeps > SEEDS / 10, "{judged:?}");
    assert!(judged.handles > SEEDS, "{judged:?}");
}

/// These seeds have found mistakes. A change of the simulator gives a seed another run.
#[test]
fn seeds_that_failed_once_keep_every_promise() {
    for seed in [73, 118, 230, 1138, 9617, 300_486, 51_000_096, 73_001_021] {
        run(seed, options(Sabotage::None)).unwrap_or_else(|broken| panic!("{broken}"));
    }
}

#[test]
fn the_same_seed_makes_the_same_run() {
    for seed in 0..10 {
        let [once, again] = [0, 1].map(|hash_seed| {
            let options = Options { hash_seed, ..options(Sabotage::None) };
            run(seed, options).unwrap_or_else(|broken| panic!("{broken}"))
        });
        assert_eq!(once, again, "seed {seed}");
    }
}

/// Checks that this error is noticed in some run, and that it is described with one of these words.
fn assert_is_noticed(sabotage: Sabotage, words: &[&str]) {
    let mut problems = (0..SABOTAGED_SEEDS).filter_map(|seed| run(seed, options(sabotage)).err());
    let noticed = problems.next().unwrap_or_else(|| panic!("{sabotage:?} was never noticed"));
    assert!(words.iter().any(|word| noticed.problem.contains(word)), "{noticed}");
}

#[test]
fn a_stream_without_conditions_is_noticed() {
    assert_is_noticed(
        Sabotage::FenceOff,
        &["acknowledges", "has a fault", "the stream:", "oracle:", "leads in epoch"],
    );
}

#[test]
fn replies_before_the_stream_are_noticed() {
    assert_is_noticed(Sabotage::EarlyAcks, &["oracle:", "no part of the history"]);
}

#[test]
fn replies_before_the_stream_are_noticed_when_they_leave() {
    assert_is_noticed(Sabotage::HastyAcks, &["before the stream has it", "but the stream has"]);
}

/// Only the oracle can see what is lost: jobs and items that were acknowledged, and the ends of others.
#[test]
fn what_replies_before_the_stream_lose_is_noticed_by_the_oracle() {
    let mut words = vec![
        "neither there nor ended",
        "the job was ended before",
        "was acknowledged and must be in",
        "was ended before: Item",
    ];
    for seed in 0..3 * SABOTAGED_SEEDS {
        if let Err(noticed) = run(seed, options(Sabotage::EarlyAcks)) {
            assert!(noticed.problem.starts_with("oracle:"), "{noticed}");
            words.retain(|word| !noticed.problem.contains(word));
        }
        if words.is_empty() {
            return;
        }
    }
    panic!("never noticed: {words:?}");
}

#[test]
fn a_folder_before_the_stream_is_noticed() {
    assert_is_noticed(Sabotage::GateOff, &["no part of the history"]);
}

#[test]
fn facts_in_another_order_are_noticed() {
    assert_is_noticed(Sabotage::DisorderedApply, &["differs from the leader"]);
}

#[test]
fn a_fact_that_is_left_out_is_noticed() {
    assert_is_noticed(Sabotage::SkippedFact, &["differs from the leader"]);
}

#[test]
fn a_claim_before_everything_is_applied_is_noticed() {
    assert_is_noticed(Sabotage::ClaimUnapplied, &["groups", "the history", "leads in epoch"]);
}

#[test]
fn answers_after_the_lease_are_noticed() {
    assert_is_noticed(Sabotage::LeaseOff, &["both answer"]);
}

#[test]
fn a_trim_of_what_one_folder_has_is_noticed() {
    assert_is_noticed_as(Sabotage::TrimOne, "durably, and it is gone");
}

#[test]
fn ids_that_are_assigned_again_are_noticed() {
    assert_is_noticed(Sabotage::IdsAnew, &["assigned again"]);
}

/// Checks that this error is noticed in this way in some run.
fn assert_is_noticed_as(sabotage: Sabotage, words: &str) {
    let seeds = 0..6 * SABOTAGED_SEEDS;
    let mut problems = seeds.filter_map(|seed| run(seed, options(sabotage)).err());
    let is_noticed = problems.any(|broken| broken.problem.contains(words));
    assert!(is_noticed, "{sabotage:?} was never noticed");
}

#[test]
fn a_stream_that_loses_its_end_is_noticed_by_a_node() {
    assert_is_noticed_as(Sabotage::UnflushedStream, "has a fault");
}

#[test]
fn a_record_that_is_lost_is_noticed_by_a_node() {
    assert_is_noticed_as(Sabotage::LostRecord, "needs a copy");
}

#[test]
fn other_bodies_of_a_follower_are_noticed() {
    assert_is_noticed(Sabotage::OtherBodies, &["has another body"]);
}

#[test]
fn timers_of_a_follower_are_noticed() {
    assert_is_noticed(Sabotage::TimersOnFollower, &["but it is delayed until"]);
}

#[test]
fn a_reader_that_applies_late_groups_is_noticed() {
    assert_is_noticed_as(Sabotage::ReaderFenceOff, "no part of the history");
}

#[test]
fn a_claim_behind_an_unread_tail_is_noticed() {
    assert_is_noticed_as(Sabotage::StaleTailTrusted, "leads in epoch");
}

#[test]
fn a_claim_on_servers_that_may_not_flush_is_noticed() {
    assert_is_noticed(Sabotage::GuardsIgnored, &["claims although"]);
}

#[test]
fn disks_of_nodes_that_lie_about_their_syncs_are_noticed() {
    let words = ["known to be durable", "was durable", "no prefix of the history"];
    assert_is_noticed(Sabotage::LyingSync, &words);
}

#[test]
fn leases_that_end_too_early_are_noticed_in_a_cluster() {
    assert_is_noticed_as(Sabotage::ShortLeases, "holds it for");
}

#[test]
fn jobs_that_fall_behind_are_noticed_in_a_cluster() {
    assert_is_noticed_as(Sabotage::WrongOrder, "was put before");
}

#[test]
fn jobs_that_vanish_are_noticed_in_a_cluster() {
    assert_is_noticed_as(Sabotage::LostJobs, "not ended");
}

#[test]
fn other_bytes_for_an_undecided_append_are_noticed() {
    assert_is_noticed(Sabotage::UnfencedResend, &["acknowledges", "has a fault", "the stream:"]);
}

#[test]
fn outcomes_that_get_lost_are_noticed_in_a_cluster() {
    assert_is_noticed_as(Sabotage::LostEnds, "was never told the end");
}

#[test]
fn outcomes_that_come_twice_are_noticed_in_a_cluster() {
    assert_is_noticed_as(Sabotage::DoubledEnds, "does not wait for it");
}

#[test]
fn wake_ups_that_get_lost_are_noticed_in_a_cluster() {
    assert_is_noticed_as(Sabotage::LostWakeUps, "sleeps through job");
}

#[test]
fn news_in_another_order_are_noticed_in_a_cluster() {
    assert_is_noticed_as(Sabotage::DisorderedNews, "news");
}

/// A takeover must not bring back what has ended.
#[test]
fn ends_that_followers_leave_out_are_noticed() {
    assert_is_noticed(Sabotage::ForgottenEnds, &["differs from the leader"]);
}
