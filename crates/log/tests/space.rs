//! Tests that reclaim keeps the log small, and that a full disk refuses only puts.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Random, World, recover, settings};
use lineshaft_log::{FaultDisk, Meta, QueueRef, Settings, Sync};

const SEGMENT: u64 = 256 << 10;

/// Lets the log work until it has nothing to do. Fails if this takes too long.
fn settle(world: &mut World) {
    for _ in 0..10_000 {
        world.log.commit_step(world.now_ms).unwrap();
        world.log.prepare_step().unwrap();
        if !world.reclaim_wanted() || !world.reclaim() {
            return;
        }
    }
    panic!("reclaim never ends");
}

/// Bytes of all segments that the log has ever written.
fn used(world: &World) -> u64 {
    let written = world.log.written();
    u64::from(written.segment()) * SEGMENT + written.offset()
}

fn check_bound(world: &World, when: &str) {
    check_bound_beside(world, 0, when);
}

/// Like `check_bound`, with this many bytes that are kept for updates.
fn check_bound_beside(world: &World, for_updates: u64, when: &str) {
    let usage = world.log.usage();
    let files = usage.data_bytes + usage.ahead_bytes;
    assert!(files <= 2 * usage.live_bytes + 4 * SEGMENT + for_updates, "{when}: {usage:?}");
    assert!(world.disk.used() <= files + 4096, "{when}: stray files {:?}", world.disk.names());
}

#[test]
fn files_stay_near_what_lives() {
    // The number of jobs that stay, the size of the largest body, and the maximum ratio of bytes
    // written to bytes of clients.
    let cases = [(0, 1000, 1.1), (2000, 1000, 2.5), (300, 8000, 2.5), (100, 20_000, 2.5)];
    for (backlog, body_bytes_max, ratio_max) in cases {
        let disk = FaultDisk::new(5, 1 << 30);
        let mut world = World::new(7, disk, settings(Sync::Never)).unwrap();
        world.plain = true;
        world.body_bytes_max = body_bytes_max;
        while world.state.jobs.len() < backlog {
            world.put();
            settle(&mut world);
        }
        let (before, usage) = (used(&world), world.log.usage());
        let mut client_bytes = 0;
        let mut own_bytes = 0;
        for n in 0..300_000_000 / (body_bytes_max * 10) {
            // The backlog stays, and each new job is finished at once.
            assert!(world.put(), "a put was refused on a disk that is not full");
            let job = world.state.jobs.values().next_back().unwrap();
            // The sizes of the put, the finish, and the header of the group that contains both.
            let put = 12 + 40 + job.options.len() + job.body.len();
            client_bytes += (put + 24 + 56) as u64;
            own_bytes += put.next_multiple_of(8) as u64 + 24;
            world.finish_newest();
            if n % 4 == 0 {
                settle(&mut world);
                check_bound(&world, &format!("backlog {backlog} step {n}"));
            }
        }
        let (written, end) = (used(&world) - before, world.log.usage());
        assert_eq!(end.client_bytes - usage.client_bytes, own_bytes);
        // The unused ends of segments count as used, but nothing is written there.
        let counted = end.written_bytes - usage.written_bytes;
        assert!(counted <= written && counted > written * 9 / 10, "{counted} of {written}");
        let ratio = written as f64 / client_bytes as f64;
        println!(
            "backlog {backlog} bodies up to {body_bytes_max}: {ratio:.2} written per byte of clients"
        );
        assert!(ratio < ratio_max, "backlog {backlog}: {ratio} bytes written per byte of clients");
        while !world.state.jobs.is_empty() {
            world.finish(1);
        }
        settle(&mut world);
        check_bound(&world, "empty");
    }
}

#[test]
fn reclaim_says_how_far_it_is_behind_before_the_files_exceed_their_bound() {
    for (backlog, update_segments) in [(0, 0), (0, 1), (50, 0), (300, 0), (3000, 0)] {
        let disk = FaultDisk::new(5, 1 << 30);
        let settings = Settings { update_segments, ..settings(Sync::Never) };
        let for_updates = update_segments * SEGMENT;
        let mut world = World::new(7, disk, settings).unwrap();
        world.plain = true;
        world.body_bytes_max = 2000;
        while world.state.jobs.len() <= backlog {
            world.put();
            settle(&mut world);
        }
        assert!(!world.reclaim_wanted());
        assert_eq!(world.log.reclaim_lag(), 0);
        // Clients append, and reclaim does nothing.
        let mut lags = vec![0];
        let mut used_at_lag_0 = 0;
        while lags.last() != Some(&8) {
            assert!(lags.len() < 1000, "reclaim is never behind");
            world.put();
            world.finish_newest();
            world.log.commit_step(world.now_ms).unwrap();
            world.log.prepare_step().unwrap();
            world.reclaim_wanted();
            let lag = world.log.reclaim_lag();
            if lag < 8 {
                check_bound_beside(&world, for_updates, &format!("backlog {backlog}, lag {lag}"));
            }
            if lag == 0 {
                used_at_lag_0 = used(&world);
            }
            if backlog == 0 {
                // Beside a backlog, reclaim begins to hurry late, and each call raises the lag.
                world.reclaim_wanted();
                assert_eq!(world.log.reclaim_lag(), lag, "only what clients append raises it");
            }
            if lags.last() != Some(&lag) {
                lags.push(lag);
            }
        }
        assert_eq!(lags, [0, 1, 2, 3, 4, 5, 6, 7, 8], "clients slow down step by step");
        if backlog == 0 {
            let steps = used(&world) - used_at_lag_0;
            assert!((SEGMENT / 5..SEGMENT / 3).contains(&steps), "backlog {backlog}: {steps}");
        }
        settle(&mut world);
        assert_eq!(world.log.reclaim_lag(), 0, "reclaim is not behind any more");
        check_bound_beside(&world, for_updates, &format!("backlog {backlog}"));
    }
}

#[test]
fn a_segment_counts_from_when_the_open_batch_begins_it() {
    let mut world = World::new(7, FaultDisk::new(5, 1 << 30), settings(Sync::Never)).unwrap();
    world.plain = true;
    world.body_bytes_max = 2000;
    let fill = |world: &mut World| {
        world.put();
        world.finish_newest();
    };
    while world.log.reclaim_lag() < 8 {
        fill(&mut world);
        world.log.commit_step(world.now_ms).unwrap();
        world.log.prepare_step().unwrap();
        world.reclaim_wanted();
    }
    // The committer is busy, so it takes no new file.
    let last = world.log.usage().last_segment;
    while world.log.usage().last_segment == last {
        fill(&mut world);
        world.reclaim_wanted();
        assert_eq!(world.log.reclaim_lag(), 8);
    }
}

#[test]
fn clients_that_are_faster_than_reclaim_keep_the_bound_if_they_rest() {
    const SEGMENT: u64 = 1 << 20;
    // The live bytes in segments, and the bytes that clients append while reclaim copies a part of
    // 64 KiB.
    let cases = [(8, 16), (8, 32), (8, 48), (8, 64), (0, 64), (0, 128), (0, 256)];
    for (backlog, pace_kib) in cases {
        let disk = FaultDisk::new(5, 1 << 30);
        let settings = Settings { segment_bytes: SEGMENT, ..settings(Sync::Never) };
        let mut world = World::new(7, disk, settings).unwrap();
        world.plain = true;
        world.body_bytes_max = 2000;
        // One job at least: it is copied again and again.
        while world.state.jobs.is_empty() || world.log.usage().live_bytes < backlog * SEGMENT {
            world.put();
            settle(&mut world);
        }
        let begin = world.log.usage().client_bytes;
        let mut pause_until = begin;
        while world.log.usage().client_bytes < begin + 40 * SEGMENT {
            // The owner of the log lets its clients rest: see `Log::reclaim_lag`.
            pause_until += (pace_kib << 10) / (1 + u64::from(world.log.reclaim_lag()));
            while world.log.usage().client_bytes < pause_until {
                world.put();
                world.finish_newest();
            }
            world.log.commit_step(world.now_ms).unwrap();
            world.log.prepare_step().unwrap();
            if world.reclaim_wanted() {
                world.reclaim();
            }
            let usage = world.log.usage();
            let files = usage.data_bytes + usage.ahead_bytes;
            let bound = 2 * usage.live_bytes + 4 * SEGMENT;
            assert!(files <= bound, "backlog {backlog}, pace {pace_kib} KiB: {usage:?}");
        }
    }
}

#[test]
fn the_committer_leaves_a_few_copies_until_there_are_more_or_a_client_appends() {
    const COPIES_BYTES_MAX: u64 = 64 << 10;
    let disk = FaultDisk::new(5, 1 << 30);
    let settings = Settings { segment_bytes: 4 << 20, ..settings(Sync::Always) };
    let mut world = World::new(7, disk, settings).unwrap();
    world.plain = true;
    world.body_bytes_max = 100;
    for _ in 0..2000 {
        assert!(world.put());
    }
    let first = world.log.usage().first_segment;
    world.work_up_to(first + 2);
    let commit = |world: &World| world.log.commit_step(world.now_ms).unwrap();
    commit(&world);
    let is_due = |world: &World| world.log.next_step_ms() == Some(0);
    let copies = world.log.usage().copies;
    while world.log.usage().copies == copies {
        assert!(!is_due(&world));
        world.reclaim_once();
    }
    assert!(!is_due(&world), "nobody waits for a few copies");
    assert!(world.put());
    assert!(is_due(&world));
    assert!(commit(&world).wrote && !is_due(&world));
    // Now only reclaim appends.
    let before = world.log.usage().written_bytes;
    let mut parts = 0;
    while !is_due(&world) {
        world.reclaim_once();
        parts += 1;
    }
    let appended = world.log.usage().written_bytes - before;
    assert!(
        (COPIES_BYTES_MAX * 9 / 10..COPIES_BYTES_MAX * 3 / 2).contains(&appended),
        "{appended}"
    );
    assert!(parts > 2, "{parts}");
    // The end of a segment makes the rest of the copies due.
    while world.log.usage().first_segment == first {
        commit(&world);
        world.reclaim_once();
    }
    assert!(is_due(&world));
}

#[test]
fn jobs_that_end_in_order_are_seldom_copied() {
    // The jobs that are live at a time need this part of a segment.
    for percent in [20, 70, 130, 250, 600] {
        let disk = FaultDisk::new(5, 1 << 30);
        let mut world = World::new(7, disk, settings(Sync::Never)).unwrap();
        world.plain = true;
        world.body_bytes_max = 200;
        while world.log.usage().live_bytes < SEGMENT * percent / 100 {
            world.put();
            settle(&mut world);
        }
        let mut before = world.log.usage();
        for n in 0..60_000 {
            assert!(world.put());
            world.finish_oldest();
            if n % 20 == 0 {
                settle(&mut world);
                check_bound(&world, &format!("{percent} % step {n}"));
            }
            if n == 20_000 {
                before = world.log.usage();
            }
        }
        let end = world.log.usage();
        let client_bytes = end.client_bytes - before.client_bytes;
        let ratio = (end.written_bytes - before.written_bytes) as f64 / client_bytes as f64;
        println!("{percent} % of a segment: {ratio:.2} written per byte of clients");
        assert!(ratio < 1.3, "{percent} % of a segment: {ratio}");
    }
}

#[test]
fn only_what_reclaim_writes_again_counts_as_a_copy() {
    let disk = FaultDisk::new(5, 1 << 30);
    let mut world = World::new(7, disk, settings(Sync::Never)).unwrap();
    world.plain = true;
    let (first, before) = (world.log.usage().first_segment, world.log.usage().entries);
    for _ in 0..20 {
        assert!(world.put());
    }
    assert!(world.log.usage().entries >= before + 20);
    assert_eq!(world.log.usage().copies, 0, "nothing was written twice");
    for _ in 0..100_000 {
        if world.log.usage().first_segment > first {
            break;
        }
        assert!(world.put());
        world.finish_newest();
        settle(&mut world);
    }
    let usage = world.log.usage();
    assert!(usage.first_segment > first, "reclaim gives the first segment back: {usage:?}");
    assert!(usage.copies > 0 && usage.copies < usage.entries, "{usage:?}");
    // An imported job is new, although its entry is of the same kind as a copy.
    let queue = QueueRef { number: 99, name: b"imported" };
    let meta =
        Meta { id: 1, priority: 0, ttr: 0, created_ms: 0, due_ms: 0, state: 0, options: b"" };
    world.log.import(world.now_ms, queue, &meta, b"x");
    assert_eq!(world.log.usage().copies, usage.copies);
}

#[test]
fn any_mixture_stays_in_bounds() {
    for seed in 0..130 {
        let disk = FaultDisk::new(seed, 1 << 30);
        let mut world = World::new(seed, disk, settings(Sync::Never)).unwrap();
        let mut random = Random(seed);
        for _ in 0..40 {
            world.jobs_aim = random.below(150) as usize;
            world.body_bytes_max = 1 + random.below(60_000);
            for _ in 0..40 {
                world.step().unwrap();
            }
            settle(&mut world);
            check_bound(&world, &format!("seed {seed}"));
        }
    }
}

#[test]
fn reclaim_of_jobs_as_large_as_segments_comes_to_rest() {
    // Each large job needs a segment of its own. The small jobs between two large jobs leave a
    // segment nearly empty. The unused bytes after a copy must not cause more copies.
    for seed in 0..10 {
        let disk = FaultDisk::new(seed, 1 << 30);
        let mut world = World::new(seed, disk, settings(Sync::Never)).unwrap();
        world.plain = true;
        for _ in 0..3 {
            world.body_bytes_max = SEGMENT + SEGMENT / 8;
            loop {
                settle(&mut world);
                assert!(world.put(), "a put was refused on a disk that is not full");
                let newest = world.state.jobs.values().next_back().unwrap();
                if newest.body.len() as u64 > SEGMENT - 1000 {
                    break;
                }
                world.finish_newest();
            }
            world.body_bytes_max = 20;
            settle(&mut world);
            for _ in 0..20 {
                world.put();
            }
        }
        settle(&mut world);
    }
}

#[test]
fn a_slice_is_copied_in_parts_and_clients_write_between_them() {
    let mut world = World::new(3, FaultDisk::new(3, 1 << 30), settings(Sync::Always)).unwrap();
    world.plain = true;
    world.body_bytes_max = 1000;
    for _ in 0..400 {
        world.put();
    }
    let mut sizes = Vec::new();
    for n in 0..20_000 {
        // Between two parts, jobs come, and jobs end that the slice contains.
        world.put();
        world.put();
        world.finish_newest();
        if n % 100 == 0 {
            world.finish_oldest();
        }
        world.log.commit_step(world.now_ms).unwrap();
        world.log.prepare_step().unwrap();
        let before = used(&world);
        if world.reclaim_wanted() {
            world.reclaim();
            world.log.commit_step(world.now_ms).unwrap();
            sizes.push(used(&world) - before);
        }
        if world.log.first_segment() > 4 {
            break;
        }
    }
    assert!(world.log.first_segment() > 4, "reclaim frees nothing: {:?}", world.log.usage());
    // A part ends after the job that reaches 64 KiB, and can fill the rest of a segment.
    let many = sizes.iter().filter(|&&size| size > 32 << 10).count();
    assert!(many > 4, "{sizes:?}");
    assert!(sizes.iter().all(|&size| size < 80 << 10), "{sizes:?}");
    let end = world.log.written();
    world.disk.restart();
    world.reopen(end).unwrap();
}

/// The owner's lock is held while a part is copied, and each job costs the owner time, however small
/// its body is.
#[test]
fn a_part_has_few_jobs_even_if_their_bodies_are_small() {
    let mut world = World::new(3, FaultDisk::new(3, 1 << 30), settings(Sync::Always)).unwrap();
    world.plain = true;
    world.body_bytes_max = 8;
    for _ in 0..4000 {
        world.put();
    }
    world.work_up_to(4);
    let mut moves = Vec::new();
    while world.log.first_segment() < 2 {
        let before = world.places().clone();
        world.reclaim_once();
        moves.push(before.iter().filter(|&(id, slot)| world.places()[id] != *slot).count());
        world.log.commit_step(world.now_ms).unwrap();
        world.log.prepare_step().unwrap();
        assert!(moves.len() < 10_000, "reclaim frees nothing: {:?}", world.log.usage());
    }
    assert_eq!(moves.iter().max(), Some(&128), "{moves:?}");
    let end = world.log.written();
    world.disk.restart();
    world.reopen(end).unwrap();
}

#[test]
fn a_full_disk_refuses_puts_and_heals() {
    for seed in 0..10 {
        let limited = seed % 2 == 1;
        let disk = FaultDisk::new(seed, if limited { 1 << 30 } else { 4 << 20 });
        let bytes_max = limited.then_some(4 << 20);
        let settings = Settings { bytes_max, ..settings(Sync::Always) };
        let mut world = World::new(seed, disk, settings).unwrap();
        world.jobs_aim = usize::MAX;
        world.body_bytes_max = 1 + (seed * 3511) % 50_000;
        for round in 0..3 {
            let mut refused = 0;
            for n in 0..200_000 {
                assert!(n < 199_999, "seed {seed}: the disk never got full");
                refused = if world.put() { 0 } else { refused + 1 };
                world.log.commit_step(world.now_ms).unwrap();
                world.log.prepare_step().unwrap();
                if world.reclaim_wanted() {
                    world.reclaim();
                }
                if refused > 50 {
                    break;
                }
            }
            assert!(world.disk.used() <= 4 << 20, "seed {seed}");
            assert!(world.state.jobs.len() > 3, "seed {seed}: nothing fits");
            // Write each finish in a group of its own, because this needs the most bytes of the
            // reserve.
            let mut random = Random(seed + round);
            let keep = random.below(10) as usize;
            if round == 1 {
                let durable = world.log.durable();
                world.disk.crash();
                world.reopen(durable).unwrap();
            }
            while world.state.jobs.len() > keep {
                world.finish(1);
                world.log.commit_step(world.now_ms).unwrap();
                world.log.prepare_step().unwrap();
                if world.reclaim_wanted() {
                    world.reclaim();
                }
            }
            settle(&mut world);
            assert!(
                world.log.admits_put(100),
                "seed {seed} round {round}: {:?}",
                world.log.usage()
            );
        }
        let durable = world.log.durable();
        world.disk.crash();
        world.reopen(durable).unwrap();
    }
}

#[test]
fn facts_are_copied_in_parts_too() {
    for (facts, value_bytes) in [(4000, 20), (400, 2000)] {
        let disk = FaultDisk::new(1, 1 << 30);
        let settings = Settings { segment_bytes: 1 << 20, ..settings(Sync::Never) };
        let mut world = World::new(1, disk.clone(), settings.clone()).unwrap();
        for n in 0..facts {
            world.log.fact(world.now_ms, format!("queue/{n}").as_bytes(), &vec![7; value_bytes]);
        }
        assert_eq!(world.log.usage().last_segment, 1);
        world.work_up_to(3);
        while world.log.usage().first_segment == 1 {
            assert!(world.log.reclaim_wanted(), "it goes on until all are copied");
            let before = (world.log.usage().copies, world.log.open_batch_bytes());
            assert!(world.reclaim());
            let copies = world.log.usage().copies - before.0;
            let bytes = world.log.open_batch_bytes() - before.1;
            // The last fact of a part may exceed the part, and a TRIM entry may follow.
            assert!(copies <= 128 && bytes < 67 << 10, "{copies} facts of {bytes} bytes in a part");
            world.log.commit_step(world.now_ms).unwrap();
        }
        disk.restart();
        let found = recover(&disk, settings, world.now_ms).unwrap().1;
        assert_eq!(found.state.facts.len(), facts);
    }
}

#[test]
fn a_dead_segment_that_cannot_be_looked_at_waits() {
    let disk = FaultDisk::new(1, 1 << 30);
    let mut world = World::new(1, disk, settings(Sync::Always)).unwrap();
    world.work_up_to(3);
    let oldest = "0000000001.seg".to_owned();
    assert!(world.disk.names().contains(&oldest));
    assert!(world.reclaim_wanted(), "nothing of it is left");
    world.reclaim();
    world.log.commit_step(world.now_ms).unwrap();
    world.disk.fail_read_at(world.disk.reads() + 1);
    world.log.prepare_step().expect("it is no failure");
    assert!(world.disk.names().contains(&oldest), "it could not be looked at");
    world.log.prepare_step().unwrap();
    assert!(!world.disk.names().contains(&oldest), "it was tried again");
}

#[test]
fn a_dead_segment_that_is_gone_already_is_no_hindrance() {
    let disk = FaultDisk::new(1, 1 << 30);
    let mut world = World::new(1, disk, settings(Sync::Always)).unwrap();
    world.work_up_to(3);
    let data_bytes = world.log.usage().data_bytes;
    assert!(world.reclaim_wanted(), "nothing of the oldest is left");
    world.reclaim();
    world.log.commit_step(world.now_ms).unwrap();
    world.disk.remove_file("0000000001.seg");
    world.log.prepare_step().unwrap();
    assert_eq!(world.log.usage().data_bytes, data_bytes - SEGMENT);
}

#[test]
fn a_put_that_may_need_a_segment_of_its_own_for_its_names_is_admitted_only_when_there_is_room_for_it()
 {
    let disk = FaultDisk::new(1, 1 << 30);
    let world = World::new(1, disk.clone(), settings(Sync::Always)).unwrap();
    world.log.prepare_step().unwrap();
    assert!(world.log.admits_put(100) && world.log.admits_put(200_000));
    disk.set_capacity(disk.used());
    assert!(world.log.admits_put(100) && !world.log.admits_put(200_000));
}

#[test]
fn a_damaged_segment_stops_reclaim_and_loses_nothing() {
    for fails in [true, false] {
        let disk = FaultDisk::new(1, 1 << 30);
        let mut world = World::new(1, disk, settings(Sync::Always)).unwrap();
        while world.log.written().segment() < 3 {
            world.put();
            world.log.commit_step(world.now_ms).unwrap();
            world.log.prepare_step().unwrap();
        }
        if fails {
            world.disk.fail_read_at(world.disk.reads() + 2);
        } else {
            world.disk.flip_bit("0000000001.seg", 100_000);
        }
        let mut failed = false;
        for _ in 0..50 {
            match world.log.reclaim_read() {
                Ok(None) => break,
                Ok(Some(_)) => world.reclaim_once(),
                Err(_) => failed = true,
            }
        }
        assert!(failed && !world.reclaim_wanted() && world.log.failure().is_none());
        let name = "0000000001.seg".to_owned();
        assert!(world.disk.names().contains(&name), "the segment is kept");
        world.put();
        world.finish(2);
        world.log.commit_step(world.now_ms).unwrap();
        if fails {
            let durable = world.log.durable();
            world.disk.crash();
            world.reopen(durable).unwrap();
        }
    }
}

#[test]
fn a_backup_keeps_its_files() {
    let disk = FaultDisk::new(1, 1 << 30);
    let mut world = World::new(1, disk, settings(Sync::Always)).unwrap();
    while world.log.written().segment() < 4 {
        world.put();
        settle(&mut world);
    }
    let held: Vec<(String, Vec<u8>)> = (1..4)
        .map(|number| format!("{number:010}.seg"))
        .filter_map(|name| Some((name.clone(), world.disk.bytes(&name)?)))
        .collect();
    assert!(!held.is_empty());
    for (name, _) in &held {
        world.disk.link(name, &format!("backup-{name}"));
    }
    for _ in 0..2000 {
        world.put();
        world.finish(1);
        settle(&mut world);
    }
    assert!(!world.disk.names().contains(&held[0].0), "the log has gone on");
    for (name, bytes) in held {
        assert!(world.disk.bytes(&format!("backup-{name}")) == Some(bytes), "{name} was written");
    }
}
