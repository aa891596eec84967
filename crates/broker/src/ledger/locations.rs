//! The locations of jobs in the log, by the jobs' slots in the engine's table.

use engine::JobSlot;
use log::{Position, Slot};

/// Locations per page. A page of the engine's table has the same number of jobs, so both tables
/// shrink together.
const PAGE_LEN: usize = 1024;

/// A job's location.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Location {
    /// Its slot in the log, which later entries name.
    pub(crate) log_slot: Slot,
    /// The position for replies about this job.
    pub(crate) after: Position,
}

/// Locations by the engine's job slots.
#[derive(Debug, Default)]
pub(crate) struct Locations {
    pages: Vec<Option<Page>>,
    /// Number of locations.
    count: u64,
}

#[derive(Debug)]
struct Page {
    locations: Box<[Option<Location>]>,
    live: usize,
}

fn split(slot: JobSlot) -> (usize, usize) {
    (slot.0 as usize / PAGE_LEN, slot.0 as usize % PAGE_LEN)
}

impl Locations {
    pub(crate) fn get(&self, slot: JobSlot) -> Option<&Location> {
        let (page, inside) = split(slot);
        self.pages.get(page)?.as_ref()?.locations[inside].as_ref()
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
        let page = self.pages[page]
            .get_or_insert_with(|| Page { locations: vec![None; PAGE_LEN].into(), live: 0 });
        if page.locations[inside].replace(location).is_none() {
            page.live += 1;
            self.count += 1;
        }
    }

    pub(crate) fn remove(&mut self, slot: JobSlot) -> Option<Location> {
        let (number, inside) = split(slot);
        let page = self.pages.get_mut(number)?.as_mut()?;
        let location = page.locations[inside].take()?;
        page.live -= 1;
        self.count -= 1;
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
