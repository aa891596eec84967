//! A crawler's queue inside one program: `cargo run -p lineshaft-broker --example crawler`.
//!
//! Several readers open pages, follow their links, and confirm. One reader fails while it holds a
//! page, and another reader gets that page. An indexer gets a copy of every page from a child
//! queue.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use lineshaft_broker::embedded::{Error, Queue, Store, Wait};

/// A web of pages: `/` links to `/1` and `/2`, `/1` to `/11` and `/12`, and so on.
fn links_of(page: &str) -> Vec<String> {
    let stem = page.trim_end_matches('/');
    if page.len() > 3 {
        return Vec::new();
    }
    let separator = if page == "/" { "/" } else { "" };
    (1..=2).map(|link| format!("{stem}{separator}{link}")).collect()
}

fn crawl(number: u32, queue: &mut Queue<'_>, seen: &Mutex<BTreeSet<String>>) -> Result<(), Error> {
    while let Some(item) = queue.open(Wait::For(Duration::from_millis(200)))? {
        let page = String::from_utf8_lossy(&item.body).into_owned();
        if number == 1 && page == "/12" {
            println!("reader 1 dies with {page} in its hands");
            return Ok(());
        }
        // The links of a page are on disk before the page is confirmed. After a crash in between,
        // the page is read twice, but no link is lost.
        for link in links_of(&page) {
            queue.add(link.as_bytes(), Some(Duration::from_hours(1)))?;
        }
        queue.confirm(&item)?;
        seen.lock().expect("no reader panics").insert(page.clone());
        println!("reader {number} is done with {page}");
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join("lineshaft-crawler-example");
    let store = Store::open(&folder)?;
    // From now on, this child gets a copy of each item that is added to `pages`.
    let mut index = store.queue("pages+index");
    index.peek(Wait::No)?;
    store.queue("pages").add(b"/", None)?;

    let seen = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for number in 1..=3 {
            let (store, seen) = (&store, &seen);
            // When a reader ends, its handle is closed, and the items that it holds are given back.
            scope.spawn(move || crawl(number, &mut store.queue("pages"), seen));
        }
    });
    // If reader 1 ended last, its page is still in the queue. Read this page, too.
    crawl(4, &mut store.queue("pages"), &seen)?;
    println!("{} pages were read", seen.lock().expect("no reader panics").len());

    let mut copies = 0;
    while index.remove(Wait::No)?.is_some() {
        copies += 1;
    }
    println!("{copies} pages went to the index");
    index.close();
    store.close()?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
