//! A semaphore that is fair to tenants, for running executions.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, oneshot};

/// A semaphore for running executions. A released permit goes to the waiting tenant with the fewest permits, so a
/// tenant cannot starve the others.
#[derive(Clone)]
pub(crate) struct FairSemaphore(Arc<SharedQueue>);

struct SharedQueue {
    state: Mutex<QueueState>,
    changed: Notify,
    count: usize,
}

#[derive(Default)]
struct QueueState {
    taken: usize,
    /// The number of permits, keyed by tenant name. Tenants without a permit have no entry.
    by_tenant: HashMap<String, usize>,
    /// Waiters in order of arrival.
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    tenant: String,
    sender: oneshot::Sender<Permit>,
}

/// A permit of a [`FairSemaphore`], released on drop.
pub(crate) struct Permit {
    places: FairSemaphore,
    tenant: String,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.places.state();
        state.give_back(&self.tenant);
        let next = state.next();
        drop(state);
        match next {
            // If the waiter is gone, `send` returns the permit. Dropping that permit passes it to the next waiter.
            Some(Waiter { tenant, sender }) => drop(sender.send(Self { places: self.places.clone(), tenant })),
            None => self.places.0.changed.notify_waiters(),
        }
    }
}

impl FairSemaphore {
    pub(crate) fn new(count: usize) -> Self {
        Self(Arc::new(SharedQueue { state: Mutex::default(), changed: Notify::new(), count }))
    }

    /// Acquires a permit if one is free. No waiter is bypassed: the queue is empty while a permit is free.
    pub(crate) fn try_take(&self, tenant: &str) -> Option<Permit> {
        let mut state = self.state();
        (state.taken < self.0.count).then(|| {
            state.take(tenant);
            self.permit(tenant)
        })
    }

    /// Waits for this tenant's turn and acquires a permit. Dropping the future leaves the queue.
    pub(crate) async fn take(&self, tenant: &str) -> Permit {
        loop {
            let receiver = {
                let mut state = self.state();
                if state.taken < self.0.count {
                    state.take(tenant);
                    return self.permit(tenant);
                }
                state.waiting.retain(|waiter| !waiter.sender.is_closed());
                let (sender, receiver) = oneshot::channel();
                state.waiting.push_back(Waiter { tenant: tenant.to_owned(), sender });
                receiver
            };
            if let Ok(permit) = receiver.await {
                return permit;
            }
        }
    }

    /// Waits until no permit is taken.
    pub(crate) async fn wait_until_idle(&self) {
        loop {
            let changed = self.0.changed.notified();
            if self.state().taken == 0 {
                return;
            }
            changed.await;
        }
    }

    fn permit(&self, tenant: &str) -> Permit {
        Permit { places: self.clone(), tenant: tenant.to_owned() }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    fn take(&mut self, tenant: &str) {
        self.taken += 1;
        *self.by_tenant.entry(tenant.to_owned()).or_default() += 1;
    }

    fn give_back(&mut self, tenant: &str) {
        self.taken = self.taken.saturating_sub(1);
        if let Some(count) = self.by_tenant.get_mut(tenant) {
            *count -= 1;
            if *count == 0 {
                self.by_tenant.remove(tenant);
            }
        }
    }

    /// Removes the earliest waiter of the tenants with the fewest permits from the queue, and takes a permit for it.
    fn next(&mut self) -> Option<Waiter> {
        let count = |waiter: &Waiter| self.by_tenant.get(&waiter.tenant).copied().unwrap_or_default();
        let (index, _) = self
            .waiting
            .iter()
            .enumerate()
            .filter(|(_, waiter)| !waiter.sender.is_closed())
            .min_by_key(|(_, waiter)| count(waiter))?;
        let next = self.waiting.remove(index)?;
        self.take(&next.tenant);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    fn tenant_with_the_fewest_permits_is_served_first() {
        runtime().block_on(async {
            let places = FairSemaphore::new(2);
            let first = [places.try_take("many").unwrap(), places.try_take("many").unwrap()];
            assert!(places.try_take("few").is_none());
            let order = Arc::new(Mutex::new(Vec::new()));
            let tasks: Vec<_> = ["many", "many", "few", "many", "few"]
                .into_iter()
                .map(|tenant| {
                    let (places, order) = (places.clone(), Arc::clone(&order));
                    tokio::spawn(async move {
                        let permit = places.take(tenant).await;
                        order.lock().unwrap().push(tenant);
                        tokio::task::yield_now().await;
                        drop(permit);
                    })
                })
                .collect();
            tokio::task::yield_now().await;
            drop(first);
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(order.lock().unwrap().first(), Some(&"few"));
            places.wait_until_idle().await;
            assert!(places.state().by_tenant.is_empty());
        });
    }

    #[test]
    fn dropped_waiter_passes_its_permit_on() {
        runtime().block_on(async {
            let places = FairSemaphore::new(1);
            let first = places.try_take("a").unwrap();
            let mut gone = Box::pin(places.take("b"));
            assert!(tokio::time::timeout(std::time::Duration::from_millis(1), &mut gone).await.is_err());
            let waits = tokio::spawn({
                let places = places.clone();
                async move { drop(places.take("c").await) }
            });
            tokio::task::yield_now().await;
            // The waiter receives the permit but is dropped before it is polled.
            drop(first);
            drop(gone);
            waits.await.unwrap();
            places.wait_until_idle().await;
        });
    }
}
