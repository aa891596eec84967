//! Encodes entries and their states as bytes for the log. Numbers are little-endian, and texts
//! begin with their length. Bytes of a later version are refused.

use super::{CatchUp, CronEntry, CronState, CronTable, Overlap};
use crate::ids::{JobId, Millis};
use crate::policy::codec::{Malformed, Reader, put_count, put_name};

const VERSION: u8 = 1;

impl CronTable {
    /// Encodes the entries as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        put_count(&mut bytes, self.0.len());
        for entry in &self.0 {
            bytes.extend(entry.line.to_le_bytes());
            put_name(&mut bytes, &entry.name);
            put_name(&mut bytes, &entry.queue);
            put_name(&mut bytes, entry.cron.as_str().as_bytes());
            put_name(&mut bytes, entry.zone.as_str().as_bytes());
            put_name(&mut bytes, &entry.body);
            bytes.push(match entry.overlap {
                Overlap::Skip => 0,
                Overlap::Queue => 1,
                Overlap::Replace => 2,
            });
            bytes.push(match entry.catch_up {
                CatchUp::None => 0,
                CatchUp::One => 1,
                CatchUp::All => 2,
            });
            bytes.extend(entry.jitter_ms.to_le_bytes());
        }
        bytes
    }

    /// Decodes entries from bytes. `None`: the bytes do not come from [`CronTable::encode`], or they
    /// come from a later version.
    pub fn decode(bytes: &[u8]) -> Option<CronTable> {
        let mut reader = Reader(bytes);
        table(&mut reader).ok().filter(|_| reader.0.is_empty())
    }
}

fn table(reader: &mut Reader<'_>) -> Result<CronTable, Malformed> {
    match reader.byte()? {
        VERSION => reader.list(entry).map(CronTable),
        _ => Err(Malformed),
    }
}

fn entry(reader: &mut Reader<'_>) -> Result<CronEntry, Malformed> {
    Ok(CronEntry {
        line: reader.small()?,
        name: reader.name()?,
        queue: reader.name()?,
        cron: reader.parsed()?,
        zone: reader.parsed()?,
        body: (&*reader.name()?).into(),
        overlap: match reader.byte()? {
            0 => Overlap::Skip,
            1 => Overlap::Queue,
            2 => Overlap::Replace,
            _ => return Err(Malformed),
        },
        catch_up: match reader.byte()? {
            0 => CatchUp::None,
            1 => CatchUp::One,
            2 => CatchUp::All,
            _ => return Err(Malformed),
        },
        jitter_ms: reader.large()?,
    })
}

impl CronState {
    /// Encodes the state as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        let fired = self.fired.map_or(0, |at| at.0);
        let job = self.job.map_or(0, |id| id.0);
        for number in [self.last.0, fired, job] {
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }

    /// Decodes a state from bytes. `None`: the bytes do not come from [`CronState::encode`], or they
    /// come from a later version.
    pub fn decode(bytes: &[u8]) -> Option<CronState> {
        let (&VERSION, numbers) = bytes.split_first()? else { return None };
        let (numbers, []) = numbers.as_chunks() else { return None };
        let [last, fired, job] = *numbers else { return None };
        let [last, fired, job] = [last, fired, job].map(u64::from_le_bytes);
        let given = |number: u64| (number > 0).then_some(number);
        let (fired, job) = (given(fired).map(Millis), given(job).map(JobId));
        Some(CronState { last: Millis(last), fired, job })
    }
}
