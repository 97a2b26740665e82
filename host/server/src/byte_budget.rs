//! A budget for the memory that requests, responses and messages of all clients occupy.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The size of a step in bytes. The semaphores below count steps instead of bytes, because a semaphore grants at most
/// `u32::MAX` permits at once.
pub(crate) const STEP_BYTES: usize = 1 << 10;
/// Maximum total size of all late reservations ([`Room::Late`]) in bytes, which are not part of the budget. The maximum
/// is a quarter of the budget if that is less.
const MAX_LATE_BYTES: usize = 16 << 20;
/// Each client process can take at most `1 / CLIENT_SHARE` of the budget.
const CLIENT_SHARE: usize = 2;

/// A memory limit in bytes. Half of the limit is divided into equal shares, one per tenant; all tenants share the other
/// half. A tenant can always use its share, even if other tenants have exhausted the shared half. With several tenants,
/// each can take at most half of the shared half. A tenant whose clients do not read their responses therefore cannot
/// block the large messages of the other tenants. Without tenants, the whole budget is shared. Clones share the limit.
///
/// All clients of a Unix socket belong to the same tenant. [`of_client`](Self::of_client) limits each client process.
#[derive(Clone, Debug)]
pub(crate) struct ByteBudget {
    budget: Arc<Budget>,
    /// Limits the steps of one client process.
    client: Option<Arc<Semaphore>>,
}

/// The ID of the process at the other end of a Unix socket. `None` if the system does not report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(not(unix), allow(dead_code, reason = "only Unix sockets report processes"))]
pub(crate) struct ClientProcess(pub(crate) Option<i32>);

#[derive(Debug)]
struct Budget {
    shared: Arc<Semaphore>,
    shared_steps: usize,
    /// Keyed by tenant name.
    own: HashMap<String, Share>,
    own_steps: usize,
    /// Maximum number of steps that one tenant can take from the shared half.
    allowed_steps: usize,
    /// Limits the steps of each client process that holds steps or waits for them.
    clients: Mutex<HashMap<ClientProcess, Weak<Semaphore>>>,
    client_steps: usize,
    late: Arc<Semaphore>,
    late_steps: usize,
    wait: Duration,
}

/// A tenant's share of the budget.
#[derive(Debug)]
struct Share {
    own: Arc<Semaphore>,
    /// Limits the steps that the tenant takes from the shared half.
    allowance: Arc<Semaphore>,
}

/// Bytes charged to a budget until this value is dropped.
#[derive(Debug, Default)]
pub(crate) struct ChargedBytes {
    permits: Vec<Permit>,
    steps: usize,
}

/// Steps from a tenant's share, or from the shared half together with the same number of steps from the tenant's
/// allowance. If the client is limited, the permit also contains the same number of the client's steps.
#[derive(Debug)]
struct Permit {
    steps: OwnedSemaphorePermit,
    allowance: Option<OwnedSemaphorePermit>,
    client: Option<OwnedSemaphorePermit>,
}

impl Permit {
    /// Releases `steps`. Returns `false` and releases nothing if the permit has at most `steps`.
    fn release(&mut self, steps: usize) -> bool {
        let is_part = self.steps.num_permits() > steps;
        if is_part {
            drop(self.steps.split(steps));
            drop(self.allowance.as_mut().and_then(|allowance| allowance.split(steps)));
            drop(self.client.as_mut().and_then(|client| client.split(steps)));
        }
        is_part
    }
}

/// A reservation for a buffer that does not exist yet.
#[derive(Debug)]
pub(crate) enum Room {
    /// A reservation within the budget.
    ChargedBytes(ChargedBytes),
    /// A reservation outside the exhausted budget. The buffer can be created, and `settle` then waits for permits.
    Late(#[expect(dead_code, reason = "held until the reservation is dropped")] OwnedSemaphorePermit),
}

/// The budget is exhausted, or no permits became available in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BudgetExhausted;

type Result<T> = std::result::Result<T, BudgetExhausted>;

impl Room {
    /// Releases the reservation beyond `bytes`.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        if let Self::ChargedBytes(held) = self {
            held.shrink(bytes);
        }
    }
}

impl ChargedBytes {
    /// Moves the permits of `other` into this value.
    pub(crate) fn join(&mut self, other: Self) {
        self.permits.extend(other.permits);
        self.steps += other.steps;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.steps * STEP_BYTES
    }

    /// Releases the permits beyond `bytes`.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let keep = bytes.div_ceil(STEP_BYTES);
        while self.steps > keep
            && let Some(mut last) = self.permits.pop()
        {
            let over = self.steps - keep;
            if last.release(over) {
                self.permits.push(last);
                self.steps = keep;
            } else {
                self.steps -= last.steps.num_permits();
            }
        }
    }
}

impl ByteBudget {
    /// Creates a budget of `max_bytes` for `tenants`. `grow` waits for permits for at most `wait`.
    pub(crate) fn new<'a>(max_bytes: usize, wait: Duration, tenants: impl IntoIterator<Item = &'a str>) -> Self {
        let max_steps = (max_bytes / STEP_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        let tenants: BTreeSet<&str> = tenants.into_iter().collect();
        let own_steps = max_steps / 2 / tenants.len().max(1);
        let shared_steps = max_steps - own_steps * tenants.len();
        let allowed_steps = if tenants.len() > 1 { shared_steps.div_ceil(2) } else { shared_steps };
        let share =
            || Share { own: Arc::new(Semaphore::new(own_steps)), allowance: Arc::new(Semaphore::new(allowed_steps)) };
        let own = tenants.iter().map(|name| ((*name).to_owned(), share())).collect();
        let late_steps = (max_steps / 4).clamp(1, MAX_LATE_BYTES / STEP_BYTES);
        let budget = Arc::new(Budget {
            shared: Arc::new(Semaphore::new(shared_steps)),
            shared_steps,
            own,
            own_steps,
            allowed_steps,
            clients: Mutex::default(),
            client_steps: (max_steps / CLIENT_SHARE).max(1),
            late: Arc::new(Semaphore::new(late_steps)),
            late_steps,
            wait,
        });
        Self { budget, client: None }
    }

    /// Returns this budget for the requests of a client process. All connections of the process share one limit, so
    /// that a client that does not read its responses leaves memory for other clients.
    pub(crate) fn of_client(&self, process: ClientProcess) -> Self {
        let mut clients = self.budget.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let known = clients.get(&process).and_then(Weak::upgrade);
        let client = known.unwrap_or_else(|| {
            let client = Arc::new(Semaphore::new(self.budget.client_steps));
            clients.retain(|_, client| client.strong_count() > 0);
            clients.insert(process, Arc::downgrade(&client));
            client
        });
        Self { budget: Arc::clone(&self.budget), client: Some(client) }
    }

    /// Grows `held` to a total of `bytes`, waiting for permits if necessary. Dropping the future leaves `held`
    /// unchanged.
    pub(crate) async fn grow(&self, tenant: Option<&str>, held: &mut ChargedBytes, bytes: usize) -> Result<()> {
        let more = self.missing_steps(tenant, held, bytes);
        if more > 0 {
            let waited = tokio::time::timeout(self.budget.wait, self.wait(tenant, more)).await;
            held.join(ChargedBytes { permits: waited.map_err(|_| BudgetExhausted)??, steps: more });
        }
        Ok(())
    }

    /// Like [`grow`](Self::grow), but fails instead of waiting.
    pub(crate) fn try_grow(&self, tenant: Option<&str>, held: &mut ChargedBytes, bytes: usize) -> Result<()> {
        let more = self.missing_steps(tenant, held, bytes);
        if more > 0 {
            held.join(ChargedBytes { permits: self.take(tenant, more).ok_or(BudgetExhausted)?, steps: more });
        }
        Ok(())
    }

    /// Acquires `bytes` without waiting. Fails if the budget has too little left.
    pub(crate) fn try_room(&self, tenant: Option<&str>, bytes: usize) -> Result<ChargedBytes> {
        let steps = bytes.div_ceil(STEP_BYTES);
        Ok(ChargedBytes { permits: self.take(tenant, steps).ok_or(BudgetExhausted)?, steps })
    }

    /// Resizes `held` to `bytes` without waiting, and charges all permits to the client as well. If the budget has too
    /// little left, fails and releases `held`.
    pub(crate) fn try_resize(
        &self,
        tenant: Option<&str>,
        mut held: ChargedBytes,
        bytes: usize,
    ) -> Result<ChargedBytes> {
        held.shrink(bytes);
        if let Some(client) = &self.client {
            // Memory for a worker's reply is reserved without a client, so the client is charged here.
            for permit in held.permits.iter_mut().filter(|permit| permit.client.is_none()) {
                let steps = count(permit.steps.num_permits());
                permit.client = Some(Arc::clone(client).try_acquire_many_owned(steps).map_err(|_| BudgetExhausted)?);
            }
        }
        held.join(self.try_room(tenant, bytes.saturating_sub(held.bytes()))?);
        Ok(held)
    }

    /// Returns the number of bytes that `try_room` can currently acquire for this tenant.
    pub(crate) fn free_bytes(&self, tenant: Option<&str>) -> usize {
        let shared = self.budget.shared.available_permits();
        let steps = self
            .share(tenant)
            .map_or(shared, |share| share.own.available_permits() + share.allowance.available_permits().min(shared));
        self.client.as_ref().map_or(steps, |client| steps.min(client.available_permits())) * STEP_BYTES
    }

    /// Reserves `bytes` for a buffer that is about to be created, without waiting. If the budget is exhausted, small
    /// buffers can still be created; their total size is limited by `late_steps`.
    pub(crate) fn reserve(&self, tenant: Option<&str>, bytes: usize) -> Result<Room> {
        if let Ok(held) = self.try_room(tenant, bytes) {
            return Ok(Room::ChargedBytes(held));
        }
        let steps = bytes.div_ceil(STEP_BYTES);
        if steps > self.budget.late_steps {
            return Err(BudgetExhausted);
        }
        Arc::clone(&self.budget.late).try_acquire_many_owned(count(steps)).map(Room::Late).map_err(|_| BudgetExhausted)
    }

    /// Converts a reservation into permits for `bytes`, the final size of the buffer.
    pub(crate) async fn settle(&self, tenant: Option<&str>, mut room: Room, bytes: usize) -> Result<ChargedBytes> {
        let mut held = match &mut room {
            Room::ChargedBytes(held) => std::mem::take(held),
            Room::Late(_) => ChargedBytes::default(),
        };
        held.shrink(bytes);
        self.grow(tenant, &mut held, bytes).await?;
        Ok(held)
    }

    /// Acquires permits for `bytes` that are already in memory.
    pub(crate) async fn room(&self, tenant: Option<&str>, bytes: usize) -> Result<ChargedBytes> {
        let room = self.reserve(tenant, bytes)?;
        self.settle(tenant, room, bytes).await
    }

    /// Returns the number of steps to add to `held`, capped at the total of the tenant or client. A buffer that exceeds
    /// the total is therefore admitted only while the tenant or client holds nothing else.
    fn missing_steps(&self, tenant: Option<&str>, held: &ChargedBytes, bytes: usize) -> usize {
        bytes.div_ceil(STEP_BYTES).min(self.max_steps(tenant)).saturating_sub(held.steps)
    }

    /// Returns the maximum number of bytes that this tenant or client can hold.
    pub(crate) fn max_bytes(&self, tenant: Option<&str>) -> usize {
        self.max_steps(tenant) * STEP_BYTES
    }

    fn max_steps(&self, tenant: Option<&str>) -> usize {
        let steps = self.share(tenant).map_or(0, |_| self.budget.own_steps) + self.allowed_steps(tenant);
        if self.client.is_some() { steps.min(self.budget.client_steps) } else { steps }
    }

    /// Returns the maximum number of steps that this tenant can take from the shared half.
    fn allowed_steps(&self, tenant: Option<&str>) -> usize {
        self.share(tenant).map_or(self.budget.shared_steps, |_| self.budget.allowed_steps)
    }

    fn share(&self, tenant: Option<&str>) -> Option<&Share> {
        self.budget.own.get(tenant?)
    }

    /// Acquires steps from the tenant's share. Returns the permits and the number of steps that the shared half must
    /// still provide.
    fn take_own(&self, tenant: Option<&str>, steps: usize) -> (Vec<Permit>, usize) {
        let own = self.share(tenant).and_then(|Share { own, .. }| {
            let part = steps.min(own.available_permits());
            Arc::clone(own).try_acquire_many_owned(count(part)).ok()
        });
        let left = steps - own.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        (own.map(|steps| Permit { steps, allowance: None, client: None }).into_iter().collect(), left)
    }

    fn take(&self, tenant: Option<&str>, steps: usize) -> Option<Vec<Permit>> {
        let take = |semaphore: &Arc<Semaphore>, steps: usize| {
            Arc::clone(semaphore).try_acquire_many_owned(u32::try_from(steps).ok()?).ok()
        };
        let client = match &self.client {
            Some(client) => Some(take(client, steps)?),
            None => None,
        };
        let (mut permits, left) = self.take_own(tenant, steps);
        if left > 0 {
            let allowance = match self.share(tenant) {
                Some(share) => Some(take(&share.allowance, left)?),
                None => None,
            };
            permits.push(Permit { steps: take(&self.budget.shared, left)?, allowance, client: None });
        }
        divide(client, &mut permits);
        Some(permits)
    }

    async fn wait(&self, tenant: Option<&str>, steps: usize) -> Result<Vec<Permit>> {
        let take = async |semaphore: &Arc<Semaphore>, steps: usize| {
            Arc::clone(semaphore).acquire_many_owned(count(steps)).await.map_err(|_| BudgetExhausted)
        };
        // Acquire the client's steps first, then the allowance. A client that held steps of its tenant while it waited
        // would block other clients. A tenant that waited in the queue of the shared half would block other tenants.
        let client = match &self.client {
            Some(client) => Some(take(client, steps).await?),
            None => None,
        };
        let (mut permits, left) = self.take_own(tenant, steps);
        // Cap at the tenant's maximum in the shared half: a larger request would wait forever.
        let left = left.min(self.allowed_steps(tenant));
        if left > 0 {
            let allowance = match self.share(tenant) {
                Some(share) => Some(take(&share.allowance, left).await?),
                None => None,
            };
            permits.push(Permit { steps: take(&self.budget.shared, left).await?, allowance, client: None });
        }
        divide(client, &mut permits);
        Ok(permits)
    }
}

/// Divides a client's steps among permits, so that each permit releases its part.
fn divide(mut client: Option<OwnedSemaphorePermit>, permits: &mut [Permit]) {
    for permit in permits {
        permit.client = client.as_mut().and_then(|client| client.split(permit.steps.num_permits()));
    }
}

fn count(steps: usize) -> u32 {
    u32::try_from(steps).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn budget(steps: usize, tenants: &[&str]) -> ByteBudget {
        ByteBudget::new(steps * STEP_BYTES, Duration::from_millis(20), tenants.iter().copied())
    }

    #[test]
    fn one_tenant_cannot_use_the_share_of_another() {
        let budget = budget(16, &["a", "b"]);
        let step = |tenant| budget.try_room(tenant, STEP_BYTES).ok();
        let all: Vec<_> = std::iter::from_fn(|| step(Some("a"))).collect();
        assert_eq!(all.len(), 8, "its own quarter plus half of the shared half");
        let others: Vec<_> = std::iter::from_fn(|| step(Some("b"))).collect();
        assert_eq!(others.len(), 8);
        assert!(step(None).is_none());
        drop(all);
        assert!(step(None).is_some());
    }

    #[tokio::test]
    async fn room_comes_from_both_shares_and_is_returned() {
        let budget = budget(8, &["a"]);
        let mut held = budget.room(Some("a"), 7 * STEP_BYTES).await.unwrap();
        let permits = |held: &ChargedBytes| held.permits.iter().map(|permit| permit.steps.num_permits()).sum::<usize>();
        assert_eq!(permits(&held), 7);
        assert!(budget.try_room(Some("a"), 2 * STEP_BYTES).is_err());
        held.shrink(STEP_BYTES + 1);
        assert_eq!((held.steps, permits(&held)), (2, 2));
        drop(budget.try_room(Some("a"), 6 * STEP_BYTES).unwrap());
        drop(held);
        assert_eq!(budget.room(Some("a"), 9 * STEP_BYTES).await.map(drop), Err(BudgetExhausted), "over the budget");
        drop(budget.room(Some("a"), 8 * STEP_BYTES).await.unwrap());
        drop(budget.room(Some("a"), 0).await.unwrap());
        assert!(budget.try_room(Some("a"), 100 * STEP_BYTES).is_err());
    }

    #[tokio::test]
    async fn waiting_tenant_does_not_block_others() {
        let budget = budget(16, &["a", "b"]);
        let mut held = budget.room(Some("a"), 8 * STEP_BYTES).await.unwrap();
        let (waited, other) = tokio::join!(budget.room(Some("a"), 4 * STEP_BYTES), async {
            tokio::task::yield_now().await;
            budget.try_room(Some("b"), 8 * STEP_BYTES)
        });
        assert_eq!((waited.map(drop), other.is_ok()), (Err(BudgetExhausted), true));
        // A buffer above the total is admitted if its tenant holds nothing else.
        held.shrink(0);
        budget.grow(Some("a"), &mut held, 100 * STEP_BYTES).await.unwrap();
        assert_eq!(held.steps, 8);
        held.shrink(6 * STEP_BYTES);
        assert!(budget.try_room(Some("a"), 2 * STEP_BYTES).is_ok());
    }

    #[tokio::test]
    async fn client_process_takes_at_most_half_of_the_budget() {
        let all = budget(16, &["a"]);
        let tenant = Some("a");
        let [one, same, other] = [Some(1), Some(1), None].map(|process| all.of_client(ClientProcess(process)));
        for steps in [7, 8] {
            drop(one.try_room(tenant, steps * STEP_BYTES).unwrap());
        }
        assert!(one.try_room(tenant, 8 * STEP_BYTES + 1).is_err());
        let mut held = one.room(tenant, 8 * STEP_BYTES).await.unwrap();
        assert!(same.try_room(tenant, 1).is_err(), "the connections of a process share its limit");
        assert_eq!([&one, &same, &other].map(|client| client.free_bytes(tenant)), [0, 0, 8 * STEP_BYTES]);
        let (waited, others) = tokio::join!(one.room(tenant, 4 * STEP_BYTES), async {
            tokio::task::yield_now().await;
            other.try_room(tenant, 8 * STEP_BYTES)
        });
        assert_eq!((waited.map(drop), others.is_ok()), (Err(BudgetExhausted), true));
        held.shrink(5 * STEP_BYTES);
        assert_eq!(one.free_bytes(tenant), 3 * STEP_BYTES);
        drop((held, others));
        assert_eq!((one.free_bytes(tenant), all.free_bytes(tenant)), (8 * STEP_BYTES, 16 * STEP_BYTES));
        let mut large = one.room(tenant, 3 * STEP_BYTES).await.unwrap();
        one.grow(tenant, &mut large, 100 * STEP_BYTES).await.unwrap();
        assert_eq!(large.steps, 8, "a buffer above the total is admitted if its client holds nothing else");
        // A process that holds nothing is forgotten.
        drop((one, same, large));
        drop(all.of_client(ClientProcess(Some(2))));
        assert_eq!(all.budget.clients.lock().unwrap().len(), 2, "process 2 and the unknown one");
    }

    #[test]
    fn data_of_a_response_is_charged_to_the_client() {
        let (all, tenant) = (budget(16, &["a"]), Some("a"));
        let client = all.of_client(ClientProcess(Some(1)));
        for (steps, fits) in [(7, true), (8, true), (9, false)] {
            let data = all.try_room(tenant, 10 * STEP_BYTES).unwrap();
            let held = client.try_resize(tenant, data, steps * STEP_BYTES);
            assert_eq!(held.is_ok(), fits, "{steps}");
            let used = if fits { steps } else { 0 };
            assert_eq!(client.free_bytes(tenant), (8 - used) * STEP_BYTES);
            assert_eq!(all.free_bytes(tenant), (16 - used) * STEP_BYTES);
            drop(held);
            assert_eq!(client.free_bytes(tenant), 8 * STEP_BYTES);
        }
    }

    #[tokio::test]
    async fn waiting_requests_are_limited_to_a_part_of_the_budget() {
        let budget = budget(8, &[]);
        let mut one = budget.room(None, STEP_BYTES).await.unwrap();
        budget.grow(None, &mut one, 7 * STEP_BYTES).await.unwrap();
        assert_eq!(budget.grow(None, &mut one, 9 * STEP_BYTES).await, Ok(()), "growth stops at the whole budget");
        assert_eq!(budget.try_grow(None, &mut ChargedBytes::default(), 1), Err(BudgetExhausted));
        let has_waited = Cell::new(false);
        let (first, second) = tokio::join!(
            async {
                let room = budget.room(None, 2 * STEP_BYTES).await;
                has_waited.set(true);
                room.map(drop)
            },
            async {
                let room = budget.room(None, 1).await;
                (room.map(drop), has_waited.get())
            }
        );
        assert_eq!(first, Err(BudgetExhausted), "the wait for room times out");
        assert_eq!(second, (Err(BudgetExhausted), false), "rejected: a quarter of the budget is already waiting");
        drop(one);
        budget.room(None, 8 * STEP_BYTES).await.unwrap();
    }
}
