//! Tests the parser of gearmand's table with small damaged databases, which the tests write as
//! <https://www.sqlite.org/fileformat2.html> describes them. Tests of the whole program read
//! databases of the original.

use lineshaft_import::{Backlog, LOSSES_MAX, gearmand};

/// The kinds of pages: with rows, and with the numbers of other pages.
const LEAF: u8 = 13;
const INTERIOR: u8 = 5;

const CREATE: &[u8] = b"CREATE TABLE gearman_queue (unique_key, function_name, priority, data)";

/// A page that counts this many cells. All its pointers to cells are 0: the page's own start.
fn page(page_bytes: usize, kind: u8, cells: u16) -> Vec<u8> {
    let mut page = vec![0; page_bytes];
    page[0] = kind;
    page[3..5].copy_from_slice(&cells.to_be_bytes());
    page
}

/// Reads a database with gearmand's table. The root of the table is `root`.
fn read(root: &[u8]) -> Backlog {
    // The type of a text is 13 + 2 × its length. The type of a number of one byte is 1. The last
    // type is above 127, so it has two bytes.
    let create_type = 13 + 2 * CREATE.len();
    let last = [0x80 | (create_type >> 7) as u8, create_type as u8 & 0x7F];
    let name = b"gearman_queue";
    let name_type = 13 + 2 * name.len() as u8;
    let types = [&[7, 13 + 2 * 5, name_type, name_type, 1][..], &last].concat();
    let row = [&types[..], b"table", name, name, &[2], CREATE].concat();
    let cell = [&[row.len() as u8, 1][..], &row].concat();

    // The header of the file is in the first page. 1 is the code for pages of 64 KiB.
    let mut first = vec![0; root.len()];
    first[..16].copy_from_slice(b"SQLite format 3\0");
    first[16..18].copy_from_slice(&u16::try_from(root.len()).unwrap_or(1).to_be_bytes());
    let place = first.len() - cell.len();
    first[100..105].copy_from_slice(&[LEAF, 0, 0, 0, 1]);
    first[108..110].copy_from_slice(&(place as u16).to_be_bytes());
    first[place..].copy_from_slice(&cell);
    let file = [&first[..], root].concat();
    gearmand::parse_sqlite(&file, "queue.db", gearmand::TABLE).unwrap()
}

#[test]
fn a_page_loses_no_more_rows_one_by_one_than_it_has_room_for() {
    let backlog = read(&page(512, LEAF, u16::MAX));
    // The head of the page has 8 bytes. A pointer to a row has 2 bytes.
    let room = (512 - 8) / 2;
    assert_eq!((backlog.losses.len(), backlog.more_losses), (room + 1, 0));
    assert_eq!(backlog.losses[room].place, "queue.db at offset 512");
    let wanted = "the page has room for 252 of 65535 rows; the others are lost";
    assert_eq!(backlog.losses[room].what, wanted);
}

#[test]
fn losses_beyond_a_limit_are_only_counted() {
    // One page is missing, and is in the tree 20,000 times. The page on the right is missing, too.
    let backlog = read(&page(65_536, INTERIOR, 20_000));
    assert_eq!(backlog.losses.len(), LOSSES_MAX);
    assert_eq!(backlog.more_losses, 20_001 - LOSSES_MAX as u64);
}
