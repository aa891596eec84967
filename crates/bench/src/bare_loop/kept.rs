//! The jobs of a bare loop that keeps them, one after the other in memory. Nothing reads them: they
//! only cost the time that a server needs for new memory from the kernel.

/// What a job needs besides its body: the reach of row M1 is 200 bytes for a job with 100 bytes.
const OVERHEAD_BYTES: usize = 100;
/// The bytes of jobs for which memory is requested at once.
const CHUNK_BYTES: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Kept {
    full: Vec<Vec<u8>>,
    /// The chunk for the next job.
    chunk: Vec<u8>,
}

impl Kept {
    /// Adds a job with this body.
    pub(super) fn put(&mut self, body: &[u8]) {
        let bytes = OVERHEAD_BYTES + body.len();
        if self.chunk.capacity() - self.chunk.len() < bytes {
            let next = Vec::with_capacity(bytes.max(CHUNK_BYTES));
            self.full.push(std::mem::replace(&mut self.chunk, next));
        }
        self.chunk.resize(self.chunk.len() + OVERHEAD_BYTES, 0);
        self.chunk.extend_from_slice(body);
    }

    /// The bytes of all jobs.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.full.iter().map(Vec::len).sum::<usize>() + self.chunk.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_any_size_are_kept() {
        let mut kept = Kept::default();
        for _ in 0..10_000 {
            kept.put(&[b'x'; 100]);
        }
        assert_eq!(kept.bytes(), 10_000 * 200);
        kept.put(&vec![b'y'; CHUNK_BYTES]);
        assert_eq!(kept.bytes(), 10_000 * 200 + OVERHEAD_BYTES + CHUNK_BYTES);
    }
}
