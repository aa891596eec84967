//! The part of beanstalkd's protocol that a load needs.

use std::cell::RefCell;
use std::rc::Rc;

use super::scanner::{LineScanner, last_number};
use super::script::{COPIES, Cursor, Script};
use super::{Driver, Progress};

/// Collects the ids of the jobs that were put.
pub(crate) type IdSink = Rc<RefCell<Vec<u64>>>;

/// The request for a job.
const RESERVE: &[u8] = b"reserve-with-timeout 0\r\n";

/// One connection that speaks beanstalkd's protocol.
#[derive(Debug)]
pub(crate) struct Beanstalk {
    work: Work,
    scanner: LineScanner,
    /// The requests before the first operation. Replies to these requests do not end operations.
    opening: Vec<u8>,
    ids: Option<IdSink>,
}

#[derive(Debug)]
enum Work {
    /// Sends the units of a script. Each unit has one reply: INSERTED or DELETED.
    Script(Cursor),
    /// Reserves a job, and then deletes it.
    Take,
    /// Puts a job, reserves the first job of the queue, and deletes that one. So the number of jobs
    /// stays the same.
    Cycle(Cursor),
}

impl Beanstalk {
    /// Puts jobs into `queue`. Each unit of the script is one put.
    pub(crate) fn put(queue: &str, cursor: Cursor) -> Self {
        Self::new(Work::Script(cursor), Self::opening("use", queue))
    }

    /// Sends a script unchanged, for puts that choose their own tube, and for deletes.
    pub(crate) fn script(cursor: Cursor) -> Self {
        Self::new(Work::Script(cursor), Vec::new())
    }

    /// Reserves jobs of `queue` only, and deletes them.
    pub(crate) fn take(queue: &str) -> Self {
        let mut opening = Self::opening("watch", queue);
        if !opening.is_empty() {
            opening.extend_from_slice(b"ignore default\r\n");
        }
        Self::new(Work::Take, opening)
    }

    /// Puts, reserves and deletes jobs in the tube `default`. Each operation is all three requests.
    pub(crate) fn cycle(cursor: Cursor) -> Self {
        Self::new(Work::Cycle(cursor), Vec::new())
    }

    /// Also collects the ids of the jobs that are put.
    pub(crate) fn with_ids(mut self, ids: IdSink) -> Self {
        self.ids = Some(ids);
        self
    }

    /// A script of requests that put bodies of `body_bytes` into the used tube.
    pub(crate) fn puts(body_bytes: usize) -> Script {
        Script::repeated(&put_request(body_bytes))
    }

    /// A script for [`cycle`](Self::cycle).
    pub(crate) fn cycles(body_bytes: usize) -> Script {
        Script::repeated(&[&put_request(body_bytes)[..], RESERVE].concat())
    }

    /// A script of requests that put into `queues` tubes in turn. Each put has a `use` before it.
    pub(crate) fn puts_with_use(body_bytes: usize, queues: usize) -> Script {
        let put = put_request(body_bytes);
        // A script for one tube has the same layout as one for many tubes, so that only the number
        // of tubes differs.
        let units = if queues == 1 { COPIES } else { queues };
        let mut script = Script::default();
        for unit in 0..units {
            let mut request = format!("use bench-{:05}\r\n", unit % queues).into_bytes();
            request.extend_from_slice(&put);
            script.push(&request);
        }
        script
    }

    /// A script of requests that delete `ids`, in this order.
    pub(crate) fn deletes(ids: &[u64]) -> Script {
        let mut script = Script::default();
        for id in ids {
            script.push(format!("delete {id}\r\n").as_bytes());
        }
        script
    }

    fn new(work: Work, opening: Vec<u8>) -> Self {
        Self { work, scanner: LineScanner::default(), opening, ids: None }
    }

    fn opening(verb: &str, queue: &str) -> Vec<u8> {
        if queue == "default" { Vec::new() } else { format!("{verb} {queue}\r\n").into_bytes() }
    }
}

fn put_request(body_bytes: usize) -> Vec<u8> {
    let mut request = format!("put 1024 0 120 {body_bytes}\r\n").into_bytes();
    request.resize(request.len() + body_bytes, b'x');
    request.extend_from_slice(b"\r\n");
    request
}

impl Driver for Beanstalk {
    fn begin(&mut self, count: usize, output: &mut Vec<u8>) -> usize {
        output.append(&mut self.opening);
        match &mut self.work {
            Work::Script(cursor) | Work::Cycle(cursor) => cursor.append(count, output),
            Work::Take => {
                // A plain reserve would wait forever on an empty queue, but an empty queue must end
                // the run.
                for _ in 0..count {
                    output.extend_from_slice(RESERVE);
                }
                count
            }
        }
    }

    fn receive(&mut self, input: &[u8], output: &mut Vec<u8>) -> anyhow::Result<Progress> {
        let mut progress = Progress::default();
        let ids = &self.ids;
        let put_ends_operation = u32::from(!matches!(self.work, Work::Cycle(_)));
        self.scanner.scan(input, |line| {
            match line {
                [b'I', b'N', b'S', ..] => {
                    progress.finished += put_ends_operation;
                    if let Some(ids) = ids {
                        ids.borrow_mut().extend(last_number(line).map(|id| id as u64));
                    }
                }
                [b'D', b'E', b'L', ..] => progress.finished += 1,
                [b'R', b'E', b'S', ..] => match reserved(line) {
                    Some((id, body_bytes)) => {
                        output.extend_from_slice(b"delete ");
                        output.extend_from_slice(id);
                        output.extend_from_slice(b"\r\n");
                        return body_bytes + 2;
                    }
                    None => progress.fail(line),
                },
                [b'T', b'I', b'M', ..] => progress.missed += 1,
                // These are replies to `use`, `watch` and `ignore`.
                [b'U', b'S', b'I', ..] | [b'W', b'A', b'T', ..] => {}
                _ => progress.fail(line),
            }
            0
        })?;
        Ok(progress)
    }
}

/// Parses `RESERVED <id> <bytes>`. Returns the digits of the id, and the size of the body.
fn reserved(line: &[u8]) -> Option<(&[u8], usize)> {
    let rest = line.strip_prefix(b"RESERVED ")?;
    let space = memchr::memchr(b' ', rest)?;
    Some((&rest[..space], last_number(line)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_are_counted_at_any_split() {
        let input = b"USING t\r\nINSERTED 1\r\nINSERTED 2\r\nOUT_OF_MEMORY\r\n";
        for split in 0..input.len() {
            let ids = IdSink::default();
            let cursor = Cursor::cycling(Rc::new(Beanstalk::puts(3)), 0, 1);
            let mut driver = Beanstalk::put("t", cursor).with_ids(Rc::clone(&ids));
            let mut output = Vec::new();
            assert_eq!(driver.begin(1, &mut output), 1);
            assert_eq!(output, b"use t\r\nput 1024 0 120 3\r\nxxx\r\n");
            let first = driver.receive(&input[..split], &mut output).expect("valid replies");
            let second = driver.receive(&input[split..], &mut output).expect("valid replies");
            assert_eq!(first.finished + second.finished, 2);
            assert_eq!(first.failed + second.failed, 1);
            assert_eq!(second.failure.as_deref(), Some("OUT_OF_MEMORY"));
            assert_eq!(*ids.borrow(), [1, 2]);
        }
    }

    #[test]
    fn a_take_deletes_what_it_was_given_and_counts_the_pair_once() {
        let mut driver = Beanstalk::take("default");
        let mut output = Vec::new();
        driver.begin(1, &mut output);
        assert_eq!(output, b"reserve-with-timeout 0\r\n");
        output.clear();
        let progress = driver.receive(b"RESERVED 17 4\r\nDEL\n\r", &mut output).expect("valid");
        assert_eq!(progress, Progress::default());
        assert_eq!(output, b"delete 17\r\n");
        let progress = driver.receive(b"\nDELETED\r\nTIMED_OUT\r\n", &mut output).expect("valid");
        assert_eq!((progress.finished, progress.missed, progress.failed), (1, 1, 0));
        assert_eq!(progress.ended(), 2);
    }

    #[test]
    fn a_cycle_ends_with_the_delete() {
        let cursor = Cursor::cycling(Rc::new(Beanstalk::cycles(1)), 0, 1);
        let mut driver = Beanstalk::cycle(cursor);
        let mut output = Vec::new();
        assert_eq!(driver.begin(1, &mut output), 1);
        assert_eq!(output, b"put 1024 0 120 1\r\nx\r\nreserve-with-timeout 0\r\n");
        output.clear();
        let replies = b"INSERTED 18\r\nRESERVED 17 1\r\nx\r\n";
        let progress = driver.receive(replies, &mut output).expect("valid");
        assert_eq!((progress.ended(), &output[..]), (0, &b"delete 17\r\n"[..]));
        let progress = driver.receive(b"DELETED\r\n", &mut output).expect("valid");
        assert_eq!((progress.finished, progress.ended()), (1, 1));
    }

    #[test]
    fn a_script_over_many_tubes_uses_each_in_turn() {
        let script = Rc::new(Beanstalk::puts_with_use(1, 2));
        let mut output = Vec::new();
        let mut driver = Beanstalk::script(Cursor::cycling(script, 1, 2));
        driver.begin(2, &mut output);
        let text = String::from_utf8(output).expect("ASCII");
        assert_eq!(
            text,
            "use bench-00001\r\nput 1024 0 120 1\r\nx\r\nuse bench-00000\r\nput 1024 0 120 1\r\nx\r\n"
        );
    }
}
