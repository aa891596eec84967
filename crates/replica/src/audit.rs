//! Verifies the records of a stream, from its first one to its last one, for an operator.
//!
//! A node reads from the last group of its folder on, so it never sees older records again. An audit
//! has no folder: it believes what the first record says about its place, and checks that everything
//! after it fits.

use crate::chain::Chain;
use crate::group::At;
use crate::reader::{Meaning, ReadError, Reader};
use crate::record::{Header, Kind, RecordError};
use crate::{Lineage, Seq};

/// The stream can begin with this many records that came too late. An audit then begins behind them.
const STALE_MAX: u64 = 64;

/// An audit.
#[derive(Clone, Debug)]
pub struct Audit {
    lineage: Lineage,
    reader: Option<Reader>,
    /// Records since the reader began.
    read: u64,
    summary: Summary,
}

/// What an audit has read.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Summary {
    /// All records.
    pub records: u64,
    /// The number of the first complete group. 0: there is none.
    pub first_group: u64,
    /// Complete groups.
    pub groups: u64,
    /// Claims that count. Each one began an epoch.
    pub claims: u64,
    /// Renewals that count.
    pub renewals: u64,
    /// Records that do not count.
    pub stale: u64,
    /// Parts at the beginning, whose first part was trimmed.
    pub cut: u64,
}

/// Why a stream is not whole.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AuditError {
    /// Records are missing.
    #[error("records {from} to {to} of the stream are missing")]
    Missing {
        /// The first one.
        from: Seq,
        /// The last one.
        to: Seq,
    },
    /// The first record says that nothing came before it, but its chain does not fit.
    #[error("record {0} of the stream has a wrong chain for the origin of its cluster")]
    Origin(Seq),
    /// A record does not fit what came before it.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Audit {
    /// An audit of the stream with this lineage.
    #[must_use]
    pub fn new(lineage: Lineage) -> Audit {
        Audit { lineage, reader: None, read: 0, summary: Summary::default() }
    }

    /// Reads the next record. Returns the place after each complete group.
    ///
    /// # Errors
    ///
    /// The stream is damaged, or records are missing.
    pub fn record(&mut self, seq: Seq, bytes: &[u8]) -> Result<Option<At>, AuditError> {
        self.summary.records += 1;
        if self.reader.is_none() && !self.begin(seq, bytes)? {
            return Ok(None);
        }
        match self.read(seq, bytes) {
            Err(AuditError::Read(ReadError::Gap { .. })) if self.is_young() => {
                // The records before this one came too late.
                let Summary { records, cut, .. } = self.summary;
                let stale = records - 1 - cut;
                self.summary = Summary { records, stale, cut, ..Summary::default() };
                (self.reader, self.read) = (None, 0);
                if self.begin(seq, bytes)? { self.read(seq, bytes) } else { Ok(None) }
            }
            done => done,
        }
    }

    /// The stream was trimmed before the audit came to these records. It begins again with the next
    /// record.
    pub fn trimmed(&mut self) {
        *self = Audit::new(self.lineage);
    }

    /// The place after the last complete group. Before the first one, it has only a number and a
    /// chain.
    #[must_use]
    pub fn at(&self) -> Option<At> {
        self.reader.as_ref().map(Reader::at)
    }

    /// The last record.
    #[must_use]
    pub fn tail(&self) -> Seq {
        self.reader.as_ref().map_or(0, Reader::tail)
    }

    /// The last claim or renewal that was read, or the epoch of the first record.
    #[must_use]
    pub fn last_claim(&self) -> Seq {
        self.reader.as_ref().map_or(0, Reader::claim)
    }

    /// What was read so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.summary
    }

    /// Whether nothing has confirmed the first record yet.
    fn is_young(&self) -> bool {
        self.read < STALE_MAX && self.summary.claims == 0
    }

    /// Begins with this record. Returns false if it is the rest of a group that was trimmed.
    fn begin(&mut self, seq: Seq, bytes: &[u8]) -> Result<bool, AuditError> {
        let record = |error| ReadError::Record { seq, error };
        let (header, _) = Header::decode(bytes).map_err(record)?;
        if header.lineage != self.lineage {
            return Err(ReadError::Lineage { seq }.into());
        }
        let number = match header.kind {
            Kind::Group if header.part > 0 => {
                self.summary.cut += 1;
                return Ok(false);
            }
            Kind::Group => {
                header.number.checked_sub(1).ok_or(record(RecordError::Invalid("number")))?
            }
            Kind::Claim | Kind::Renewal | Kind::Alive | Kind::Resign => header.number,
        };
        let is_claim = matches!(header.kind, Kind::Claim | Kind::Renewal);
        let is_origin = is_claim && number == 0;
        let origin = Chain::origin(self.lineage, header.state, header.jobs);
        if is_origin && header.before != origin {
            return Err(AuditError::Origin(seq));
        }
        let at = At { epoch: header.epoch, number, chain: header.before, ..At::default() };
        self.reader = Some(Reader::new(self.lineage, at, header.epoch, seq - 1));
        Ok(true)
    }

    fn read(&mut self, seq: Seq, bytes: &[u8]) -> Result<Option<At>, AuditError> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        if seq != reader.tail() + 1 {
            return Err(AuditError::Missing { from: reader.tail() + 1, to: seq - 1 });
        }
        let meaning = reader.read(seq, bytes)?;
        self.read += 1;
        match meaning {
            Meaning::Group(group) => {
                if self.summary.groups == 0 {
                    self.summary.first_group = group.number;
                }
                self.summary.groups += 1;
                return Ok(Some(group.at()));
            }
            Meaning::Claim(..) => self.summary.claims += 1,
            Meaning::Renewal => self.summary.renewals += 1,
            Meaning::Stale => self.summary.stale += 1,
            Meaning::Part | Meaning::Alive | Meaning::Resign(_) => (),
        }
        Ok(None)
    }
}
