//! A list of many names in little memory, for queues and series.

/// Sorted unique names, stored as one text.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct NameList {
    text: Box<str>,
    /// For each name, the offset of its end in the text.
    ends: Box<[u32]>,
}

impl NameList {
    /// Builds the list. The names must be sorted, and have less than 4 GiB together.
    pub(crate) fn of<'a>(sorted: impl Iterator<Item = &'a str>) -> NameList {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for name in sorted {
            text.push_str(name);
            ends.push(text.len() as u32);
        }
        NameList { text: text.into(), ends: ends.into() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).map(|place| self.get(place))
    }

    /// The index of a name in the list.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let (mut from, mut to) = (0, self.ends.len());
        while from < to {
            let middle = from.midpoint(to);
            match self.get(middle).cmp(name) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        None
    }

    pub(crate) fn last(&self) -> Option<&str> {
        self.ends.len().checked_sub(1).map(|place| self.get(place))
    }

    /// The memory of the list in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.text.len() + size_of_val(&*self.ends)) as u64
    }

    fn get(&self, place: usize) -> &str {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.text[start as usize..self.ends[place] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_where_they_are() {
        for count in 0..20 {
            let names: Vec<String> = (0..count).map(|number| format!("{number:03}")).collect();
            let list = NameList::of(names.iter().map(String::as_str));
            assert!(list.iter().eq(names.iter().map(String::as_str)));
            for (place, name) in names.iter().enumerate() {
                assert_eq!(list.find(name), Some(place));
                assert_eq!(list.find(&format!("{name}x")), None);
            }
            assert_eq!((list.find(""), list.find("z")), (None, None));
            assert_eq!(list.bytes(), 7 * count);
        }
        let uneven = NameList::of(["", "long", "ä"].into_iter());
        let places = ["", "long", "ä", "lo"].map(|name| uneven.find(name));
        assert_eq!(places, [Some(0), Some(1), Some(2), None]);
    }
}
