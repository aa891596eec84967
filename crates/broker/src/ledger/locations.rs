//! Where each job is in the log. The table is indexed by the job's slot in the engine's table.

use engine::JobSlot;
use log::{Position, Slot};

use crate::journal::{Mark, Placed};

/// Locations per page. A page of the engine's table has the same number of jobs. So both tables can
/// free a page at the same time.
const PAGE_LEN: usize = 1024;

/// A job's location.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Location {
    /// Its slot in the log, which later entries name.
    pub(crate) log_slot: Slot,
    /// The end of the last entry about this job.
    pub(crate) after: Mark,
    /// The offset where the entry with its body begins, in the segment of its slot.
    pub(crate) entry_at: u32,
    /// Its body is only in the log.
    is_stored: bool,
    /// Its body came into memory after the last sweep of its page.
    is_recent: bool,
    /// It has changed since the entry of its slot. So it cannot become cold before it has another slot.
    is_changed: bool,
    /// It has not changed since the last [`Locations::sweep_changed`] of its page.
    is_calm: bool,
}

impl Location {
    /// The location of a job. `is_stored`: the job's body is only in the log.
    pub(crate) fn new(log_slot: Slot, entry_at: u32, after: Mark, is_stored: bool) -> Self {
        let (is_recent, is_changed, is_calm) = (true, false, false);
        Self { log_slot, after, entry_at, is_stored, is_recent, is_changed, is_calm }
    }

    /// The location of a new job.
    pub(crate) fn of(placed: Placed) -> Self {
        Self::new(placed.slot, placed.entry_at, placed.mark, false)
    }

    pub(crate) fn is_stored(&self) -> bool {
        self.is_stored
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Whether the job has changed since the entry of its slot, but not for a while.
    pub(crate) fn needs_slot(&self) -> bool {
        self.is_changed && self.is_calm
    }

    /// Whether the file has the entry with the body. The log writes whole groups. So if it has
    /// written the first byte of the entry, it has written the whole entry.
    pub(crate) fn is_written(&self, written: Position) -> bool {
        Position(u64::from(self.log_slot.segment) << 32 | u64::from(self.entry_at)) < written
    }
}

/// Locations by the engine's job slots.
#[derive(Debug, Default)]
pub(crate) struct Locations {
    pages: Vec<Option<Page>>,
    /// Number of locations.
    count: u64,
    /// Number of jobs whose body is only in the log.
    stored: u64,
    /// Number of jobs that have changed since the entries of their slots.
    changed: u64,
}

#[derive(Debug)]
struct Page {
    locations: Box<[Option<Location>]>,
    live: usize,
    /// The number of jobs whose body is only in the log.
    stored: usize,
    /// The number of jobs that have changed since the entries of their slots.
    changed: usize,
}

fn split(slot: JobSlot) -> (usize, usize) {
    (slot.0 as usize / PAGE_LEN, slot.0 as usize % PAGE_LEN)
}

impl Locations {
    pub(crate) fn get(&self, slot: JobSlot) -> Option<&Location> {
        let (page, inside) = split(slot);
        self.pages.get(page)?.as_ref()?.locations[inside].as_ref()
    }

    /// Prefetches the location of a job: see [`engine::prefetch`].
    pub(crate) fn prefetch(&self, slot: JobSlot) {
        let (page, inside) = split(slot);
        if let Some(Some(page)) = self.pages.get(page) {
            engine::prefetch(&page.locations[inside]);
        }
    }

    pub(crate) fn get_mut(&mut self, slot: JobSlot) -> Option<&mut Location> {
        let (page, inside) = split(slot);
        self.pages.get_mut(page)?.as_mut()?.locations[inside].as_mut()
    }

    pub(crate) fn set(&mut self, slot: JobSlot, location: Location) {
        let (page, inside) = split(slot);
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page].get_or_insert_with(|| Page {
            locations: vec![None; PAGE_LEN].into(),
            live: 0,
            stored: 0,
            changed: 0,
        });
        let before = page.locations[inside].replace(location);
        assert!(before.is_none(), "a new job has no location yet");
        page.live += 1;
        self.count += 1;
        page.stored += usize::from(location.is_stored);
        self.stored += u64::from(location.is_stored);
        page.changed += usize::from(location.is_changed);
        self.changed += u64::from(location.is_changed);
    }

    /// Notes that an entry was written about a change of a job, or that the job has a new slot, whose
    /// entry has all changes.
    pub(crate) fn set_changed(&mut self, slot: JobSlot, is_changed: bool) {
        let (page, inside) = split(slot);
        let Some(Some(page)) = self.pages.get_mut(page) else { return };
        let Some(location) = &mut page.locations[inside] else { return };
        page.changed = page.changed + usize::from(is_changed) - usize::from(location.is_changed);
        self.changed = self.changed + u64::from(is_changed) - u64::from(location.is_changed);
        (location.is_changed, location.is_calm) = (is_changed, false);
    }

    /// Number of jobs that have changed since the entries of their slots.
    pub(crate) fn changed(&self) -> u64 {
        self.changed
    }

    /// The jobs of a page that had changed before the last call for this page, and not since then.
    pub(crate) fn sweep_changed(&mut self, page: usize) -> Vec<JobSlot> {
        let Some(Some(swept)) = self.pages.get_mut(page) else { return Vec::new() };
        let mut found = Vec::new();
        if swept.changed == 0 {
            return found;
        }
        for (inside, location) in swept.locations.iter_mut().enumerate() {
            let Some(location) = location.as_mut().filter(|location| location.is_changed) else {
                continue;
            };
            if std::mem::replace(&mut location.is_calm, true) {
                found.push(JobSlot((page * PAGE_LEN + inside) as u32));
            }
        }
        found
    }

    /// Stores whether the body of a job is only in the log.
    pub(crate) fn set_stored(&mut self, slot: JobSlot, is_stored: bool) {
        let (page, inside) = split(slot);
        let Some(Some(page)) = self.pages.get_mut(page) else { return };
        let Some(location) = &mut page.locations[inside] else { return };
        page.stored = page.stored + usize::from(is_stored) - usize::from(location.is_stored);
        self.stored = self.stored + u64::from(is_stored) - u64::from(location.is_stored);
        (location.is_stored, location.is_recent) = (is_stored, true);
    }

    /// Whether no job of a page has its body in memory.
    pub(crate) fn is_stored_page(&self, page: usize) -> bool {
        self.pages.get(page).and_then(Option::as_ref).is_none_or(|page| page.stored == page.live)
    }

    /// Sweeps one page. Returns the jobs of the page whose body can leave the memory: the body was
    /// already in memory at the last sweep of this page, and the file has it.
    pub(crate) fn sweep(&mut self, page: usize, written: Position) -> Vec<JobSlot> {
        let Some(Some(swept)) = self.pages.get_mut(page) else { return Vec::new() };
        if swept.stored == swept.live {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (inside, location) in swept.locations.iter_mut().enumerate() {
            let Some(location) = location.as_mut().filter(|location| !location.is_stored) else {
                continue;
            };
            if !std::mem::replace(&mut location.is_recent, false) && location.is_written(written) {
                found.push(JobSlot((page * PAGE_LEN + inside) as u32));
            }
        }
        found
    }

    /// Number of jobs whose body is only in the log.
    pub(crate) fn stored(&self) -> u64 {
        self.stored
    }

    pub(crate) fn remove(&mut self, slot: JobSlot) -> Option<Location> {
        let (number, inside) = split(slot);
        let page = self.pages.get_mut(number)?.as_mut()?;
        let location = page.locations[inside].take()?;
        page.live -= 1;
        self.count -= 1;
        page.stored -= usize::from(location.is_stored);
        self.stored -= u64::from(location.is_stored);
        page.changed -= usize::from(location.is_changed);
        self.changed -= u64::from(location.is_changed);
        if page.live == 0 && number != 0 {
            self.pages[number] = None;
        }
        Some(location)
    }

    /// Number of pages.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The jobs of a page whose entries are in this segment.
    pub(crate) fn of_segment(&self, page: usize, segment: u32) -> Vec<JobSlot> {
        let locations = self.pages.get(page).into_iter().flatten();
        let locations = locations.flat_map(|page| page.locations.iter().enumerate());
        let lies_there = |location: &Option<Location>| {
            location.is_some_and(|location| location.log_slot.segment == segment)
        };
        let found = locations.filter(|(_, location)| lies_there(location));
        found.map(|(inside, _)| JobSlot((page * PAGE_LEN + inside) as u32)).collect()
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The slots with a location.
    pub(crate) fn slots(&self) -> impl Iterator<Item = JobSlot> {
        let pages = self.pages.iter().enumerate();
        pages.flat_map(|(number, page)| {
            let locations = page.iter().flat_map(|page| page.locations.iter().enumerate());
            let taken = locations.filter(|(_, location)| location.is_some());
            taken.map(move |(inside, _)| JobSlot((number * PAGE_LEN + inside) as u32))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_needs_a_slot_when_it_has_not_changed_between_two_sweeps() {
        let (mut locations, slot) = (Locations::default(), JobSlot(3));
        let log_slot = Slot { segment: 1, index: 0 };
        locations.set(slot, Location::new(log_slot, 0, Mark::default(), false));
        assert!(locations.sweep_changed(0).is_empty() && locations.changed() == 0);
        for _ in 0..2 {
            locations.set_changed(slot, true);
            assert!(locations.sweep_changed(0).is_empty(), "it has just changed");
            assert_eq!(locations.sweep_changed(0), [slot]);
        }
        assert!(locations.changed() == 1 && locations.get(slot).is_some_and(Location::needs_slot));
        locations.set_changed(slot, false);
        assert!(locations.sweep_changed(0).is_empty() && locations.changed() == 0);
        locations.set_changed(slot, true);
        locations.remove(slot);
        assert_eq!(locations.changed(), 0);
    }
}
