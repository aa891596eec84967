//! A large body that is collected where it stays.

use std::fmt;
use std::mem::MaybeUninit;

use engine::Body;
use triomphe::UniqueArc;

/// Memory of a body, filled from its beginning.
pub(super) struct KeptBody {
    place: UniqueArc<[MaybeUninit<u8>]>,
    /// The bytes before this place are written.
    filled: usize,
}

impl fmt::Debug for KeptBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "KeptBody({} of {} bytes)", self.filled, self.place.len())
    }
}

impl KeptBody {
    /// Room for a body of this many bytes. Takes addresses, but no memory before the bytes come.
    /// Returns `None` if there are too few addresses, for example if the system's administrator
    /// limits them.
    pub(super) fn of(bytes: usize) -> Option<Self> {
        let place = UniqueArc::try_new_uninit_slice(bytes).ok()?;
        Some(Self { place, filled: 0 })
    }

    /// The length of the body.
    pub(super) fn bytes(&self) -> usize {
        self.place.len()
    }

    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    /// Adds bytes, as many as have room. Returns how many.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> usize {
        let free = &mut self.place[self.filled..];
        let count = free.len().min(bytes.len());
        for (byte, value) in free.iter_mut().zip(bytes) {
            byte.write(*value);
        }
        self.filled += count;
        count
    }

    /// The body, if all of its bytes have come.
    pub(super) fn finish(self) -> Option<Body> {
        if self.filled < self.place.len() {
            return None;
        }
        // SAFETY: `fill` is the only place that changes `filled`, and it has written each byte before
        // `filled`. So all bytes are written.
        #[expect(unsafe_code, reason = "a safe way would have to write zeros first")]
        let body = unsafe { UniqueArc::assume_init_slice(self.place) };
        Some(body.shareable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_whole_when_all_bytes_have_come() {
        let mut kept = KeptBody::of(5).expect("there are addresses");
        assert_eq!((kept.fill(b"ab"), kept.filled()), (2, 2));
        assert_eq!((kept.fill(b"cdef"), kept.filled()), (3, 5));
        assert_eq!(kept.fill(b"f"), 0);
        assert_eq!(kept.finish().as_deref(), Some(&b"abcde"[..]));
        let mut partial = KeptBody::of(2).expect("there are addresses");
        partial.fill(b"a");
        assert!(partial.finish().is_none());
        assert_eq!(KeptBody::of(0).and_then(KeptBody::finish).as_deref(), Some(&b""[..]));
    }
}
