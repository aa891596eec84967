//! Tests which work the loader does next.

use engine::{JobId, JobList};

use super::*;

#[test]
fn bodies_and_cold_jobs_take_turns() {
    let mut state = State::default();
    let queues = [QueueId(1), QueueId(2), QueueId(3)];
    for queue in queues {
        state.next.push_back(Some(queue));
        let list = JobList { queue, state: engine::State::Ready };
        state.add_cold(ColdLoad::List(list));
    }
    let mut kinds = String::new();
    while let Some(work) = state.take() {
        let (kind, queue) = match work {
            Work::Cold(load) => ('c', load.queue()),
            Work::Line(line, _) => ('b', line),
            other => panic!("{other:?}"),
        };
        kinds.push(kind);
        state.end(queue);
    }
    assert_eq!(kinds, "bcbcbc");
}

#[test]
fn cold_jobs_of_a_busy_queue_come_when_its_thread_ends() {
    let mut state = State::default();
    let queue = QueueId(1);
    state.next.push_back(Some(queue));
    assert!(matches!(state.take(), Some(Work::Line(..))));
    let list = JobList { queue, state: engine::State::Ready };
    state.add_cold(ColdLoad::List(list));
    assert!(state.take().is_none(), "another thread finds nothing");
    state.end(Some(queue));
    state.next.push_back(Some(queue));
    assert!(matches!(state.take(), Some(Work::Cold(_))), "new bodies do not come first");
}

#[test]
fn cold_jobs_wait_for_changed_jobs_that_are_written_again() {
    let loads = Loads::default();
    let [first, second] = [1, 2].map(QueueId);
    let list = |queue| JobList { queue, state: engine::State::Ready };
    loads.add_cold(ColdLoad::List(list(first)));
    loads.add_cold(ColdLoad::List(list(second)));
    loads.note_written(WRITTEN_PER_LOAD - 1);
    assert!(loads.take().is_none());
    loads.add_cold(ColdLoad::Wake(list(second)));
    assert!(matches!(loads.take(), Some(Work::Cold(ColdLoad::Wake(_)))));
    assert!(loads.take().is_none());
    loads.note_written(1);
    loads.add_cold(ColdLoad::Wake(list(second)));
    assert!(matches!(loads.take(), Some(Work::Cold(ColdLoad::Wake(_)))), "it needs none of them");
    assert!(matches!(loads.take(), Some(Work::Cold(ColdLoad::List(load))) if load.queue == first));
    assert!(loads.take().is_none(), "the next one waits for others");
    loads.note_written(0);
    assert!(matches!(loads.take(), Some(Work::Cold(ColdLoad::List(load))) if load.queue == second));
}

#[test]
fn a_line_that_has_no_room_keeps_one_place() {
    let mut state = State::default();
    state.room.set_limit(10);
    state.room.report(0, 20);
    let line = Some(QueueId(1));
    state.lines.insert(line, VecDeque::new());
    state.next.push_back(line);
    let list = JobList { queue: QueueId(1), state: engine::State::Ready };
    state.add_cold(ColdLoad::List(list));
    assert!(matches!(state.take(), Some(Work::Cold(_))));
    state.end(line);
    assert_eq!(state.next, [line]);
}

#[test]
fn one_thread_works_for_a_queue() {
    let mut state = State::default();
    let [first, second, third, fourth] = [1, 2, 3, 4].map(QueueId);
    let list = |queue| ColdLoad::List(JobList { queue, state: engine::State::Ready });
    let next = |state: &mut State| match state.take() {
        Some(Work::Cold(load)) => load.queue(),
        Some(Work::Line(line, _)) => line,
        Some(other) => panic!("{other:?}"),
        None => None,
    };
    state.next.extend([Some(first), Some(third)]);
    state.lists.extend([list(first), list(second)]);
    assert_eq!(next(&mut state), Some(first), "bodies");
    assert_eq!(next(&mut state), Some(second), "cold jobs of a queue that is not busy");
    assert_eq!(next(&mut state), Some(third), "bodies");
    state.next.push_back(Some(fourth));
    assert_eq!(next(&mut state), Some(fourth), "bodies, although cold jobs would be next");
    assert_eq!(next(&mut state), None);
    state.end(Some(first));
    assert_eq!(next(&mut state), Some(first), "cold jobs");
    for queue in [first, second, third, fourth] {
        state.end(Some(queue));
    }
    assert!(state.busy.is_empty());
}

#[test]
fn lists_and_searches_take_turns_and_only_one_thread_searches() {
    let mut state = State::default();
    for number in 1..=3 {
        let (session, ticket) = ((0, SessionId(number)), number);
        state.add_cold(ColdLoad::Job(Search { id: JobId(9), session, ticket }));
        let queue = QueueId(number as u32);
        state.add_cold(ColdLoad::List(JobList { queue, state: engine::State::Ready }));
    }
    let mut next = |ends: Option<u64>| {
        let ended = ends.map(|ticket| Search { id: JobId(9), session: (0, SessionId(0)), ticket });
        if let Some(search) = ended {
            state.end_cold(ColdLoad::Job(search));
        }
        match state.take() {
            Some(Work::Cold(ColdLoad::Job(search))) => Some(('s', search.ticket)),
            Some(Work::Cold(load)) => load.queue().map(|queue| ('l', u64::from(queue.0))),
            Some(other) => panic!("{other:?}"),
            None => None,
        }
    };
    assert_eq!(next(None), Some(('l', 1)));
    assert_eq!(next(None), Some(('s', 1)));
    assert_eq!(next(None), Some(('l', 2)));
    assert_eq!(next(None), Some(('l', 3)), "a thread searches already");
    assert_eq!(next(None), None);
    assert_eq!(next(Some(1)), Some(('s', 2)));
    assert_eq!(next(None), None);
    assert_eq!(next(Some(2)), Some(('s', 3)));
}
