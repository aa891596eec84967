//! The connections of one I/O thread. Each connection has a place, which is a number that does not
//! change.

use crate::net::connection::Connection;

/// The connections of one I/O thread, by place. A new connection gets a free place if there is one.
/// So the table is never longer than the highest number of connections at one time.
#[derive(Default)]
pub(crate) struct Table {
    places: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
}

impl Table {
    /// The connection at this place, if any.
    pub(crate) fn get(&mut self, place: u32) -> Option<&mut Connection> {
        self.places.get_mut(place as usize)?.as_deref_mut()
    }

    /// Inserts a connection, and returns its place.
    pub(crate) fn insert(&mut self, connection: Connection) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        self.places[place as usize] = Some(Box::new(connection));
        place
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<Box<Connection>> {
        let removed = self.places.get_mut(place as usize)?.take();
        if removed.is_some() {
            self.free.push(place);
        }
        removed
    }

    /// All places are below this number.
    pub(crate) fn end(&self) -> u32 {
        self.places.len() as u32
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.places.iter().filter_map(Option::as_deref)
    }

    /// All places in use.
    pub(crate) fn all(&self) -> Vec<u32> {
        let places = self.places.iter().enumerate();
        places.filter(|(_, taken)| taken.is_some()).map(|(place, _)| place as u32).collect()
    }
}
