//! A table of values in pages. If the table grows, it copies no full page. If a page becomes empty,
//! the table frees it, except the first page.

use std::collections::BTreeSet;

/// The number of values per page. A page of jobs takes 64 to 72 KiB. Smaller pages would need more
/// allocations. Larger pages would become empty, and be freed, later when the number of jobs
/// shrinks.
const PAGE_LEN: usize = 1024;

/// The value that marks the end of a page's list of free places.
const NO_PLACE: u16 = u16::MAX;

/// A table of values. A value never changes its place. A new value gets a place in the lowest page
/// that has room. So if a table has become smaller, new values fill the pages at the front.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    pages: Vec<Option<Page<T>>>,
    /// The numbers of existing pages that have room.
    roomy: BTreeSet<u32>,
    /// The numbers below `pages.len()` that have no page.
    missing: BTreeSet<u32>,
    len: usize,
}

#[derive(Debug)]
struct Page<T> {
    places: Vec<Entry<T>>,
    free: u16,
    live: u16,
}

#[derive(Debug)]
enum Entry<T> {
    Used(T),
    Free { next: u16 },
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), roomy: BTreeSet::new(), missing: BTreeSet::new(), len: 0 }
    }
}

fn split(place: u32) -> (usize, usize) {
    (place as usize / PAGE_LEN, place as usize % PAGE_LEN)
}

impl<T> Slab<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The end of the table: all values have places below this place.
    pub(crate) fn end(&self) -> u32 {
        (self.pages.len() * PAGE_LEN) as u32
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let page_number = match self.roomy.first() {
            Some(&number) => number,
            None => self.add_page(),
        };
        let page = self.pages[page_number as usize].as_mut().expect("a roomy page exists");
        let inside = page.insert(value);
        if usize::from(page.live) == PAGE_LEN {
            self.roomy.remove(&page_number);
        }
        self.len += 1;
        page_number * PAGE_LEN as u32 + u32::from(inside)
    }

    fn add_page(&mut self) -> u32 {
        let number = self.missing.pop_first().unwrap_or_else(|| {
            self.pages.push(None);
            self.pages.len() as u32 - 1
        });
        // The first page grows in steps, so that a table with a few values needs little memory. Others get
        // their whole memory at once. The system provides what is in use, and nothing is copied.
        let places = if number == 0 { Vec::new() } else { Vec::with_capacity(PAGE_LEN) };
        self.pages[number as usize] = Some(Page { places, free: NO_PLACE, live: 0 });
        self.roomy.insert(number);
        number
    }

    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        let (page, inside) = split(place);
        match self.pages.get(page)?.as_ref()?.places.get(inside)? {
            Entry::Used(value) => Some(value),
            Entry::Free { .. } => None,
        }
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        let (page, inside) = split(place);
        match self.pages.get_mut(page)?.as_mut()?.places.get_mut(inside)? {
            Entry::Used(value) => Some(value),
            Entry::Free { .. } => None,
        }
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<T> {
        let (page_number, inside) = split(place);
        let page = self.pages.get_mut(page_number)?.as_mut()?;
        let value = page.remove(inside)?;
        self.len -= 1;
        let number = page_number as u32;
        // The first page stays, even if it is empty. Otherwise a table whose length alternates
        // between 0 and 1 would allocate again and again.
        if page.live == 0 && number != 0 {
            self.pages[page_number] = None;
            self.roomy.remove(&number);
            self.missing.insert(number);
        } else {
            self.roomy.insert(number);
        }
        Some(value)
    }

    /// The free places of the page that gets the next value, in the order in which new values get them.
    pub(crate) fn free_places(&self) -> impl Iterator<Item = u32> {
        let number = self.roomy.first().copied().unwrap_or(0);
        let page = self.pages.get(number as usize).and_then(Option::as_ref);
        let mut next = page.map_or(NO_PLACE, |page| page.free);
        std::iter::from_fn(move || {
            let inside = next;
            let Entry::Free { next: after } = page?.places.get(usize::from(inside))? else {
                return None;
            };
            next = *after;
            Some(number * PAGE_LEN as u32 + u32::from(inside))
        })
    }

    /// All values with their places, in the order of places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.pages.iter().enumerate().flat_map(|(number, page)| {
            page.iter().flat_map(|page| page.places.iter().enumerate()).filter_map(
                move |(inside, place)| match place {
                    Entry::Used(value) => Some(((number * PAGE_LEN + inside) as u32, value)),
                    Entry::Free { .. } => None,
                },
            )
        })
    }
}

impl<T> Page<T> {
    fn insert(&mut self, value: T) -> u16 {
        self.live += 1;
        if self.free == NO_PLACE {
            if self.places.capacity() == self.places.len() {
                let more = (self.places.len() * 3).clamp(8, PAGE_LEN - self.places.len());
                self.places.reserve_exact(more);
            }
            self.places.push(Entry::Used(value));
            return self.places.len() as u16 - 1;
        }
        let inside = self.free;
        let place = &mut self.places[usize::from(inside)];
        if let Entry::Free { next } = *place {
            self.free = next;
        }
        *place = Entry::Used(value);
        inside
    }

    fn remove(&mut self, inside: usize) -> Option<T> {
        let place = self.places.get_mut(inside)?;
        if matches!(place, Entry::Free { .. }) {
            return None;
        }
        let Entry::Used(value) = std::mem::replace(place, Entry::Free { next: self.free }) else {
            return None;
        };
        self.free = inside as u16;
        self.live -= 1;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_stable_and_used_again() {
        let mut slab = Slab::default();
        let places: Vec<u32> = (0..5000u32).map(|value| slab.insert(value)).collect();
        for (value, &place) in places.iter().enumerate() {
            assert_eq!(slab.get(place), Some(&(value as u32)));
        }
        for &place in &places[..4999] {
            assert!(slab.remove(place).is_some());
            assert!(slab.remove(place).is_none());
        }
        assert_eq!(slab.len(), 1);
        assert_eq!(slab.get(places[4999]), Some(&4999));
        assert!(slab.free_places().eq(places[..1024].iter().rev().copied()));
        assert_eq!(slab.insert(7), places[1023], "the first page, last freed place");
    }

    #[test]
    fn empty_pages_are_freed() {
        let mut slab = Slab::default();
        let places: Vec<u32> = (0..10_000u32).map(|value| slab.insert(value)).collect();
        for place in places {
            slab.remove(place);
        }
        assert_eq!(slab.pages.iter().flatten().count(), 1);
        assert_eq!(slab.iter().count(), 0);
    }
}
