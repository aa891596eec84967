//! Maps a job's id to its place. Ids ascend, and most ids are in use. So the index has pages of
//! places instead of a hash map: a full page stores no ids.

use std::collections::BTreeMap;

/// The number of ids per page.
const PAGE_LEN: u64 = 4096;

/// A page becomes a list when it has fewer jobs than this. Otherwise each page with a few old jobs
/// would keep 16 KiB.
const SPARSE_BELOW: usize = 64;

/// Maps ids to places.
#[derive(Debug, Default)]
pub(crate) struct IdIndex {
    /// The number of the highest page so far, and the page, even if it is empty. It is not in the
    /// tree, because nearly all new ids are in it, and the search for the highest number takes the
    /// longest.
    newest: (u64, Page),
    /// All lower pages that are not empty.
    pages: BTreeMap<u64, Page>,
    len: usize,
}

#[derive(Debug)]
enum Page {
    /// Pairs of the id within the page and the place, sorted by id.
    Sparse(Vec<(u16, u32)>),
    /// The place plus 1, indexed by the id within the page. 0: the id has no place.
    Dense { places: Vec<u32>, live: usize },
}

impl IdIndex {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, id: u64) -> Option<u32> {
        let inside = (id % PAGE_LEN) as u16;
        let number = id / PAGE_LEN;
        let page =
            if number == self.newest.0 { &self.newest.1 } else { self.pages.get(&number)? };
        match page {
            Page::Sparse(list) => {
                let at = list.binary_search_by_key(&inside, |entry| entry.0).ok()?;
                Some(list[at].1)
            }
            Page::Dense { places, .. } => places[usize::from(inside)].checked_sub(1),
        }
    }

    /// Adds an id that the index does not have yet.
    pub(crate) fn insert(&mut self, id: u64, place: u32) {
        let inside = (id % PAGE_LEN) as u16;
        let page = self.page_or_new(id / PAGE_LEN);
        match page {
            Page::Sparse(list) => {
                let at = list.partition_point(|entry| entry.0 < inside);
                debug_assert!(list.get(at).is_none_or(|entry| entry.0 != inside));
                list.insert(at, (inside, place));
                if list.len() >= SPARSE_BELOW * 2 {
                    *page = Page::dense(list);
                }
            }
            Page::Dense { places, live } => {
                debug_assert_eq!(places[usize::from(inside)], 0);
                places[usize::from(inside)] = place + 1;
                *live += 1;
            }
        }
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<u32> {
        let number = id / PAGE_LEN;
        let inside = (id % PAGE_LEN) as u16;
        let is_newest = number == self.newest.0;
        let page = if is_newest { &mut self.newest.1 } else { self.pages.get_mut(&number)? };
        let (place, live) = match page {
            Page::Sparse(list) => {
                let at = list.binary_search_by_key(&inside, |entry| entry.0).ok()?;
                (list.remove(at).1, list.len())
            }
            Page::Dense { places, live } => {
                let place = std::mem::take(&mut places[usize::from(inside)]).checked_sub(1)?;
                *live -= 1;
                let live = *live;
                if live < SPARSE_BELOW {
                    *page = Page::sparse(places);
                }
                (place, live)
            }
        };
        if live == 0 && !is_newest {
            self.pages.remove(&number);
        }
        self.len -= 1;
        Some(place)
    }

    fn page_or_new(&mut self, number: u64) -> &mut Page {
        if number > self.newest.0 {
            let (before, page) = std::mem::replace(&mut self.newest, (number, Page::default()));
            if !page.is_empty() {
                self.pages.insert(before, page);
            }
        }
        if number == self.newest.0 {
            &mut self.newest.1
        } else {
            self.pages.entry(number).or_default()
        }
    }
}

impl Default for Page {
    fn default() -> Self {
        Self::Sparse(Vec::new())
    }
}

impl Page {
    fn is_empty(&self) -> bool {
        match self {
            Page::Sparse(list) => list.is_empty(),
            Page::Dense { live, .. } => *live == 0,
        }
    }

    fn dense(list: &[(u16, u32)]) -> Self {
        let mut places = vec![0; PAGE_LEN as usize];
        for &(inside, place) in list {
            places[usize::from(inside)] = place + 1;
        }
        Self::Dense { places, live: list.len() }
    }

    fn sparse(places: &[u32]) -> Self {
        let live = places.iter().enumerate().filter(|(_, place)| **place != 0);
        Self::Sparse(live.map(|(inside, place)| (inside as u16, place - 1)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_added_through_dense_and_sparse() {
        let mut index = IdIndex::default();
        for id in 1..10_000 {
            index.insert(id, id as u32 * 2);
        }
        for id in 1..10_000 {
            assert_eq!(index.get(id), Some(id as u32 * 2));
        }
        for id in (1..10_000).filter(|id| id % 100 != 0) {
            assert_eq!(index.remove(id), Some(id as u32 * 2));
            assert_eq!(index.remove(id), None);
        }
        assert_eq!(index.len(), 99);
        assert!(index.pages.values().all(|page| matches!(page, Page::Sparse(_))));
        assert!(matches!(index.newest.1, Page::Sparse(_)));
        for id in (100..10_000).step_by(100) {
            assert_eq!(index.get(id), Some(id as u32 * 2));
            assert_eq!(index.get(id + 1), None);
            index.remove(id);
        }
        assert!(index.pages.is_empty());
    }

    #[test]
    fn finds_ids_that_were_added_in_any_order() {
        let mut index = IdIndex::default();
        let ids: Vec<u64> = (0..20_000).map(|step| step * 7_919 % 20_000).collect();
        for &id in &ids {
            index.insert(id, id as u32);
        }
        for &id in ids.iter().rev() {
            assert_eq!(index.get(id), Some(id as u32));
            assert_eq!(index.remove(id), Some(id as u32));
            assert_eq!(index.get(id), None);
        }
        assert_eq!((index.len(), index.pages.len()), (0, 0));
        // A later page is the newest one. The one before is empty, so it is not kept.
        index.insert(3, 5);
        index.insert(30_000, 6);
        assert_eq!((index.get(3), index.get(30_000)), (Some(5), Some(6)));
        assert_eq!(index.pages.keys().collect::<Vec<_>>(), [&0]);
    }
}
