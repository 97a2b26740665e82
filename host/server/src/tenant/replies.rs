//! Memory charged for workers' replies until a response is built from them.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Tenant;
use crate::byte_budget::{ChargedBytes, Room};

/// The memory of the replies to one request's operations. Owned by the code that charges the request's response.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplyRooms(Arc<Mutex<Vec<Room>>>);

/// A tenant's reference to the [`ReplyRooms`] of a request. It is weak, because the tenant can outlive the request.
#[derive(Clone, Debug, Default)]
pub(super) struct WeakReplyRooms(Weak<Mutex<Vec<Room>>>);

impl ReplyRooms {
    /// Takes the memory, to charge it to the response. Releases late reservations ([`Room::Late`]), which are not part
    /// of the budget.
    pub(crate) fn take(&self) -> ChargedBytes {
        let rooms = std::mem::take(&mut *self.0.lock());
        let mut held = ChargedBytes::default();
        for room in rooms {
            if let Room::ChargedBytes(other) = room {
                held.join(other);
            }
        }
        held
    }
}

impl Tenant {
    /// Returns a handle to this tenant for one request. The replies to its operations stay charged until `rooms` is
    /// taken or dropped.
    pub(crate) fn replying(&self, rooms: &ReplyRooms) -> Self {
        let replies = WeakReplyRooms(Arc::downgrade(&rooms.0));
        Self { replies, ..self.clone() }
    }

    /// Keeps the memory of a reply until the request's response is charged. Releases it if no request is waiting.
    pub(crate) fn keep(&self, rooms: impl IntoIterator<Item = Room>) {
        if let Some(rooms_of_request) = self.replies.0.upgrade() {
            rooms_of_request.lock().extend(rooms);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::byte_budget::ByteBudget;

    #[test]
    fn reply_memory_is_taken_by_the_response_or_released() {
        let budget = ByteBudget::new(8 << 10, Duration::ZERO, []);
        let room = || Room::ChargedBytes(budget.try_room(None, 2 << 10).unwrap());
        let rooms = ReplyRooms::default();
        let replies = WeakReplyRooms(Arc::downgrade(&rooms.0));
        rooms.0.lock().extend([room(), room()]);
        let held = rooms.take();
        assert_eq!((held.bytes(), budget.free_bytes(None)), (4 << 10, 4 << 10));
        rooms.0.lock().push(room());
        drop((held, rooms));
        assert_eq!(budget.free_bytes(None), 8 << 10);
        assert!(replies.0.upgrade().is_none());
    }
}
