//! Reads one table of an sqlite database.
//!
//! It reads the rows of an ordinary table, in the order of their row ids. It never writes, so it
//! cannot finish or undo an interrupted write of sqlite. The caller refuses a database with such a
//! write. sqlite's own library is not used for three reasons: it is a large C library, it stops at
//! the first damaged page, and the fuzz targets here cannot test it.
//!
//! The format: <https://www.sqlite.org/fileformat2.html>.

use std::collections::BTreeSet;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEADER_BYTES: usize = 100;
const PAGE_BYTES_MIN: usize = 512;

/// The kinds of pages.
const TABLE_LEAF: u8 = 13;
const TABLE_INTERIOR: u8 = 5;

/// The limit of values that are read of one row. A table of jobs has few columns.
const VALUES_MAX: usize = 64;

/// The limit of the depth of a tree. Trees that sqlite writes have at most 20 levels.
const DEPTH_MAX: u32 = 30;

/// A value of a row. A floating-point number becomes `Null`, because no column of a job has such
/// numbers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Value {
    Null,
    Number(i64),
    Bytes(Vec<u8>),
}

/// The rows of a table, each with its row id. A row can have fewer values than there are columns.
type Rows = Vec<(i64, Vec<Value>)>;

/// A table that was read.
#[derive(Debug)]
pub(crate) struct Table {
    /// The names of its columns, in lower case.
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Rows,
}

/// Whether a file begins with the header of an sqlite database.
pub(crate) fn is_database(file: &[u8]) -> bool {
    file.starts_with(MAGIC)
}

/// Reads a table. Tells `lose` each part that cannot be read: its offset in the file, and what is
/// wrong. Fails if the file does not have this table, or if this module cannot read files of this
/// kind.
pub(crate) fn read(file: &[u8], table: &str, lose: impl FnMut(u64, &str)) -> Result<Table, String> {
    let database = Database::new(file)?;
    let mut damage = String::new();
    let schema = database.read_tree(1, |offset, what| {
        if damage.is_empty() {
            damage = format!("; the file is damaged at offset {offset}: {what}");
        }
    });
    let mut tables = Vec::new();
    for (_, row) in &schema {
        let [Value::Bytes(kind), Value::Bytes(name), _, Value::Number(root), Value::Bytes(sql), ..] =
            &row[..]
        else {
            continue;
        };
        if kind != b"table" {
            continue;
        }
        let name = String::from_utf8_lossy(name).into_owned();
        if name.eq_ignore_ascii_case(table) {
            let root =
                u32::try_from(*root).map_err(|_| format!("the table {table} has no page"))?;
            let columns = columns_of(&String::from_utf8_lossy(sql));
            let mut rows = database.read_tree(root, lose);
            rows.sort_by_key(|(id, _)| *id);
            return Ok(Table { columns, rows });
        }
        tables.push(name);
    }
    Err(format!("the table {table} does not exist; the tables are: {}{damage}", tables.join(", ")))
}

/// A database file.
struct Database<'a> {
    file: &'a [u8],
    page_bytes: usize,
    /// The number of bytes of a page that sqlite uses. The bytes after them are reserved for
    /// extensions of sqlite.
    usable: usize,
}

/// A cell of a leaf page.
struct Cell<'a> {
    row_id: i64,
    payload: std::borrow::Cow<'a, [u8]>,
}

impl<'a> Database<'a> {
    fn new(file: &'a [u8]) -> Result<Self, String> {
        let Some(header) = file.first_chunk::<HEADER_BYTES>().filter(|_| is_database(file)) else {
            return Err("it is not an sqlite database".to_owned());
        };
        let page_bytes = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65_536,
            bytes => usize::from(bytes),
        };
        let reserved = usize::from(header[20]);
        let is_right = page_bytes.is_power_of_two() && page_bytes >= PAGE_BYTES_MIN;
        if !is_right || page_bytes - reserved < 480 {
            return Err(format!("the size of a page is {page_bytes} bytes, which is invalid"));
        }
        match header[59] {
            0 | 1 => {}
            _ => return Err("its texts are not UTF-8".to_owned()),
        }
        Ok(Self { file, page_bytes, usable: page_bytes - reserved })
    }

    fn offset_of(&self, page: u32) -> u64 {
        u64::from(page.saturating_sub(1)) * self.page_bytes as u64
    }

    /// The usable bytes of a page.
    fn page(&self, number: u32) -> Option<&'a [u8]> {
        let start = usize::try_from(number.checked_sub(1)?).ok()?.checked_mul(self.page_bytes)?;
        let page = self.file.get(start..)?.get(..self.page_bytes)?;
        page.get(..self.usable)
    }

    /// Reads all rows of the tree with this root. Tells `lose_at` each part that cannot be read.
    fn read_tree(&self, root: u32, mut lose_at: impl FnMut(u64, &str)) -> Rows {
        let mut rows = Vec::new();
        let mut seen = BTreeSet::new();
        // The number of bytes that more rows can have. In an intact file, no byte belongs to two
        // rows. So all rows together must not be longer than the file. This limits the memory that
        // a damaged file can use.
        let mut left = self.file.len();
        // A stack of pages. The children of a page are pushed in reverse order, so the first child
        // is read first.
        let mut pages = vec![(root, 0)];
        while let Some((number, depth)) = pages.pop() {
            let mut lose = |what: &str| lose_at(self.offset_of(number), what);
            if depth > DEPTH_MAX || !seen.insert(number) {
                lose("a page is in its tree twice; the second place is ignored");
                continue;
            }
            let Some(page) = self.page(number) else {
                lose("a page is missing; its rows are lost");
                continue;
            };
            // The header of the file is at the start of the first page.
            let head = if number == 1 { HEADER_BYTES } else { 0 };
            let kind = page[head];
            let pointers = head + if kind == TABLE_INTERIOR { 12 } else { 8 };
            // The number of cells can be wrong: the page may not have room for so many pointers.
            let counted = usize::from(u16::from_be_bytes([page[head + 3], page[head + 4]]));
            let cells = counted.min((page.len() - pointers) / 2);
            match kind {
                TABLE_LEAF => {
                    for cell in 0..cells {
                        match self.row(page, pointers + 2 * cell, &mut left) {
                            Some(row) => rows.push(row),
                            None => lose(&format!(
                                "row {cell} of this page cannot be read, and is lost"
                            )),
                        }
                    }
                    if counted > cells {
                        lose(&format!(
                            "the page has room for {cells} of {counted} rows; the others are lost"
                        ));
                    }
                }
                TABLE_INTERIOR => {
                    let right = u32_at(page, head + 8).map(|right| (right, depth + 1));
                    pages.extend(right);
                    let mut is_broken = counted > cells;
                    for cell in (0..cells).rev() {
                        let child = offset_at(page, pointers + 2 * cell)
                            .and_then(|offset| u32_at(page, offset));
                        match child {
                            Some(child) => pages.push((child, depth + 1)),
                            None => is_broken = true,
                        }
                    }
                    if is_broken {
                        lose("the page is damaged; the rows of pages below it are lost");
                    }
                }
                _ => lose("the page is damaged, or has no rows; its rows are lost"),
            }
        }
        rows
    }

    /// Reads the row of a cell. `pointer` is the place in the page that stores the cell's offset.
    fn row(&self, page: &'a [u8], pointer: usize, left: &mut usize) -> Option<(i64, Vec<Value>)> {
        let cell = self.cell(page, offset_at(page, pointer)?, left)?;
        Some((cell.row_id, values_of(&cell.payload)?))
    }

    fn cell(&self, page: &'a [u8], offset: usize, left: &mut usize) -> Option<Cell<'a>> {
        let mut rest = page.get(offset..)?;
        let bytes = usize::try_from(varint(&mut rest)?).ok()?;
        let row_id = varint(&mut rest)?.cast_signed();
        *left = left.checked_sub(bytes)?;
        let (usable, most) = (self.usable, self.usable - 35);
        if bytes <= most {
            return Some(Cell { row_id, payload: rest.get(..bytes)?.into() });
        }
        let least = (usable - 12) * 32 / 255 - 23;
        let local = least + (bytes - least) % (usable - 4);
        let local = if local <= most { local } else { least };
        let mut payload = rest.get(..local)?.to_vec();
        let mut next = u32_at(rest, local)?;
        while payload.len() < bytes {
            let overflow = self.page(next)?;
            next = u32_at(overflow, 0)?;
            let wanted = (bytes - payload.len()).min(usable - 4);
            payload.extend_from_slice(overflow.get(4..4 + wanted)?);
        }
        Some(Cell { row_id, payload: payload.into() })
    }
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn offset_at(page: &[u8], pointer: usize) -> Option<usize> {
    let bytes = page.get(pointer..)?.first_chunk()?;
    Some(usize::from(u16::from_be_bytes(*bytes)))
}

/// Reads a number in sqlite's variable-length format: one to nine bytes.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for index in 0..9 {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        if index == 8 {
            return Some(number << 8 | u64::from(*byte));
        }
        number = number << 7 | u64::from(byte & 0x7F);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(number)
}

/// The values of a row.
fn values_of(payload: &[u8]) -> Option<Vec<Value>> {
    let mut rest = payload;
    let head_bytes = usize::try_from(varint(&mut rest)?).ok()?;
    let mut types = payload.get(payload.len() - rest.len()..head_bytes)?;
    let mut data = payload.get(head_bytes..)?;
    let mut values = Vec::new();
    while !types.is_empty() && values.len() < VALUES_MAX {
        let kind = varint(&mut types)?;
        let len = match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind,
            5 => 6,
            6 | 7 => 8,
            12.. => (kind - 12) / 2,
            _ => return None,
        };
        let (bytes, after) = data.split_at_checked(usize::try_from(len).ok()?)?;
        data = after;
        values.push(match kind {
            0 | 7 => Value::Null,
            8 | 9 => Value::Number(i64::from(kind == 9)),
            1..=6 => Value::Number(signed(bytes)),
            _ => Value::Bytes(bytes.to_vec()),
        });
    }
    Some(values)
}

fn signed(bytes: &[u8]) -> i64 {
    let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    bytes.iter().fold(if negative { -1 } else { 0 }, |number, byte| number << 8 | i64::from(*byte))
}

/// The names of the columns in a statement `CREATE TABLE`, in lower case.
fn columns_of(sql: &str) -> Vec<String> {
    const CONSTRAINTS: [&str; 5] = ["primary", "unique", "constraint", "check", "foreign"];
    let Some((_, inside)) = sql.split_once('(') else { return Vec::new() };
    let mut columns = Vec::new();
    let (mut depth, mut item) = (0, String::new());
    for letter in inside.chars() {
        match letter {
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            ')' | ',' if depth == 0 => {
                let name = item.split_whitespace().next().unwrap_or_default();
                let name = name.trim_matches(['"', '\'', '`', '[', ']']).to_lowercase();
                if !name.is_empty() && !CONSTRAINTS.contains(&&*name) {
                    columns.push(name);
                }
                item.clear();
                if letter == ')' {
                    break;
                }
            }
            _ if depth == 0 => item.push(letter),
            _ => {}
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_in_the_statement() {
        let sql = "CREATE TABLE gearman_queue ( unique_key TEXT, function_name TEXT, priority INTEGER, \
                   data BLOB, PRIMARY KEY (unique_key, function_name), \"when_to_run\" INTEGER)";
        let names = ["unique_key", "function_name", "priority", "data", "when_to_run"];
        assert_eq!(columns_of(sql), names);
        assert!(columns_of("").is_empty() && columns_of("CREATE TABLE x").is_empty());
    }

    #[test]
    fn values_are_read() {
        let row = [6, 0, 1, 9, 13 + 4, 12 + 4, 0xFF, b'h', b'i', 1, 2];
        let wanted = [
            Value::Null,
            Value::Number(-1),
            Value::Number(1),
            Value::Bytes(b"hi".to_vec()),
            Value::Bytes(vec![1, 2]),
        ];
        assert_eq!(values_of(&row).unwrap(), wanted);
        for len in 0..row.len() {
            assert_eq!(values_of(&row[..len]), None, "{len}");
        }
    }
}
