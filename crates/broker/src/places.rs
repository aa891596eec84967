//! Where jobs lie in the log, beside the engine's own table of jobs.

use engine::JobSlot;
use log::{Position, Target};

/// Entries per page; as many as the engine keeps jobs per page, so that both shrink together.
const PAGE_LEN: usize = 1024;

/// Where a job lies.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Place {
    /// The slot that later entries name.
    pub(crate) target: Target,
    /// The end of the last entry that a reply about this job waits for.
    pub(crate) after: Position,
}

/// Places by the engine's job slots.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pages: Vec<Option<Page>>,
    /// How many there are.
    count: u64,
}

#[derive(Debug)]
struct Page {
    places: Box<[Option<Place>]>,
    live: usize,
}

fn split(slot: JobSlot) -> (usize, usize) {
    (slot.0 as usize / PAGE_LEN, slot.0 as usize % PAGE_LEN)
}

impl Places {
    pub(crate) fn get(&self, slot: JobSlot) -> Option<&Place> {
        let (page, inside) = split(slot);
        self.pages.get(page)?.as_ref()?.places[inside].as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: JobSlot) -> Option<&mut Place> {
        let (page, inside) = split(slot);
        self.pages.get_mut(page)?.as_mut()?.places[inside].as_mut()
    }

    pub(crate) fn set(&mut self, slot: JobSlot, place: Place) {
        let (page, inside) = split(slot);
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page]
            .get_or_insert_with(|| Page { places: vec![None; PAGE_LEN].into(), live: 0 });
        if page.places[inside].replace(place).is_none() {
            page.live += 1;
            self.count += 1;
        }
    }

    pub(crate) fn remove(&mut self, slot: JobSlot) -> Option<Place> {
        let (number, inside) = split(slot);
        let page = self.pages.get_mut(number)?.as_mut()?;
        let place = page.places[inside].take()?;
        page.live -= 1;
        self.count -= 1;
        if page.live == 0 && number != 0 {
            self.pages[number] = None;
        }
        Some(place)
    }

    /// How many pages there are.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The jobs of a page that lie in this segment.
    pub(crate) fn of_segment(&self, page: usize, segment: u32) -> Vec<JobSlot> {
        let places = self.pages.get(page).into_iter().flatten();
        let places = places.flat_map(|page| page.places.iter().enumerate());
        let lies_there =
            |place: &Option<Place>| place.is_some_and(|place| place.target.segment == segment);
        let found = places.filter(|(_, place)| lies_there(place));
        found.map(|(inside, _)| JobSlot((page * PAGE_LEN + inside) as u32)).collect()
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The slots that have one.
    pub(crate) fn slots(&self) -> impl Iterator<Item = JobSlot> {
        let pages = self.pages.iter().enumerate();
        pages.flat_map(|(number, page)| {
            let places = page.iter().flat_map(|page| page.places.iter().enumerate());
            let taken = places.filter(|(_, place)| place.is_some());
            taken.map(move |(inside, _)| JobSlot((number * PAGE_LEN + inside) as u32))
        })
    }
}
