//! Puts of several items: by text clients, and by thrift clients. The items are stored one after the
//! other, and each of them can wait for room.

use std::collections::VecDeque;

use super::text;
use super::thrift;
use super::thrift_wire::Call;
use crate::model::rooms::Blocked;
use crate::model::session::{Expected, Observed};
use crate::model::{Model, Need, Place};

/// The items of a put that are not stored yet.
#[derive(Clone, Debug)]
pub(in crate::model) struct ItemList {
    queue: String,
    expires: Option<u64>,
    items: VecDeque<Vec<u8>>,
    /// The number of items that are stored.
    stored: usize,
    need: Need,
    /// When the first of the items that have waited for room began to wait.
    waits_since: Option<u64>,
    /// The call of a thrift client. It ends at the first item that is refused.
    call: Option<Call>,
}

impl ItemList {
    pub(super) fn new(
        queue: &str,
        expires: Option<u64>,
        items: &[Vec<u8>],
        call: Option<&Call>,
    ) -> Self {
        let (queue, items, call) = (queue.to_owned(), items.to_vec().into(), call.cloned());
        Self { queue, expires, items, stored: 0, need: 0, waits_since: None, call }
    }

    fn reply(&self, stored: usize, need: Need) -> Expected {
        match &self.call {
            None => text::number(stored, need),
            Some(call) => Expected::bytes(thrift::number(call, stored).end(), need),
        }
    }
}

impl Model {
    /// Stores items until one must wait for room, and replies at the end.
    pub(in crate::model) fn store_list(
        &mut self,
        place: Place,
        mut list: ItemList,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        let mut before = self.leave_line(place);
        if self.may_refuse {
            // In runs with a faulty disk, all items of a list have the same length. So a full disk
            // refuses the last items of the list. In these runs, no policy refuses items.
            let is_next = |more: &usize| observed.is_next(&list.reply(list.stored + more, 0));
            if let Some(fewer) = (0..list.items.len()).find(is_next) {
                self.refusals += 1;
                list.items.truncate(fewer);
            }
        }
        while let Some(item) = list.items.pop_front() {
            let is_allowed = !self.is_draining && !self.writes_blocked();
            let before = before.take();
            let (put, since) = ((&*list.queue, &*item), &mut list.waits_since);
            if is_allowed && self.item_must_wait(place, before.as_ref(), put, since) {
                list.items.push_front(item);
                self.conn(place).blocked = Some(Blocked::List(list));
                return Ok(());
            }
            if !is_allowed {
                break;
            }
            let added = self.add_item(place, &list.queue, &item, list.expires);
            // If others have room now, they do not wait until the list ends.
            self.offer_room();
            match added {
                Ok(need) => {
                    list.stored += 1;
                    list.need = list.need.max(need);
                }
                Err(_) if list.call.is_some() => break,
                Err(_) => {}
            }
        }
        if list.call.as_ref().is_some_and(|call| call.is_oneway) {
            return Ok(());
        }
        observed.take(&list.reply(list.stored, list.need))
    }
}
