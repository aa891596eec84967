//! Tests backups of a log in use. A backup contains the log up to one position. A start refuses an
//! incomplete or damaged backup.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use common::{Random, State, World, recover, settings};
use lineshaft_log::{
    BackupCheck, BackupDamage, BackupHold, BackupPoint, BackupSource, Disk, FaultDisk, Log,
    MANIFEST_NAME, OpenError, Sync, repair, salvage,
};

const DISK_BYTES: u64 = 1 << 30;

/// A backup in progress. Meanwhile, the test changes the log.
struct Taking {
    hold: BackupHold,
    point: BackupPoint,
    /// The state that the backup must contain.
    state: State,
    /// The next segment to copy.
    next: u32,
    files: BTreeMap<String, Vec<u8>>,
}

impl Taking {
    fn begin(world: &mut World) -> Taking {
        let hold = world.log.begin_backup();
        let written = world.log.written();
        while hold.point().is_none() {
            world.log.commit_step(world.now_ms).unwrap();
        }
        let point = hold.point().unwrap();
        assert!(point.end() >= written, "what was written before is in the backup");
        let state = world.state_at(point.end());
        let files = BTreeMap::from([(MANIFEST_NAME.to_owned(), point.manifest().into_bytes())]);
        Taking { hold, point, state, next: point.first(), files }
    }

    /// Copies the next segment. Returns false if all segments were copied.
    fn copy_one(&mut self, disk: &FaultDisk) -> bool {
        let source = BackupSource::new(disk, self.point);
        if !source.segments().contains(&self.next) {
            return false;
        }
        let name = BackupSource::name(self.next);
        let mut reader = source.open(self.next).unwrap();
        let size = reader.size();
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, size);
        if source.is_sealed(self.next) {
            assert!(disk.bytes(&name) == Some(bytes.clone()), "a link has the same bytes");
        }
        self.files.insert(name, bytes);
        self.next += 1;
        true
    }

    fn all(world: &mut World) -> Taking {
        let mut taking = Taking::begin(world);
        while taking.copy_one(&world.disk) {}
        taking
    }

    fn segments(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.files.iter().filter(|(name, _)| *name != MANIFEST_NAME).map(|(_, bytes)| bytes)
    }

    /// Checks the copied bytes, in pieces of different sizes.
    fn check(&self, random: &mut Random) -> Result<(), BackupDamage> {
        let mut check = BackupCheck::new(self.point);
        for bytes in self.segments() {
            check.begin_segment()?;
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let len = match random.below(3) {
                    0 => 1 + random.below(60),
                    _ => 1 + random.below(70_000),
                };
                let (piece, after) = rest.split_at(rest.len().min(len as usize));
                check.update(piece)?;
                rest = after;
            }
        }
        check.finish()
    }

    fn disk(&self) -> FaultDisk {
        disk_of(&self.files)
    }

    /// Opens the log of the copy, and checks its state.
    fn check_start(&self, sync: Sync) {
        let (log, found) = recover(&self.disk(), settings(sync), 2_000_000)
            .unwrap_or_else(|error| panic!("the backup was refused: {error}"));
        assert_eq!(found.report.cut_bytes, 0, "nothing follows the end");
        assert!(found.state == self.state, "the backup has another state than the log at its end");
        assert!(log.usage().first_segment >= self.point.first());
    }
}

fn disk_of(files: &BTreeMap<String, Vec<u8>>) -> FaultDisk {
    let disk = FaultDisk::new(1, DISK_BYTES);
    for (name, bytes) in files {
        disk.set_bytes(name, bytes.clone());
    }
    disk
}

/// A log of a few segments, and a backup of it.
fn small(seed: u64) -> (World, Taking) {
    let disk = FaultDisk::new(seed, DISK_BYTES);
    let mut world = World::new(seed, disk, settings(Sync::Always)).unwrap();
    world.body_bytes_max = 20_000;
    world.jobs_aim = 60;
    while world.log.written().segment() < world.log.usage().first_segment + 2 {
        world.step().unwrap();
    }
    world.log.commit_step(world.now_ms).unwrap();
    let taking = Taking::all(&mut world);
    (world, taking)
}

#[test]
fn a_backup_taken_at_any_moment_has_the_state_of_its_end() {
    for seed in 0..60 {
        let mut random = Random(seed ^ 0xBAC);
        let sync = match seed % 3 {
            0 => Sync::Always,
            1 => Sync::Never,
            _ => Sync::Every(Duration::from_millis(50)),
        };
        let disk = FaultDisk::new(seed, DISK_BYTES);
        let mut world = World::new(seed, disk, settings(sync)).unwrap();
        world.jobs_aim = 10;
        for _ in 0..random.below(800) {
            world.step().unwrap();
        }
        for _ in 0..4 {
            let mut taking = Taking::begin(&mut world);
            // Between the copies, the log can reclaim segments and begin new ones.
            loop {
                for _ in 0..random.below(120) {
                    world.step().unwrap();
                }
                if !taking.copy_one(&world.disk) {
                    break;
                }
            }
            taking.check(&mut random).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            taking.check_start(sync);
            drop(taking.hold);
        }
        let durable = world.log.durable();
        world.disk.crash();
        world.reopen(durable).unwrap();
    }
}

#[test]
fn a_restored_backup_goes_on_and_can_be_backed_up_again() {
    let (_, taking) = small(5);
    let mut world = World::new(5, taking.disk(), settings(Sync::Always)).unwrap();
    assert!(world.state == taking.state);
    world.jobs_aim = 5;
    let end = taking.point.end().segment();
    while world.log.usage().first_segment <= end + 1 {
        world.step().unwrap();
    }
    // The manifest still exists. The log now begins after the position in the manifest.
    let durable = world.log.durable();
    world.disk.crash();
    world.reopen(durable).unwrap();
    Taking::all(&mut world).check_start(Sync::Always);
}

#[test]
fn a_backup_that_lacks_anything_is_refused() {
    let (_, taking) = small(2);
    let numbers: Vec<String> =
        taking.files.keys().filter(|name| *name != MANIFEST_NAME).cloned().collect();
    assert!(numbers.len() >= 3, "{numbers:?}");
    let refused = |files: &BTreeMap<String, Vec<u8>>| {
        recover(&disk_of(files), settings(Sync::Always), 2_000_000).map(|_| ()).unwrap_err()
    };
    // Interrupt the copy at many places: the first files are complete, and the last file is cut.
    let mut files = BTreeMap::from([taking.files.get_key_value(MANIFEST_NAME).unwrap()])
        .into_iter()
        .map(|(name, bytes)| (name.clone(), bytes.clone()))
        .collect::<BTreeMap<_, _>>();
    let error = refused(&files);
    assert!(matches!(error, OpenError::CutBackup { .. }), "{error}");
    for name in &numbers {
        let bytes = &taking.files[name];
        for len in (0..bytes.len()).step_by(10_007) {
            files.insert(name.clone(), bytes[..len].to_vec());
            let error = refused(&files);
            assert!(matches!(error, OpenError::CutBackup { .. }), "{name} {len}: {error}");
            assert!(error.to_string().contains("incomplete backup"), "{error}");
        }
        files.insert(name.clone(), bytes.clone());
    }
    assert!(files == taking.files);
    taking.check_start(Sync::Always);
    // Remove one file.
    for name in &numbers {
        let mut files = taking.files.clone();
        files.remove(name);
        let error = refused(&files);
        let is_right =
            matches!(error, OpenError::CutBackup { .. } | OpenError::MissingSegment { .. });
        assert!(is_right, "{name}: {error}");
    }
    // Use a last file that is older than the manifest: it has the full size, but its groups end
    // before the position in the manifest.
    let mut files = taking.files.clone();
    let last = files.get_mut(numbers.last().unwrap()).unwrap();
    let end = taking.point.end().offset() as usize;
    last[end - 8..].fill(0);
    let error = refused(&files);
    assert!(matches!(error, OpenError::CutBackup { .. }), "{error}");
    // Use the manifest of another backup, then a damaged manifest.
    let (_, other) = small(3);
    let mut files = taking.files.clone();
    files.insert(MANIFEST_NAME.to_owned(), other.point.manifest().into_bytes());
    assert!(matches!(refused(&files), OpenError::CutBackup { .. }));
    files.insert(MANIFEST_NAME.to_owned(), b"lineshaft backup 1\n".to_vec());
    assert!(matches!(refused(&files), OpenError::CutBackup { .. }));
}

#[test]
fn what_is_left_of_a_cut_backup_can_be_saved() {
    let (_, taking) = small(2);
    let mut files = taking.files.clone();
    let last = files.keys().rfind(|name| *name != MANIFEST_NAME).unwrap().clone();
    files.remove(&last);
    let disk = disk_of(&files);
    let found = salvage(&disk, &mut |_| ()).unwrap();
    assert!(matches!(found.refusal, Some(OpenError::CutBackup { .. })), "{:?}", found.refusal);
    disk.restart();
    let saved = FaultDisk::new(1, DISK_BYTES);
    let repaired = repair(&disk, Arc::new(saved.clone()), &|_| true).unwrap();
    assert!(repaired.report.jobs > 0);
    saved.restart();
    let (_, found) = recover(&saved, settings(Sync::Always), 2_000_000).unwrap();
    assert_eq!(found.state.jobs.len() as u64, repaired.report.jobs);
    // Keep only the manifest.
    files.retain(|name, _| name == MANIFEST_NAME);
    let found = salvage(&disk_of(&files), &mut |_| ()).unwrap();
    assert!(matches!(found.refusal, Some(OpenError::CutBackup { .. })), "{:?}", found.refusal);
    assert_eq!(found.report.jobs, 0);
}

#[test]
fn a_power_failure_at_any_call_leaves_a_whole_backup_or_a_refused_one() {
    let (_, taking) = small(4);
    let write = |disk: &FaultDisk| -> std::io::Result<()> {
        // Write the manifest first, as the program does.
        let names = [MANIFEST_NAME].into_iter().map(str::to_owned);
        let segments = taking.files.keys().filter(|name| *name != MANIFEST_NAME).cloned();
        for name in names.chain(segments) {
            let file = disk.create(&name)?;
            for (index, piece) in taking.files[&name].chunks(50_000).enumerate() {
                file.write_at(piece, index as u64 * 50_000)?;
            }
            file.sync_all()?;
            if name == MANIFEST_NAME {
                disk.sync_folder()?;
            }
        }
        disk.sync_folder()
    };
    let disk = FaultDisk::new(9, DISK_BYTES);
    write(&disk).unwrap();
    let calls = disk.calls();
    assert!(calls > 20, "{calls}");
    let (mut whole, mut refused) = (0, 0);
    for call in 1..=calls {
        for seed in 0..4 {
            let disk = FaultDisk::new(seed, DISK_BYTES);
            disk.crash_at(call);
            assert!(write(&disk).is_err());
            disk.crash();
            if disk.bytes(MANIFEST_NAME).is_none() {
                assert!(disk.names().is_empty(), "the manifest is the first file");
                continue;
            }
            match recover(&disk, settings(Sync::Always), 2_000_000) {
                Ok((_, found)) => {
                    assert!(found.state == taking.state, "call {call}");
                    whole += 1;
                }
                Err(
                    OpenError::CutBackup { .. }
                    | OpenError::MissingSegment { .. }
                    | OpenError::Damaged { .. },
                ) => refused += 1,
                Err(error) => panic!("call {call}: {error}"),
            }
        }
    }
    assert!(whole > 0 && refused > 20, "{whole} whole, {refused} refused");
}

#[test]
fn a_flipped_bit_is_found_or_does_not_matter() {
    let mut random = Random(77);
    let (_, mut taking) = small(6);
    taking.check(&mut random).unwrap();
    let names: Vec<String> =
        taking.files.keys().filter(|name| *name != MANIFEST_NAME).cloned().collect();
    let mut found = 0;
    for _ in 0..400 {
        let name = &names[random.below(names.len() as u64) as usize];
        let bytes = taking.files.get_mut(name).unwrap();
        let bit = random.below(bytes.len() as u64 * 8);
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        let checked = taking.check(&mut random);
        match checked {
            Ok(()) => taking.check_start(Sync::Always),
            Err(damage) => {
                found += 1;
                assert!(damage.offset <= bit / 8, "{name} bit {bit}: {damage}");
            }
        }
        let bytes = taking.files.get_mut(name).unwrap();
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
    assert!(found > 100, "{found} of 400 were found");
}

#[test]
fn a_backup_of_a_full_disk_gives_way_only_to_reclaim() {
    let disk = FaultDisk::new(3, 8 << 20);
    let mut world = World::new(3, disk, settings(Sync::Always)).unwrap();
    world.plain = true;
    while world.put() {
        world.log.commit_step(world.now_ms).unwrap();
        world.log.prepare_step().unwrap();
    }
    // The disk is full of live jobs. So even without the hold, the log could free nothing.
    assert!(world.log.usage().short);
    let taking = Taking::all(&mut world);
    assert!(!taking.hold.is_in_the_way());
    taking.check_start(Sync::Always);
    while world.state.jobs.len() > 3 {
        world.finish(1);
        world.log.commit_step(world.now_ms).unwrap();
        world.log.prepare_step().unwrap();
        while world.reclaim_wanted() && world.reclaim() {
            world.log.commit_step(world.now_ms).unwrap();
        }
    }
    assert!(taking.hold.is_in_the_way(), "{:?}", world.log.usage());
}

#[test]
fn an_idle_log_is_backed_up_although_its_last_group_is_a_mark() {
    let (mut world, taking) = small(8);
    drop(taking);
    // Counters of jobs that were waiting are written.
    world.now_ms += 1000;
    world.log.commit_step(world.now_ms).unwrap();
    let before = world.log.written();
    world.now_ms += 1000;
    world.log.commit_step(world.now_ms).unwrap();
    assert!(world.log.written() > before && world.log.durable() == before, "a mark is written");
    let hold = world.log.begin_backup();
    assert_eq!(world.log.next_step_ms(), Some(0), "the committer has work");
    world.log.commit_step(world.now_ms).unwrap();
    assert_eq!(hold.point().map(|point| point.end()), Some(world.log.written()));
    assert_ne!(world.log.next_step_ms(), Some(0), "it rests again");
}

#[test]
fn an_empty_log_is_backed_up() {
    let disk = FaultDisk::new(1, DISK_BYTES);
    let mut world = World::new(1, disk, settings(Sync::Always)).unwrap();
    let taking = Taking::all(&mut world);
    assert!(taking.state == State::default());
    taking.check_start(Sync::Always);
    let log: &Arc<Log> = &world.log;
    assert!(log.failure().is_none());
}
