//! The copy of a job's body out of a larger message that the dialect holds.

use engine::Body;
use engine::limits::UNIT_BODY_BYTES;

use super::KEPT_BYTES_MIN;
use super::kept::KeptBody;
use crate::Turn;

/// The bytes that are copied between two looks at the slice.
const PIECE_BYTES: usize = 64 << 10;

/// Copies the bodies of jobs out of a message, one after the other. A large one takes several slices
/// of work, because other clients would wait for a copy in one step.
#[derive(Debug, Default)]
pub struct BodyCopy {
    /// A large body of which some slices have copied the beginning.
    begun: Option<Box<KeptBody>>,
}

impl BodyCopy {
    /// Copies these bytes. `None` if the slice is spent before the end: then the dialect must call
    /// this function with the same bytes in a later slice.
    pub fn body(&mut self, bytes: &[u8], turn: &mut Turn<'_>) -> Option<Body> {
        if bytes.len() < KEPT_BYTES_MIN {
            return Some(Body::from(bytes));
        }
        let mut copied = match self.begun.take() {
            Some(begun) => begun,
            None => match KeptBody::of(bytes.len()) {
                Some(kept) => Box::new(kept),
                // There are too few addresses for the large steps of this type.
                None => return Some(Body::from(bytes)),
            },
        };
        while copied.filled() < bytes.len() {
            if turn.slice_is_spent() {
                self.begun = Some(copied);
                return None;
            }
            let rest = &bytes[copied.filled()..];
            let count = copied.fill(&rest[..rest.len().min(PIECE_BYTES)]);
            turn.count_work(count / UNIT_BODY_BYTES);
        }
        copied.finish()
    }

    /// The memory of a body of which only the beginning is copied. Its other pages take none yet.
    pub fn buffered_bytes(&self) -> usize {
        self.begun.as_ref().map_or(0, |begun| begun.filled())
    }
}
