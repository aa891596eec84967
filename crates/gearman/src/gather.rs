//! A body of announced length that comes in stretches.

/// What came so far of a body.
#[derive(Debug)]
pub(crate) struct Gathering {
    /// How long the body is.
    bytes: usize,
    gathered: Vec<u8>,
}

impl Gathering {
    /// Nothing yet of a body of so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes, gathered: Vec::new() }
    }

    /// Keeps a stretch of the body; how many bytes of it belong there. The buffer grows with what
    /// really came: to at most twice that, and never beyond the announced length.
    pub(crate) fn gather(&mut self, stretch: &[u8]) -> usize {
        let count = stretch.len().min(self.bytes - self.gathered.len());
        let needed = self.gathered.len() + count;
        if needed > self.gathered.capacity() {
            let capacity = needed.max(2 * self.gathered.len()).min(self.bytes);
            self.gathered.reserve_exact(capacity - self.gathered.len());
        }
        self.gathered.extend_from_slice(&stretch[..count]);
        count
    }

    /// Whether all of it is here.
    pub(crate) fn is_complete(&self) -> bool {
        self.gathered.len() == self.bytes
    }

    /// What is here.
    pub(crate) fn gathered(&self) -> &[u8] {
        &self.gathered
    }

    /// Takes what is here.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.gathered)
    }

    /// Bytes of memory held for it.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.gathered.capacity()
    }
}
