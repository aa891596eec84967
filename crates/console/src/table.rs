//! Tables: headings that sort, and the links between pages.

use maud::{Markup, html};

use crate::link;
use crate::texts::Texts;

/// How a list is sorted: the key, with a minus sign in front if the largest comes first.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Sorting<'a> {
    /// The address of the list.
    pub(crate) path: &'a str,
    pub(crate) now: &'a str,
    /// Parameters of the address that stay.
    pub(crate) kept: &'a [(&'a str, Option<&'a str>)],
}

impl Sorting<'_> {
    /// The heading of a column. A click sorts by it, the largest number first, or the other way
    /// round if the list is sorted by it already.
    pub(crate) fn heading(&self, name: &str, key: &str) -> Markup {
        let descending = format!("-{key}");
        let begins_largest = key != "name";
        let (next, state) = if self.now == descending {
            (key.to_owned(), Some("descending"))
        } else if self.now == key {
            (descending, Some("ascending"))
        } else {
            (if begins_largest { descending } else { key.to_owned() }, None)
        };
        let mut parameters = self.kept.to_vec();
        parameters.push(("sort", Some(&next)));
        html! {
            th scope="col" class=[begins_largest.then_some("num")] aria-sort=[state] {
                a href=(link::with(self.path, &parameters)) {
                    (name)
                    @match state {
                        Some("descending") => { span .arrow aria-hidden="true" { " ↓" } }
                        Some(_) => { span .arrow aria-hidden="true" { " ↑" } }
                        None => {}
                    }
                }
            }
        }
    }
}

/// The links below a list.
pub(crate) fn paging(t: &Texts, first: Option<String>, next: Option<String>) -> Markup {
    html! {
        @if first.is_some() || next.is_some() {
            nav .paging aria-label=(t.frame.pages) {
                @if let Some(first) = first { a href=(first) rel="first" { (t.frame.first_page) } }
                @if let Some(next) = next { a href=(next) rel="next" { (t.frame.next_page) } }
            }
        }
    }
}
