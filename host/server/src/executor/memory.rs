//! The memory for live sessions in this process, which all tenants share.

use std::sync::{Arc, Weak};

use glovebox::{Engine, Limits};
use glovebox_sessions::{SessionId, Sessions};
use parking_lot::Mutex;

use super::InProcess;

/// Evictions make room for at most `1 / SHARE` of the total memory, so that a session with high limits does not evict
/// all other sessions.
const SHARE: u64 = 2;
/// A resumed session holds its data up to twice: the stored state, and the data written since.
const COPIES: u64 = 2;

/// The tenants whose live sessions share this process's memory.
#[derive(Default)]
pub(crate) struct SessionMemory(Mutex<Vec<Weak<InProcess>>>);

impl SessionMemory {
    pub(crate) fn add(&self, tenant: &Arc<InProcess>) {
        let mut tenants = self.0.lock();
        tenants.retain(|tenant| tenant.strong_count() > 0);
        tenants.push(Arc::downgrade(tenant));
    }

    /// Evicts idle sessions of all tenants, the least recently used first. Stops when the session `id` of `own` has
    /// room within its `limits`, or when no other session is idle. Must be called on a blocking thread.
    pub(crate) fn make_room(&self, engine: &Engine, limits: &Limits, own: &Sessions, id: &SessionId) {
        let count = u64::from(!own.is_live(id));
        let bytes = limits.memory_bytes.saturating_mul(COPIES).min(limits.session_total_bytes / SHARE);
        let has_room = || {
            let usage = engine.session_usage();
            usage.count.saturating_add(count) <= u64::from(limits.session_count)
                && usage.bytes.saturating_add(bytes) <= limits.session_total_bytes
        };
        while !has_room() {
            let tenants = self.tenants();
            let except = |tenant: &InProcess| std::ptr::eq(tenant.sessions(), own).then_some(id);
            let oldest = tenants
                .iter()
                .filter_map(|tenant| Some((tenant.sessions().idle_since(except(tenant))?, tenant)))
                .min_by_key(|(since, _)| *since);
            let Some((_, tenant)) = oldest else { return };
            tenant.sessions().evict_idle(except(tenant));
        }
    }

    fn tenants(&self) -> Vec<Arc<InProcess>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }
}
