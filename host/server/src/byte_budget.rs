//! Limits the memory that the server holds for requests, answers and messages of its clients, through every door.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes per step, the unit of the semaphores below.
pub(crate) const STEP_BYTES: usize = 1 << 10;
/// Upper bound of `late_steps`, which is otherwise a quarter of the budget.
const MAX_LATE_BYTES: usize = 16 << 20;

/// A shared limit in bytes. One half of it is shared by all tenants; the other half is divided into equal shares, one
/// per tenant. A tenant's share is available to it even if the other tenants exhaust the shared half. Without tenants,
/// everything is shared. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ByteBudget(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    shared: Arc<Semaphore>,
    shared_steps: usize,
    /// Keyed by the tenant's name.
    own: HashMap<String, Arc<Semaphore>>,
    own_steps: usize,
    late: Arc<Semaphore>,
    late_steps: usize,
    wait: Duration,
}

/// Bytes that count against a budget until this value is dropped.
#[derive(Debug, Default)]
pub(crate) struct HeldBytes {
    permits: Vec<OwnedSemaphorePermit>,
    steps: usize,
}

/// A reservation for a buffer that does not exist yet.
#[derive(Debug)]
pub(crate) enum Room {
    /// Permits were available.
    HeldBytes(HeldBytes),
    /// No permits were available. The buffer may be created, and `settle` waits for permits then.
    Late(OwnedSemaphorePermit),
}

/// The budget is exhausted, or was not replenished in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

impl HeldBytes {
    /// Takes over the permits of `other`.
    pub(crate) fn join(&mut self, other: Self) {
        self.permits.extend(other.permits);
        self.steps += other.steps;
    }

    /// Releases everything beyond `bytes`.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let keep = bytes.div_ceil(STEP_BYTES);
        while self.steps > keep
            && let Some(mut last) = self.permits.pop()
        {
            let over = self.steps - keep;
            if last.num_permits() > over {
                drop(last.split(over));
                self.permits.push(last);
                self.steps = keep;
            } else {
                self.steps -= last.num_permits();
            }
        }
    }
}

impl ByteBudget {
    /// Creates a budget of `max_bytes`.
    ///
    /// `wait`: how long `grow` waits for permits.
    pub(crate) fn new<'a>(max_bytes: usize, wait: Duration, tenants: impl IntoIterator<Item = &'a str>) -> Self {
        let max_steps = (max_bytes / STEP_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        let tenants: BTreeSet<&str> = tenants.into_iter().collect();
        let own_steps = max_steps / 2 / tenants.len().max(1);
        let own = tenants.iter().map(|name| ((*name).to_owned(), Arc::new(Semaphore::new(own_steps)))).collect();
        let shared_steps = max_steps - own_steps * tenants.len();
        let late_steps = (max_steps / 4).clamp(1, MAX_LATE_BYTES / STEP_BYTES);
        Self(Arc::new(Budget {
            shared: Arc::new(Semaphore::new(shared_steps)),
            shared_steps,
            own,
            own_steps,
            late: Arc::new(Semaphore::new(late_steps)),
            late_steps,
            wait,
        }))
    }

    /// Grows `held` to `bytes` in total, waiting for permits if necessary. Dropping the future leaves `held` unchanged.
    pub(crate) async fn grow(&self, tenant: Option<&str>, held: &mut HeldBytes, bytes: usize) -> Result<(), NoRoom> {
        let more = self.missing(tenant, held, bytes);
        if more > 0 {
            let waited = tokio::time::timeout(self.0.wait, self.wait(tenant, more)).await;
            held.join(HeldBytes { permits: waited.map_err(|_| NoRoom)??, steps: more });
        }
        Ok(())
    }

    /// Like [`grow`](Self::grow), but fails instead of waiting.
    pub(crate) fn try_grow(&self, tenant: Option<&str>, held: &mut HeldBytes, bytes: usize) -> Result<(), NoRoom> {
        let more = self.missing(tenant, held, bytes);
        if more > 0 {
            held.join(HeldBytes { permits: self.take(tenant, more).ok_or(NoRoom)?, steps: more });
        }
        Ok(())
    }

    /// Acquires `bytes` without waiting. Fails if `bytes` exceed the limit.
    pub(crate) fn try_room(&self, tenant: Option<&str>, bytes: usize) -> Result<HeldBytes, NoRoom> {
        let steps = bytes.div_ceil(STEP_BYTES);
        Ok(HeldBytes { permits: self.take(tenant, steps).ok_or(NoRoom)?, steps })
    }

    /// Reserves `bytes` for a buffer that is about to be created, without waiting. If the budget is exhausted, small
    /// buffers may still be created: their total is limited by `late_steps`.
    pub(crate) fn reserve(&self, tenant: Option<&str>, bytes: usize) -> Result<Room, NoRoom> {
        if let Ok(held) = self.try_room(tenant, bytes) {
            return Ok(Room::HeldBytes(held));
        }
        let steps = bytes.div_ceil(STEP_BYTES);
        if steps > self.0.late_steps {
            return Err(NoRoom);
        }
        Arc::clone(&self.0.late).try_acquire_many_owned(count(steps)).map(Room::Late).map_err(|_| NoRoom)
    }

    /// Turns a reservation into the permits for the `bytes` that the buffer has in the end.
    pub(crate) async fn settle(&self, tenant: Option<&str>, room: Room, bytes: usize) -> Result<HeldBytes, NoRoom> {
        match room {
            Room::HeldBytes(mut held) => {
                held.shrink(bytes);
                Ok(held)
            }
            Room::Late(_late) => {
                let mut held = HeldBytes::default();
                self.grow(tenant, &mut held, bytes).await?;
                Ok(held)
            }
        }
    }

    /// Acquires permits for `bytes` that are in memory already.
    pub(crate) async fn room(&self, tenant: Option<&str>, bytes: usize) -> Result<HeldBytes, NoRoom> {
        let room = self.reserve(tenant, bytes)?;
        self.settle(tenant, room, bytes).await
    }

    /// The number of steps to add to `held`, capped at the total available to this tenant. A larger buffer is thus
    /// admitted alone.
    fn missing(&self, tenant: Option<&str>, held: &HeldBytes, bytes: usize) -> usize {
        let own_steps = self.own(tenant).map_or(0, |_| self.0.own_steps);
        bytes.div_ceil(STEP_BYTES).min(self.0.shared_steps + own_steps).saturating_sub(held.steps)
    }

    fn own(&self, tenant: Option<&str>) -> Option<&Arc<Semaphore>> {
        self.0.own.get(tenant?)
    }

    /// Acquires steps from the tenant's own share. Returns them and the number of steps still to acquire from the
    /// shared half.
    fn take_own(&self, tenant: Option<&str>, steps: usize) -> (Vec<OwnedSemaphorePermit>, usize) {
        let own = self.own(tenant).and_then(|own| {
            let part = steps.min(own.available_permits());
            Arc::clone(own).try_acquire_many_owned(count(part)).ok()
        });
        let left = steps - own.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        (own.into_iter().collect(), left)
    }

    fn take(&self, tenant: Option<&str>, steps: usize) -> Option<Vec<OwnedSemaphorePermit>> {
        let (mut permits, left) = self.take_own(tenant, steps);
        if left > 0 {
            let left = u32::try_from(left).ok()?;
            permits.push(Arc::clone(&self.0.shared).try_acquire_many_owned(left).ok()?);
        }
        Some(permits)
    }

    async fn wait(&self, tenant: Option<&str>, steps: usize) -> Result<Vec<OwnedSemaphorePermit>, NoRoom> {
        let (mut permits, left) = self.take_own(tenant, steps);
        // Capped at the total: waiting for more would never end.
        let left = count(left.min(self.0.shared_steps));
        if left > 0 {
            permits.push(Arc::clone(&self.0.shared).acquire_many_owned(left).await.map_err(|_| NoRoom)?);
        }
        Ok(permits)
    }
}

fn count(steps: usize) -> u32 {
    u32::try_from(steps).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(steps: usize, tenants: &[&str]) -> ByteBudget {
        ByteBudget::new(steps * STEP_BYTES, Duration::from_millis(20), tenants.iter().copied())
    }

    #[test]
    fn whatever_one_takes_others_have_their_share() {
        let budget = budget(16, &["a", "b"]);
        let step = |tenant| budget.try_room(tenant, STEP_BYTES).ok();
        let all: Vec<_> = std::iter::from_fn(|| step(Some("a"))).collect();
        assert_eq!(all.len(), 12, "its own quarter, and the shared half");
        assert_eq!(std::iter::from_fn(|| step(Some("b"))).map(std::mem::forget).count(), 4);
        assert!(step(None).is_none());
        drop(all);
        assert!(step(None).is_some());
    }

    #[tokio::test]
    async fn room_is_taken_of_both_shares_and_given_back() {
        let budget = budget(8, &["a"]);
        let mut held = budget.room(Some("a"), 7 * STEP_BYTES).await.unwrap();
        assert_eq!(held.permits.iter().map(OwnedSemaphorePermit::num_permits).sum::<usize>(), 7);
        assert!(budget.try_room(Some("a"), 2 * STEP_BYTES).is_err());
        held.shrink(STEP_BYTES + 1);
        assert_eq!((held.steps, held.permits.iter().map(OwnedSemaphorePermit::num_permits).sum::<usize>()), (2, 2));
        drop(budget.try_room(Some("a"), 6 * STEP_BYTES).unwrap());
        drop(held);
        assert_eq!(
            budget.room(Some("a"), 9 * STEP_BYTES).await.map(drop),
            Err(NoRoom),
            "more than there is altogether"
        );
        drop(budget.room(Some("a"), 8 * STEP_BYTES).await.unwrap());
        drop(budget.room(Some("a"), 0).await.unwrap());
        assert!(budget.try_room(Some("a"), 100 * STEP_BYTES).is_err());
    }

    #[tokio::test]
    async fn only_a_part_of_the_budget_waits() {
        let budget = budget(8, &[]);
        let mut one = budget.room(None, STEP_BYTES).await.unwrap();
        budget.grow(None, &mut one, 7 * STEP_BYTES).await.unwrap();
        assert_eq!(budget.grow(None, &mut one, 9 * STEP_BYTES).await, Ok(()), "as much as there is");
        assert_eq!(budget.try_grow(None, &mut HeldBytes::default(), 1), Err(NoRoom));
        let (first, second) = tokio::join!(budget.room(None, 2 * STEP_BYTES), async {
            let begun = std::time::Instant::now();
            (budget.room(None, 1).await.map(drop), begun.elapsed())
        });
        assert_eq!(first.map(drop), Err(NoRoom), "it waits in vain");
        assert_eq!(second.0, Err(NoRoom));
        assert!(second.1 < Duration::from_millis(20), "a quarter waits already");
        drop(one);
        budget.room(None, 8 * STEP_BYTES).await.unwrap();
    }
}
