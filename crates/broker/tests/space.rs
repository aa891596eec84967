//! Tests a full disk. The log writes only when a test calls `commit_step`.

use std::sync::Arc;

use lineshaft_broker::policy::{OnDuplicate, QueueSync, Rule, Rules, Setting};
use lineshaft_broker::{
    Broker, Counters, DiskLimit, DiskLimits, Event, JobId, Kick, Millis, NewJob, News, Options,
    Patience, PutRefusal, ReadMode, Refusal, SessionId, State, Status, Submit, Take, Turn, When,
};

const NOW: Millis = Millis(1_000_000);

fn open(disk: &log::FaultDisk, now: Millis) -> Broker {
    let options = Options::without_threads(Arc::new(disk.clone()), log::Settings::default());
    Broker::open(options, now).expect("the log is whole").0
}

/// A broker whose disk is soon full, and a session.
fn open_small_disk() -> (Broker, SessionId) {
    let broker = open(&log::FaultDisk::new(1, 16 << 20), NOW);
    let session = broker.turn(NOW).open_session(0);
    (broker, session)
}

/// Opens a broker on an empty disk. The segments of its log are small.
fn open_small_segments(disk: &log::FaultDisk) -> Broker {
    let log = log::Settings { segment_bytes: 64 << 10, ..log::Settings::default() };
    let options = Options::without_threads(Arc::new(disk.clone()), log);
    Broker::open(options, NOW).expect("it is empty").0
}

/// Does the work of the log's threads.
fn work(broker: &Broker) {
    loop {
        broker.commit_step(NOW).expect("the log does not fail for want of room");
        broker.prepare_step().expect("a full disk is no failure");
        if !broker.reclaim_step(NOW).expect("nothing is damaged") {
            return;
        }
    }
}

/// Like `work`, without reclaim.
fn work_without_reclaim(broker: &Broker) {
    broker.commit_step(NOW).expect("the log does not fail for want of room");
    broker.prepare_step().expect("a full disk is no failure");
}

/// Puts delayed jobs until the log has no room. Returns the number of these jobs.
fn fill(broker: &Broker, session: SessionId) -> u64 {
    let job = NewJob { delay_s: 1000, ..NewJob::default() };
    let (mut puts, mut refusals) = (0, 0);
    while refusals < 5 {
        let mut turn = broker.turn(NOW);
        match (0..1000).try_for_each(|_| {
            turn.caller(session).put(job, b"x"[..].into()).value.map(|_| puts += 1)
        }) {
            Ok(()) => {}
            Err(PutRefusal::LogFull) => refusals += 1,
            Err(refusal) => panic!("{refusal}"),
        }
        drop(turn);
        work(broker);
    }
    puts
}

/// Fills the log, so that it has no room for a fact. Nobody prepares segments while the turn lasts,
/// so the log stays full.
fn fill_for_turn(turn: &mut Turn<'_>, session: SessionId) {
    while turn.caller(session).put(NewJob::default(), vec![b'x'; 60_000].into()).value.is_ok() {}
    let mut limit = 0;
    while turn.caller(session).limit_queue(b"default", [limit + 1, 0, 0]).value.is_ok() {
        limit += 1;
    }
}

/// A broker without threads whose jobs mostly end at once.
struct Busy {
    disk: log::FaultDisk,
    broker: Broker,
    session: SessionId,
}

impl Busy {
    fn new() -> Self {
        let disk = log::FaultDisk::new(1, 64 << 20);
        let broker = open_small_segments(&disk);
        let session = broker.turn(NOW).open_session(0);
        Self { disk, broker, session }
    }

    /// Puts a job. Also returns how much the turn must rest.
    fn put(&self) -> (JobId, u32) {
        let mut turn = self.broker.turn(NOW);
        let body = [b'x'; 1000];
        let id = turn.caller(self.session).put(NewJob::default(), body[..].into()).value;
        (id.expect("there is room"), turn.rests())
    }

    /// Puts and finishes jobs until turns must rest, because reclaim is behind. Keeps some jobs.
    fn get_behind(&self) {
        for _ in 0..1000 {
            for n in 0..200 {
                let (id, _) = self.put();
                if n % 25 > 0 {
                    let ended = self.broker.turn(NOW).caller(self.session).finish(id);
                    ended.value.expect("no session holds it");
                }
                work_without_reclaim(&self.broker);
            }
            self.broker.reclaim_step(NOW).expect("nothing is damaged");
            let rests = self.put().1;
            if rests > 0 {
                assert_eq!(rests, 1, "each slice of reclaim makes them longer by one");
                return;
            }
        }
        panic!("reclaim is never behind");
    }
}

#[test]
fn turns_that_append_rest_while_reclaim_is_behind() {
    let busy = Busy::new();
    busy.put();
    assert_eq!(busy.put().1, 0, "reclaim has nothing to do");
    busy.get_behind();
    assert_eq!(busy.broker.turn(NOW).rests(), 0, "this turn has appended nothing");
    work(&busy.broker);
    assert_eq!(busy.put().1, 0, "reclaim is not behind any more");
}

#[test]
fn no_turn_rests_while_reclaim_rescues_what_it_cannot_read() {
    let busy = Busy::new();
    busy.get_behind();
    busy.disk.fail_reads(0..u64::MAX);
    while busy.broker.reclaim_step(NOW).is_ok() {
        assert!(busy.put().1 > 0, "it still copies what it has read");
    }
    assert_eq!(busy.put().1, 0, "reclaim frees nothing now");
    assert!(busy.broker.reclaim_step(NOW).expect("the bodies are in memory"));
    assert_eq!(busy.put().1, 0, "nobody knows how long the rescue takes");
    busy.disk.plan_nothing();
    while busy.put().1 == 0 && busy.broker.reclaim_step(NOW).expect("the disk works") {}
    assert!(busy.put().1 <= 1, "after the rescue, clients begin to rest anew");
}

#[test]
fn a_kick_for_which_there_is_no_room_is_refused_before_it_begins() {
    let (broker, session) = open_small_disk();
    let puts = fill(&broker, session);
    assert!(puts > 100_000, "{puts} jobs");
    let mut turn = broker.turn(NOW);
    assert!(matches!(turn.caller(session).kick(u64::MAX).value, Err(Refusal::LogFull)));
    assert!(
        matches!(turn.caller(session).kick(50).value, Ok(Kick::Done(50))),
        "there is room for these"
    );
    drop(turn);
    work(&broker);
}

#[test]
fn kicks_that_began_together_end_before_they_use_the_reserve() {
    let (broker, session) = open_small_disk();
    fill(&broker, session);
    let mut turn = broker.turn(NOW);
    // All of them together need about twice the room that updates may use.
    let (kickers, bound) = (16, 1000);
    for _ in 0..kickers {
        let kicker = turn.open_session(0);
        let kick = turn.caller(kicker).kick(bound).value;
        assert!(matches!(kick, Ok(Kick::Waiting)), "there is room for each alone: {kick:?}");
    }
    while turn.advance() {}
    let mut events = Vec::new();
    turn.take_events(0, &mut events);
    let kicked: Vec<u64> = events
        .iter()
        .map(|(_, answer)| match answer.value {
            Event::Kicked(count) => count,
            ref event => panic!("{event:?}"),
        })
        .collect();
    assert_eq!(kicked.len(), kickers, "each kick is answered");
    let sum: u64 = kicked.iter().sum();
    assert!(sum < kickers as u64 * bound, "{kicked:?}");
    assert_eq!(sum, turn.totals().ready, "each answer tells how many jobs were kicked");
    let delayed = turn.caller(session).first_used_id(State::Delayed).value.expect("there are more");
    assert_eq!(turn.caller(session).kick_job(delayed).value, Ok(()), "there is room for one job");
    drop(turn);
    work(&broker);
}

#[test]
fn a_log_is_full_as_soon_as_jobs_of_ordinary_size_are_refused() {
    let (broker, session) = open_small_disk();
    let put = |bytes: usize| {
        let put = broker.turn(NOW).caller(session).put(NewJob::default(), vec![b'x'; bytes].into());
        work(&broker);
        put.value
    };
    assert!(!broker.is_full());
    let mut ids = Vec::new();
    while let Ok(id) = put(60_000) {
        ids.push(id);
    }
    assert!(ids.len() > 10, "{} jobs", ids.len());
    assert!(matches!(put(60_000), Err(PutRefusal::LogFull)));
    assert!(put(20).is_ok(), "there is room for small ones");
    assert!(broker.is_full());
    for id in ids {
        broker.turn(NOW).caller(session).finish(id).value.expect("it is there");
        work(&broker);
    }
    assert!(!broker.is_full());
    assert!(put(60_000).is_ok());
}

#[test]
fn jobs_expire_while_the_disk_is_full_and_the_log_does_not_fail() {
    let disk = log::FaultDisk::new(1, 16 << 20);
    let broker = open(&disk, NOW);
    let old = Setting::ExpireTo(Some(b"old"[..].into()));
    let _ = broker.turn(NOW).set_policies(Rules(vec![Rule::new(["q"], [old])]));
    let session = broker.turn(NOW).open_session(0);
    let (mut adds, mut refusals) = (0, 0);
    while refusals < 5 {
        let mut turn = broker.turn(NOW);
        let mut caller = turn.caller(session);
        let expires = Some(When::At(Millis(NOW.0 + 10)));
        match (0..1000).try_for_each(|_| {
            caller
                .add(b"q", b"a body that takes some room"[..].into(), expires)
                .value
                .map(|()| adds += 1)
        }) {
            Ok(()) => {}
            Err(PutRefusal::LogFull) => refusals += 1,
            Err(refusal) => panic!("{refusal}"),
        }
        drop(turn);
        work(&broker);
    }
    let later = Millis(NOW.0 + 11);
    loop {
        let more = broker.turn(later).advance();
        work(&broker);
        if !more {
            break;
        }
    }
    let moved = |broker: &Broker| {
        let turn = broker.turn(later);
        turn.check_invariants();
        turn.item_stats(b"old").map(|stats| stats.items)
    };
    assert_eq!(moved(&broker), Some(adds));
    // The log never had room for the entries of some moves. So after a restart, these jobs expire
    // and move again.
    broker.close(later).expect("the disk works");
    drop(broker);
    disk.restart();
    let broker = open(&disk, later);
    while broker.turn(later).advance() {
        work(&broker);
    }
    assert_eq!(moved(&broker), Some(adds));
}

/// Lets items move while the log has no room, then calls `end`, and restarts. Afterwards, the items
/// must come in the order in which they moved, before an item that was added later.
fn check_moves_without_room(items: u32, end: impl FnOnce(&Broker)) {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk, NOW);
    let old = Setting::ExpireTo(Some(b"old"[..].into()));
    let _ = broker.turn(NOW).set_policies(Rules(vec![Rule::new(["q"], [old])]));
    let session = broker.turn(NOW).open_session(0);
    let add = |turn: &mut Turn<'_>, queue: &[u8], number: u32, expires| {
        let body = number.to_string().into_bytes().into();
        turn.caller(session).add(queue, body, expires).value.expect("there is room");
    };
    let mut turn = broker.turn(NOW);
    for number in 0..items {
        add(&mut turn, b"q", number, Some(When::At(Millis(NOW.0 + 1))));
    }
    fill_for_turn(&mut turn, session);
    drop(turn);
    let later = Millis(NOW.0 + 2);
    while broker.turn(later).advance() {}
    let count = broker.turn(later).item_stats(b"old").map(|stats| stats.items);
    assert_eq!(count, Some(u64::from(items)));
    work(&broker);
    add(&mut broker.turn(later), b"old", items, None);
    end(&broker);
    drop(broker);
    disk.restart();
    let broker = open(&disk, later);
    while broker.turn(later).advance() {}
    let mut turn = broker.turn(later);
    let reader = turn.open_reader_session(0);
    for number in 0..=items {
        let read = turn.caller(reader).read(b"old", ReadMode::Finish, Patience::None).value;
        let Ok(Take::Finished { body, .. }) = read else { panic!("{read:?}") };
        let body = body.resident().expect("it is in memory").to_vec();
        assert_eq!(String::from_utf8(body), Ok(number.to_string()));
    }
}

#[test]
fn a_move_for_which_there_was_no_room_is_written_later() {
    check_moves_without_room(1, work);
}

#[test]
fn a_clean_stop_writes_all_moves_for_which_there_was_no_room() {
    // Many turns are needed to write so many.
    check_moves_without_room(1000, |broker| {
        broker.close(Millis(NOW.0 + 2)).expect("the disk works");
    });
}

#[test]
fn moves_for_which_there_was_no_room_are_written_also_if_no_client_comes() {
    check_moves_without_room(1000, |broker| {
        // Each call writes some of them.
        for _ in 0..10 {
            work(broker);
        }
    });
}

fn submit(unique: &[u8], body_bytes: usize, foreground: bool) -> Submit<'_> {
    let body = vec![b'x'; body_bytes].into();
    Submit { priority: None, due: None, unique, reducer: b"", body, foreground }
}

/// A broker whose log has no room for bodies of this length, and a session.
fn full_broker(body_bytes: usize) -> (Broker, SessionId) {
    let (broker, session) = open_small_disk();
    let put = || {
        let body = vec![b'x'; body_bytes].into();
        let put = broker.turn(NOW).caller(session).put(NewJob::default(), body);
        work(&broker);
        put.value
    };
    while put().is_ok() {}
    (broker, session)
}

#[test]
fn puts_in_memory_only_work_when_the_log_is_full() {
    let (broker, session) = full_broker(60_000);
    let mut turn = broker.turn(NOW);
    let memory = Setting::Sync(Some(QueueSync::Memory));
    let _ = turn.set_policies(Rules(vec![Rule::new(["m*"], [memory])]));
    // Create the queue. If it were missing, the broker would assume that it may have children, and
    // require room for their jobs.
    let _ = turn.caller(session).create_queue(b"f");
    let body = || vec![b'x'; 60_000].into();
    turn.caller(session).use_queue(b"m");
    turn.caller(session).put(NewJob::default(), body()).value.expect("it is not logged");
    turn.caller(session).submit(b"m", submit(b"", 60_000, false)).value.expect("nor is this");
    turn.caller(session).add(b"m", body(), None).value.expect("nor this");
    turn.caller(session)
        .submit(b"f", submit(b"", 60_000, true))
        .value
        .expect("a job with a waiting client is not logged either");
    let refused = Err(PutRefusal::LogFull);
    assert_eq!(turn.caller(session).submit(b"f", submit(b"", 60_000, false)).value, refused);
    turn.caller(session).use_queue(b"q");
    assert_eq!(turn.caller(session).put(NewJob::default(), body()).value, refused);
    drop(turn);
    work(&broker);
}

#[test]
fn a_submit_for_which_there_is_no_room_is_refused_also_if_it_is_its_job_that_is_large() {
    let (broker, session) = full_broker(60_000);
    let mut turn = broker.turn(NOW);
    turn.caller(session)
        .submit(b"f", submit(b"large", 60_000, true))
        .value
        .expect("it is not logged");
    turn.caller(session).submit(b"f", submit(b"small", 20, true)).value.expect("nor is this");
    let refused = Err(PutRefusal::LogFull);
    assert_eq!(turn.caller(session).submit(b"f", submit(b"large", 20, false)).value, refused);
    assert!(turn.caller(session).submit(b"f", submit(b"small", 20, false)).value.is_ok());
    drop(turn);
    work(&broker);
}

#[test]
fn the_status_is_reported_before_a_full_log() {
    let (broker, session) = full_broker(60_000);
    let mut turn = broker.turn(NOW);
    let _ = turn.set_status(Status::ReadOnly, 0);
    let body = || vec![b'x'; 60_000].into();
    let refused = PutRefusal::WritesBlocked;
    assert_eq!(turn.caller(session).put(NewJob::default(), body()).value, Err(refused));
    assert_eq!(turn.caller(session).submit(b"f", submit(b"", 60_000, false)).value, Err(refused));
    assert_eq!(turn.caller(session).add(b"q", body(), None).value, Err(refused));
}

#[test]
fn missing_jobs_are_denied_also_when_the_log_is_full() {
    let (broker, session) = open_small_disk();
    fill(&broker, session);
    let mut turn = broker.turn(NOW);
    let mut limit = 1;
    let _ = turn.caller(session).create_queue(b"f");
    while turn.caller(session).limit_queue(b"f", [limit; 3]).value.is_ok() {
        limit += 1;
    }
    let (delayed, gone) = (JobId(1), JobId(u64::MAX));
    assert_eq!(turn.caller(session).kick_job(delayed).value, Err(Refusal::LogFull));
    assert!(matches!(turn.caller(session).take_job(delayed).value, Err(Refusal::LogFull)));
    assert_eq!(turn.caller(session).bury_job(delayed, 0).value, Err(Refusal::LogFull));
    assert_eq!(turn.caller(session).reschedule_job(delayed, 0, 0).value, Err(Refusal::LogFull));
    let facts = turn.job_status(delayed).value.expect("it is there").facts;
    assert_eq!((facts.state, facts.counters), (State::Delayed, Counters::default()));
    let is_denied = |refusal: Refusal| matches!(refusal, Refusal::NotFound);
    for id in [delayed, gone] {
        assert!(is_denied(
            turn.caller(session).give_back(id, 0, 0).value.expect_err("no session holds it")
        ));
        assert!(is_denied(
            turn.caller(session).bury(id, 0).value.expect_err("no session holds it")
        ));
        assert!(is_denied(
            turn.caller(session).fail(id, &News::Fail).value.expect_err("no session holds it")
        ));
    }
    assert!(is_denied(turn.caller(session).kick_job(gone).value.expect_err("it is not there")));
    assert_eq!(turn.caller(session).bury_job(gone, 0).value, Err(Refusal::NotFound));
    assert_eq!(turn.caller(session).reschedule_job(gone, 0, 0).value, Err(Refusal::NotFound));
    assert!(is_denied(turn.caller(session).take_job(gone).value.expect_err("it is not there")));
    assert!(is_denied(
        turn.caller(session).limit_queue(b"nobody's", [1; 3]).value.expect_err("it is not there")
    ));
    turn.caller(session).use_queue(b"empty");
    assert!(matches!(turn.caller(session).kick(9).value, Ok(Kick::Done(0))));
    drop(turn);
    work(&broker);
}

#[test]
fn a_queue_is_not_created_while_the_log_has_no_room_for_it() {
    let broker = open(&log::FaultDisk::new(1, 64 << 20), NOW);
    let mut turn = broker.turn(NOW);
    let session = turn.open_session(0);
    turn.caller(session).create_queue(b"kept").value.expect("there is room");
    fill_for_turn(&mut turn, session);
    assert_eq!(turn.caller(session).create_queue(b"new").value, Err(Refusal::LogFull));
    assert_eq!(turn.queue_id(b"new"), None);
    assert_eq!(turn.caller(session).create_queue(b"kept").value, Ok(()), "it writes nothing");
    drop(turn);
    work(&broker);
    assert_eq!(broker.turn(NOW).caller(session).create_queue(b"new").value, Ok(()));
}

#[test]
fn policies_and_a_status_for_which_there_was_no_room_are_written_later() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk, NOW);
    let mut turn = broker.turn(NOW);
    let session = turn.open_session(0);
    fill_for_turn(&mut turn, session);
    let rules = Rules(vec![Rule::new(["q"], [Setting::JobsMax(Some(1))])]);
    let _ = turn.set_policies(rules.clone());
    let _ = turn.set_status(Status::ReadOnly, 0);
    drop(turn);
    work(&broker);
    let _ = broker.turn(NOW).caller(session).create_queue(b"any request");
    work(&broker);
    drop(broker);
    disk.restart();
    let broker = open(&disk, NOW);
    let turn = broker.turn(NOW);
    assert_eq!((turn.policies(), turn.status()), (&rules, Status::ReadOnly));
}

#[test]
fn jobs_under_a_bad_sector_are_written_anew_from_memory() {
    for is_damaged in [false, true] {
        let disk = log::FaultDisk::new(1, 64 << 20);
        let settings = log::Settings {
            segment_bytes: 64 << 10,
            sync: log::Sync::Always,
            ..log::Settings::default()
        };
        let options = || Options::without_threads(Arc::new(disk.clone()), settings.clone());
        let broker = Broker::open(options(), NOW).expect("the disk is empty").0;
        let session = broker.turn(NOW).open_session(0);
        let put = |number: u64| {
            let job = NewJob { delay_s: 1000, ..NewJob::default() };
            let body = number.to_string().repeat(100).into_bytes();
            let put = broker.turn(NOW).caller(session).put(job, body.into());
            work_without_reclaim(&broker);
            put.value.expect("there is room")
        };
        let jobs: Vec<JobId> = (0..2_000).map(put).collect();
        work_without_reclaim(&broker);
        let (kept, ended): (Vec<JobId>, Vec<JobId>) =
            jobs.into_iter().partition(|id| id.0.is_multiple_of(10));
        for id in ended {
            broker.turn(NOW).caller(session).cancel(id).value.expect("it is there");
            work_without_reclaim(&broker);
        }
        let first = "0000000001.seg";
        assert!(disk.names().iter().any(|name| name == first));
        if is_damaged {
            disk.flip_bit(first, 30_000);
        } else {
            disk.fail_read_at(disk.reads() + 1);
        }
        let mut errors = 0;
        for _ in 0..1_000 {
            errors += u32::from(broker.reclaim_step(NOW).is_err());
            work_without_reclaim(&broker);
        }
        assert_eq!(errors, 1);
        assert!(!disk.names().iter().any(|name| name == first), "the bad file is kept");
        disk.plan_nothing();
        disk.crash();
        let broker = Broker::open(options(), NOW).expect("all that is left can be read").0;
        let turn = broker.turn(NOW);
        assert_eq!(turn.totals().delayed, kept.len() as u64);
        for id in kept {
            let body = turn.body(id).expect("it was written again");
            assert_eq!(*body, *(id.0 - 1).to_string().repeat(100).into_bytes());
        }
    }
}

#[test]
fn a_disk_with_little_room_takes_no_puts_and_can_be_drained() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open_small_segments(&disk);
    let session = broker.turn(NOW).open_session(0);
    let put = || {
        let mut turn = broker.turn(NOW);
        turn.caller(session).put(NewJob::default(), b"x"[..].into()).value
    };
    let look = |seconds: u64| broker.disk_step(Millis(NOW.0 + 1000 * seconds));
    look(0);
    assert!(broker.disk_room().is_some_and(|room| !room.is_low && room.size_bytes == 64 << 20));
    let id = put().expect("there is room");

    // Without limits, only the reserve of the log counts.
    disk.set_capacity(16 << 20);
    look(1);
    put().expect("there is room");
    let (low, critical) = (DiskLimit::Bytes(9 << 20), DiskLimit::Bytes(8 << 20));
    let limits = DiskLimits { low: Some(low), critical: Some(critical) };
    broker.set_disk_limits(limits);
    look(1);
    let room = broker.disk_room().expect("it has looked");
    assert!(!room.is_critical && room.free_bytes > 8 << 20, "{room:?}");
    disk.set_capacity(8 << 20);
    assert!(put().is_ok(), "it looks once a second");
    look(2);
    assert_eq!(put(), Err(PutRefusal::LogFull));
    assert!(broker.is_full() && broker.disk_room().is_some_and(|room| room.is_low));
    assert_eq!(broker.turn(NOW).put_refusal(b"default"), Some(PutRefusal::LogFull));
    assert!(broker.turn(NOW).caller(session).finish(id).value.is_ok(), "all else continues");
    disk.set_capacity(64 << 20);
    look(3);
    assert!(put().is_ok() && !broker.is_full());
}

/// Each of these queues writes the new body of its job, so the log needs room for all of them.
#[test]
fn a_put_that_replaces_many_bodies_is_refused_before_it_begins() {
    let broker = open_small_segments(&log::FaultDisk::new(1, 8 << 20));
    let unique = [
        Setting::UniqueBy("prefix:1".parse().ok()),
        Setting::OnDuplicate(OnDuplicate::ReplaceBody),
    ];
    let queues = (0..50).map(|number| format!("q{number}").into_bytes().into()).collect();
    let rules = [Rule::new(["q*"], unique), Rule::new(["all"], [Setting::Alias(queues)])];
    let mut turn = broker.turn(NOW);
    let _ = turn.set_policies(Rules(rules.into()));
    let session = turn.open_session(0);
    turn.caller(session).use_queue(b"all");
    let other = turn.open_session(0);
    drop(turn);
    let put = |session: SessionId, bytes: usize| {
        let body = vec![b'x'; bytes].into();
        let put = broker.turn(NOW).caller(session).put(NewJob::default(), body).value;
        work(&broker);
        put
    };
    put(session, 10).expect("there is room");
    let mut ids = Vec::new();
    while let Ok(id) = put(other, 10_000) {
        ids.push(id);
    }
    assert!(ids.len() > 100, "{} jobs", ids.len());
    // There is room for a few bodies, but not for fifty.
    for id in ids.drain(..20) {
        broker.turn(NOW).caller(session).finish(id).value.expect("it is there");
        work(&broker);
    }
    assert!(put(other, 10_000).is_ok());
    assert_eq!(put(session, 10_000), Err(PutRefusal::LogFull));
    for id in ids {
        broker.turn(NOW).caller(session).finish(id).value.expect("it is there");
        work(&broker);
    }
    put(session, 10_000).expect("there is room for all of them");
}

/// A broker whose disk has this capacity, with these critical bytes. The test looks at the disk at each
/// second.
fn critical_disk(capacity: u64, critical: u64) -> (log::FaultDisk, Broker) {
    let disk = log::FaultDisk::new(1, capacity);
    let broker = open_small_segments(&disk);
    let critical = Some(DiskLimit::Bytes(critical));
    broker.set_disk_limits(DiskLimits { low: None, critical });
    (disk, broker)
}

#[test]
fn a_disk_at_the_critical_limit_does_not_accept_and_refuse_puts_in_turn() {
    let (disk, broker) = critical_disk(64 << 20, 10 << 20);
    let mut seconds = 0;
    let mut refuses_at = |capacity: u64| {
        disk.set_capacity(capacity);
        seconds += 1;
        broker.disk_step(Millis(NOW.0 + 1000 * seconds));
        broker.turn(NOW).put_refusal(b"default").is_some()
    };
    let used = (64 << 20) - {
        assert!(!refuses_at(64 << 20));
        broker.disk_room().expect("it has looked").free_bytes
    };
    let limit = used + (10 << 20);
    assert!(!refuses_at(limit));
    assert!(refuses_at(limit - 1));
    assert!(refuses_at(limit), "the room of a moment changes nothing");
    assert!(refuses_at(limit + (1 << 20) - 1));
    assert!(!refuses_at(limit + (1 << 20)));
    assert!(!refuses_at(limit));
    // Other limits begin anew.
    assert!(refuses_at(limit - 1));
    let lower = Some(DiskLimit::Bytes((10 << 20) - 1));
    broker.set_disk_limits(DiskLimits { low: None, critical: lower });
    assert!(!refuses_at(limit - 1));
}

#[test]
fn a_file_system_without_a_size_is_not_full() {
    let (disk, broker) = critical_disk(64 << 20, 10 << 20);
    disk.set_capacity(0);
    broker.disk_step(NOW);
    assert_eq!(broker.disk_room(), None);
    assert_ne!(broker.turn(NOW).put_refusal(b"default"), Some(PutRefusal::LogFull));
}
