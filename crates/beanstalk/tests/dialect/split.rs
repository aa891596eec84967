//! Tests that the replies of recorded sessions do not depend on how the network splits the bytes.

use crate::world::World;

/// The bytes that a client sends, and all bytes that it receives.
struct Recorded {
    sent: Vec<u8>,
    received: Vec<u8>,
}

fn recorded(sent: impl AsRef<[u8]>, received: impl AsRef<[u8]>) -> Recorded {
    Recorded { sent: sent.as_ref().to_vec(), received: received.as_ref().to_vec() }
}

/// The recorded sessions. Each session has a new server, which accepts bodies of up to 20 bytes.
fn sessions() -> Vec<Recorded> {
    let long_line = |text_len: usize| format!("{}\r\nlist-tube-used\r\n", "x".repeat(text_len));
    let refused = "BAD_FORMAT\r\nUSING default\r\n";
    vec![
        recorded(
            "put 5 0 60 5\r\nhello\r\nput 1 0 60 0\r\n\r\nreserve\r\nreserve\r\ndelete 1\r\n\
             bury 2 7\r\npeek-buried\r\nkick 9\r\npeek 2\r\ndelete 2\r\npeek 2\r\n",
            "INSERTED 1\r\nINSERTED 2\r\nRESERVED 2 0\r\n\r\nRESERVED 1 5\r\nhello\r\nDELETED\r\n\
             BURIED\r\nFOUND 2 0\r\n\r\nKICKED 1\r\nFOUND 2 0\r\n\r\nDELETED\r\nNOT_FOUND\r\n",
        ),
        recorded(
            b"put 0 0 60 10\r\n\r\n\0\r\r\n\n\xff\r\n\r\npeek 1\r\n",
            b"INSERTED 1\r\nFOUND 1 10\r\n\r\n\0\r\r\n\n\xff\r\n\r\n",
        ),
        recorded(
            "put 0 0 60 20\r\n12345678901234567890\r\nput 0 0 60 21\r\n123456789012345678901\r\n\
             put 0 0 60 21 junk\r\n12345678901234567890123put 0 0 1 1 junk\r\n-\r\n\
             put 0 0 60 3\r\nhello\r\nput 0 0 60 3\r\nabcd\rput 0 0 60 1\r\nx\r\n",
            "INSERTED 1\r\nJOB_TOO_BIG\r\nJOB_TOO_BIG\r\nBAD_FORMAT\r\nUNKNOWN_COMMAND\r\n\
             EXPECTED_CRLF\r\nUNKNOWN_COMMAND\r\nEXPECTED_CRLF\r\nINSERTED 4\r\n",
        ),
        recorded(long_line(222), "UNKNOWN_COMMAND\r\nUSING default\r\n"),
        recorded(long_line(223), refused),
        recorded(long_line(224), refused),
        recorded(long_line(225), refused),
        recorded(long_line(446), refused),
        recorded(long_line(447), refused),
        recorded(long_line(1000), refused),
        recorded(
            format!("{}\r\r\r\n\r\nstats x\r\nuse a\rb\r\nuse a\nb\r\n", "\n".repeat(300)),
            "BAD_FORMAT\r\nUNKNOWN_COMMAND\r\nBAD_FORMAT\r\nBAD_FORMAT\r\nBAD_FORMAT\r\n",
        ),
        recorded(
            "use a\r\nwatch a\r\nwatch b\r\nignore default\r\nlist-tubes-watched\r\nlist-tubes\r\n\
             pause-tube a 5\r\nreserve-with-timeout 0\r\nquit\r\nlist-tube-used\r\n",
            "USING a\r\nWATCHING 2\r\nWATCHING 3\r\nWATCHING 2\r\n\
             OK 12\r\n---\n- a\n- b\n\r\nOK 22\r\n---\n- default\n- a\n- b\n\r\n\
             PAUSED\r\nTIMED_OUT\r\n",
        ),
        // The server does not parse the bytes after a reserve that waits.
        recorded("list-tube-used\r\nreserve\r\nlist-tube-used\r\n", "USING default\r\n"),
    ]
}

/// Plays a session, with its bytes split into these pieces.
#[track_caller]
fn check<'a>(session: &Recorded, pieces: impl IntoIterator<Item = &'a [u8]>, how: &str) {
    let mut world = World::with_max_job_size(20);
    let client = world.connect();
    let mut received = Vec::new();
    for piece in pieces {
        received.extend(world.ask(client, piece));
    }
    assert_eq!(
        String::from_utf8_lossy(&received),
        String::from_utf8_lossy(&session.received),
        "{} sent {how}",
        session.sent.escape_ascii()
    );
}

#[test]
fn sessions_in_one_piece() {
    for session in sessions() {
        check(&session, [&session.sent[..]], "in one piece");
    }
}

#[test]
fn sessions_byte_by_byte() {
    for session in sessions() {
        check(&session, session.sent.chunks(1), "byte by byte");
    }
}

#[test]
fn sessions_split_at_every_place() {
    for session in sessions() {
        for place in 0..=session.sent.len() {
            let (front, back) = session.sent.split_at(place);
            check(&session, [front, back], &format!("in two pieces, the first of {place} bytes"));
        }
    }
}

#[test]
fn sessions_in_pieces_of_every_length() {
    for session in sessions() {
        for len in 2..=230 {
            check(&session, session.sent.chunks(len), &format!("in pieces of {len} bytes"));
        }
    }
}
