//! The keys of the table, and its sort orders.

use std::cmp::Ordering;

use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};

use super::snapshot::Queue;

/// The action of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    Sort(SortKey),
    /// Scrolls by this number of rows; down if positive.
    Move(i32),
    MovePages(i32),
    First,
    Last,
}

/// A column that the table can be sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SortKey {
    Name,
    Ready,
    Delayed,
    Leased,
    Buried,
    PutRate,
    FinishRate,
}

/// The order of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SortOrder {
    pub(super) key: SortKey,
    pub(super) reversed: bool,
}

/// Returns the action of a key, or `None` if the key has none.
pub(super) fn action(event: &Event) -> Option<Action> {
    let Event::Key(key) = event else { return None };
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if control => Action::Quit,
        KeyCode::Char('q') | KeyCode::Esc => Action::Quit,
        KeyCode::Char('n') => Action::Sort(SortKey::Name),
        KeyCode::Char('r') => Action::Sort(SortKey::Ready),
        KeyCode::Char('d') => Action::Sort(SortKey::Delayed),
        KeyCode::Char('l') => Action::Sort(SortKey::Leased),
        KeyCode::Char('b') => Action::Sort(SortKey::Buried),
        KeyCode::Char('p') => Action::Sort(SortKey::PutRate),
        KeyCode::Char('f') => Action::Sort(SortKey::FinishRate),
        KeyCode::Down | KeyCode::Char('j') => Action::Move(1),
        KeyCode::Up | KeyCode::Char('k') => Action::Move(-1),
        KeyCode::PageDown | KeyCode::Char(' ') => Action::MovePages(1),
        KeyCode::PageUp => Action::MovePages(-1),
        KeyCode::Home => Action::First,
        KeyCode::End => Action::Last,
        _ => return None,
    })
}

impl SortOrder {
    /// The order after the user chose `key`. If the user chooses the same key again, the order is
    /// reversed.
    pub(super) fn after_key(self, key: SortKey) -> SortOrder {
        SortOrder { key, reversed: self.key == key && !self.reversed }
    }

    /// Sorts names from A to Z, and numbers from large to small. Queues with equal numbers are
    /// sorted by name.
    pub(super) fn compare(self, left: &Queue, right: &Queue) -> Ordering {
        let by_rate = |left: Option<f64>, right: Option<f64>| {
            right.unwrap_or(0.0).total_cmp(&left.unwrap_or(0.0))
        };
        let order = match self.key {
            SortKey::Name => left.name.cmp(&right.name),
            SortKey::Ready => right.ready.cmp(&left.ready),
            SortKey::Delayed => right.delayed.cmp(&left.delayed),
            SortKey::Leased => right.leased.cmp(&left.leased),
            SortKey::Buried => right.buried.cmp(&left.buried),
            SortKey::PutRate => by_rate(left.put_rate, right.put_rate),
            SortKey::FinishRate => by_rate(left.finish_rate, right.finish_rate),
        };
        let order = if self.reversed { order.reverse() } else { order };
        order.then_with(|| left.name.cmp(&right.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_key_again_turns_the_order_round() {
        let queue = |name: &str, ready| Queue { name: name.to_owned(), ready, ..Queue::default() };
        let mut queues = [queue("a", 1), queue("b", 3), queue("c", 1)];
        let names = |queues: &[Queue]| queues.iter().map(|q| q.name.as_str()).collect::<String>();
        let by_name = SortOrder { key: SortKey::Name, reversed: false };
        let by_ready = by_name.after_key(SortKey::Ready);
        queues.sort_by(|left, right| by_ready.compare(left, right));
        assert_eq!(names(&queues), "bac");
        let turned = by_ready.after_key(SortKey::Ready);
        queues.sort_by(|left, right| turned.compare(left, right));
        assert_eq!(names(&queues), "acb");
        assert_eq!(turned.after_key(SortKey::Ready), by_ready);
    }
}
