//! A saved state of a session.

use std::fmt;

use glovebox_wasi::{Entropy as WasiEntropy, Wasi};
use sha2::{Digest as _, Sha256};

use super::Pages;

/// The complete state of an idle session.
///
/// The state consists of linear memory as its difference from the image, of mutable globals, and of the host's state
/// for the guest: descriptors, files, standard input, clock, entropy. Tables are not part of it, because no image
/// changes its tables.
#[derive(Clone)]
pub struct Checkpoint {
    /// The size of the whole linear memory, a multiple of 64 KiB.
    pub memory_bytes: u64,
    /// The pages that differ from the image's pages.
    pub pages: Pages,
    /// The mutable globals as bits, ordered by export name. An idle guest has the image's values.
    pub globals: Vec<(String, u64)>,
    /// The host's state for the guest. Its monotonic clock includes the age of the saved instance.
    pub wasi: Wasi,
    /// The number of executions before this state.
    pub executions: u64,
    /// The key of seeded entropy: the policy's seed, or a fork's own key. `None` with the host's entropy.
    pub entropy_key: Option<[u8; 32]>,
    /// The number of forks made of the session. It is never reset, so that no fork draws the numbers of another.
    pub forks: u64,
}

/// Returns the key of a session's fork.
fn fork_key(parent: &[u8; 32], fork: u64) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(b"glovebox fork");
    hasher.update(parent);
    hasher.update(fork.to_le_bytes());
    hasher.finalize().into()
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoint")
            .field("executions", &self.executions)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}

impl Checkpoint {
    /// Returns the bytes that the state holds: its pages and the host's state for the guest, even if shared.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.pages.bytes().saturating_add(self.wasi.host_bytes())
    }

    /// Returns the state of a fork.
    #[must_use]
    pub fn forked(mut self) -> Self {
        self.entropy_key = self.entropy_key.map(|key| fork_key(&key, self.forks));
        self.forks = 0;
        if let Some(key) = self.entropy_key {
            self.wasi.set_entropy(WasiEntropy::Seeded(key));
        }
        self
    }

    /// Continues the seeded random numbers of this state in another WASI state.
    pub fn continue_entropy(&self, wasi: &mut Wasi) {
        if let Some(key) = self.entropy_key {
            let position = self.wasi.entropy_position().unwrap_or(0);
            wasi.set_entropy(WasiEntropy::Seeded(key));
            wasi.set_entropy_position(position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entropy, boot_wasi};

    fn saved(entropy: Entropy) -> Checkpoint {
        let mut wasi = boot_wasi(Vec::new(), Vec::new(), None, Vec::new()).unwrap();
        wasi.set_entropy(entropy.wasi());
        Checkpoint {
            memory_bytes: 0,
            pages: Pages::default(),
            globals: Vec::new(),
            wasi,
            executions: 3,
            entropy_key: entropy.key(),
            forks: 0,
        }
    }

    #[test]
    fn no_fork_draws_what_another_does() {
        let mut state = saved(Entropy::Seeded(7));
        let mut keys = vec![state.entropy_key];
        for forks in 1..4 {
            state.forks = forks;
            let fork = state.clone().forked();
            assert_eq!((fork.forks, fork.executions), (0, 3));
            // Nested forks restart the fork counter and still get distinct keys.
            let again = Checkpoint { forks, ..fork.clone() }.forked();
            keys.extend([fork.entropy_key, again.entropy_key]);
        }
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn the_hosts_random_numbers_have_no_key() {
        let fork = Checkpoint { forks: 1, ..saved(Entropy::Host) }.forked();
        assert_eq!((fork.entropy_key, fork.wasi.entropy_position()), (None, None));
    }

    #[test]
    fn seeded_random_numbers_go_on_where_they_were() {
        let mut state = saved(Entropy::Seeded(7));
        state.wasi.set_entropy_position(12);
        let mut wasi = boot_wasi(Vec::new(), Vec::new(), None, Vec::new()).unwrap();
        state.continue_entropy(&mut wasi);
        assert_eq!(wasi.entropy_position(), Some(12));
        wasi.set_entropy(Entropy::Host.wasi());
        saved(Entropy::Host).continue_entropy(&mut wasi);
        assert_eq!(wasi.entropy_position(), None, "the policy's stay");
    }
}
