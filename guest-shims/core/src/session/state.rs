//! A session's state machine. Operations take `&mut self`, so the backend queues concurrent calls of one session.

use std::sync::Arc;

use glovebox_interpreters::Machine as _;

use super::{
    Checkpoint, CheckpointId, CheckpointInfo, History, LedgerEntry, Memory, Pages, RandomNumbers, Reservation,
    Rollback, SavedCheckpoint, SessionBackend, SessionCall, SessionFailure, SessionInfo, SessionSetup, TooMany,
    recovery::restore,
};
use crate::{Guest, GuestMachine as _, GuestState, GuestValue, Outcome, Refusal, WORKSPACE, files::Snapshot};

/// A session: an interpreter that persists between executions, and its checkpoints.
///
/// The `recovery` module replaces unwound guests.
pub struct SessionState<B: SessionBackend> {
    pub(super) backend: B,
    pub(super) phase: Phase<B::Machine>,
    pub(super) history: History,
    /// `true` if the guest may differ from the last checkpoint.
    pub(super) changed: bool,
    pub(super) executions: u64,
    pub(super) rollbacks: u64,
    forks: u64,
    entropy_key: Option<[u8; 32]>,
    pub(super) place: Option<LedgerEntry>,
    /// The number of checkpoints that were due but did not fit.
    checkpoints_skipped: u64,
}

pub(super) enum Phase<M> {
    /// The guest can be called.
    Active(Box<Guest<M>>),
    /// There is no guest: it was unwound, or is in a call. A panic during a call leaves the session in this phase.
    /// Holds the reason.
    Unwound(String),
    /// The session has ended, for this reason.
    Ended(String),
}

impl<B: SessionBackend> SessionState<B> {
    /// Creates a session around a new guest.
    pub fn new(backend: B, guest: Guest<B::Machine>, entropy_key: Option<[u8; 32]>, place: LedgerEntry) -> Self {
        let mut state = Self {
            backend,
            phase: Phase::Active(Box::new(guest)),
            history: History::default(),
            changed: true,
            executions: 0,
            rollbacks: 0,
            forks: 0,
            entropy_key,
            place: Some(place),
            checkpoints_skipped: 0,
        };
        state.account();
        state
    }

    /// Creates a session from a saved state.
    ///
    /// # Errors
    /// Fails if no instance is available, or the saved state cannot be restored.
    pub fn resume(
        mut backend: B,
        saved: Checkpoint,
        numbers: RandomNumbers,
        place: LedgerEntry,
    ) -> Result<Self, B::Error> {
        let guest = restore(&mut backend, &saved, saved.wasi.clone(), numbers)?;
        let Checkpoint { pages, executions, entropy_key, forks, .. } = saved;
        backend.on_resumed(pages);
        let state = Self::new(backend, guest, entropy_key, place);
        Ok(Self { executions, forks, ..state })
    }

    /// Returns the platform's state for the session.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Returns mutable references to the platform's state and to the guest, if there is one.
    pub fn parts(&mut self) -> (&mut B, Option<&mut Guest<B::Machine>>) {
        let Self { backend, phase, .. } = self;
        match phase {
            Phase::Active(guest) => (backend, Some(guest)),
            Phase::Unwound(_) | Phase::Ended(_) => (backend, None),
        }
    }

    /// Fails if the session has ended.
    pub fn check_alive(&self) -> Result<(), B::Error> {
        match &self.phase {
            Phase::Ended(reason) => Err(self.backend.error(SessionFailure::Ended(reason))),
            _ => Ok(()),
        }
    }

    /// Runs a script with `execute`, which also returns the guest's state. `outcome` extracts the script's outcome.
    /// Also returns the session's rollback, if the guest was unwound.
    ///
    /// # Errors
    /// Fails if the session has ended or its guest cannot be restored. An error of `execute` ends the session.
    pub fn run<T>(
        &mut self,
        stdin: &[u8],
        execute: impl FnOnce(SessionCall<'_, B>) -> Result<(T, GuestState), B::Error>,
        outcome: impl FnOnce(&T) -> &Outcome,
    ) -> Result<(T, Option<Rollback>), B::Error> {
        let mut guest = self.enter(stdin)?;
        let Self { backend, history, .. } = self;
        let (executed, after) = match execute(SessionCall { backend, guest: &mut guest, history }) {
            Ok(executed) => executed,
            Err(error) => {
                self.end(B::reason(&error));
                return Err(error);
            }
        };
        // Saturates, because the count may come from untrusted bytes.
        self.executions = self.executions.saturating_add(u64::from(after == GuestState::Alive));
        let rollback = self.leave(guest, after, None, || outcome(&executed).describe());
        Ok((executed, rollback))
    }

    /// Reads a global variable of the guest. Does not count as a change that an undo reverts.
    ///
    /// # Errors
    /// Fails if the session has ended, its guest cannot be restored, or the guest refuses the name.
    pub fn get_variable(&mut self, name: &str) -> Result<Option<GuestValue>, B::Error> {
        let mut guest = self.take()?;
        guest.wasi_mut().begin_execution();
        // If reading unwinds the guest, the session returns to its current state and not to an earlier checkpoint. The
        // state is saved for this call only, without adding it to the history.
        let last = self.history.last().filter(|_| !self.changed).cloned();
        let now = match last {
            None if self.backend.setup().policy.interval(0).is_some() => {
                let state = Arc::new(self.save_from(&mut guest)?);
                let commits = self.backend.known_commits();
                Some(SavedCheckpoint { id: CheckpointId(0), automatic: true, state, commits })
            }
            last => last,
        };
        let mut guest = self.reserve(guest)?;
        guest.ctx_mut().renew(self.backend.one_shot_ctx());
        let SessionSetup { image, limits, .. } = self.backend.setup();
        let (result, after) = guest.get_variable(image, limits, name);
        let result = result.map_err(|refusal| self.refused(name, refusal));
        self.leave(guest, after, now, || failure_reason::<B, _>(&result));
        result
    }

    /// Sets a global variable of the guest to the value of `json`.
    ///
    /// # Errors
    /// Fails if the session has ended, its guest cannot be restored, or the guest refuses the name or the value.
    pub fn set_variable(&mut self, name: &str, json: &str) -> Result<(), B::Error> {
        let mut guest = self.enter(&[])?;
        guest.ctx_mut().renew(self.backend.one_shot_ctx());
        let SessionSetup { image, limits, .. } = self.backend.setup();
        let (result, after) = guest.set_variable(image, limits, name, json);
        let result = result.map_err(|refusal| self.refused(name, refusal));
        self.leave(guest, after, None, || failure_reason::<B, _>(&result));
        result
    }

    /// Takes a requested checkpoint.
    ///
    /// # Errors
    /// Fails if the session has ended, its guest cannot be restored, or the limit on the memory of all sessions is
    /// reached.
    pub fn checkpoint(&mut self) -> Result<CheckpointId, B::Error> {
        self.with_idle(|state, guest| {
            let max = state.checkpoints_retained();
            if !state.changed
                && let Some(id) = state.history.keep_last(max)
            {
                return Ok(id);
            }
            let page_bytes = state.backend.max_page_bytes(guest)?;
            state.check_room(guest, page_bytes)?;
            let saved = state.save_from(guest)?;
            Ok(state.push(saved, false))
        })
    }

    /// Returns the current state, for a fork or for storage. The state shares pages with the last checkpoint.
    ///
    /// # Errors
    /// Fails if the session has ended or its guest cannot be restored.
    pub fn save(&mut self) -> Result<Checkpoint, B::Error> {
        self.with_idle(Self::save_from)
    }

    /// Like [`save`](Self::save), but counts the state towards the limit of all sessions until the reservation is
    /// dropped. Fails if the limit would be exceeded. Pages that the state shares with a checkpoint count twice.
    pub fn save_counted(&mut self) -> Result<(Checkpoint, Option<Reservation>), B::Error> {
        self.with_idle(|state, guest| {
            let page_bytes = state.backend.max_page_bytes(guest)?;
            state.check_room(guest, page_bytes)?;
            let saved = state.save_from(guest)?;
            let reservation = state.place.as_ref().map(|place| {
                let mut reservation = place.reservation(state.backend.setup().limits);
                reservation.add(saved.held_bytes());
                reservation
            });
            Ok((saved, reservation))
        })
    }

    /// Returns the initial state of another fork.
    ///
    /// # Errors
    /// Fails like [`save`](Self::save).
    pub fn save_for_fork(&mut self) -> Result<Checkpoint, B::Error> {
        // Saturates, because the count may come from untrusted bytes.
        self.forks = self.forks.saturating_add(1);
        let mut saved = self.save()?;
        self.backend.detach(&mut saved)?;
        Ok(saved.forked())
    }

    /// Returns the session to a checkpoint: the given one, or the last one that differs from the current state.
    ///
    /// # Errors
    /// Fails if the session has ended, the checkpoint does not exist, or no instance is available. On failure, the
    /// session is unchanged.
    pub fn undo(&mut self, to: Option<CheckpointId>) -> Result<CheckpointId, B::Error> {
        self.check_alive()?;
        let is_new = self.changed || matches!(self.phase, Phase::Unwound(_));
        let saved = self.history.undo_target(to, is_new).cloned();
        let saved = saved.ok_or_else(|| self.backend.error(SessionFailure::NoCheckpoint(to)))?;
        // Create the new instance first, so that the session stays unchanged if none is available.
        let guest = self.guest_of(&saved)?;
        self.history.forget_after(saved.id);
        self.continue_at(guest, &saved);
        Ok(saved.id)
    }

    /// Returns descriptions of the checkpoints, oldest first.
    pub fn checkpoints(&self) -> Vec<CheckpointInfo> {
        self.history.list()
    }

    /// Returns a snapshot of the files. Does not make a checkpoint due.
    ///
    /// # Errors
    /// Fails if the session has ended or its guest cannot be restored.
    pub fn files(&mut self) -> Result<Snapshot, B::Error> {
        let guest = self.take()?;
        let wasi = guest.wasi();
        let files = Snapshot::new(wasi.vfs().clone(), wasi.mount_root(WORKSPACE));
        self.phase = Phase::Active(guest);
        Ok(files)
    }

    /// Changes the files from outside the guest by calling `work`. Takes a checkpoint first if one is due.
    ///
    /// # Errors
    /// Fails if the session has ended, its guest cannot be restored, or `work` fails. Changes that `work` made before
    /// its failure stay.
    pub fn with_files<R, E: From<B::Error>>(
        &mut self,
        work: impl FnOnce(SessionCall<'_, B>) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut guest = self.take()?;
        self.save_if_due(&mut guest)?;
        let Self { backend, history, .. } = self;
        let result = work(SessionCall { backend, guest: &mut guest, history });
        self.changed = true;
        self.put_back(guest);
        result
    }

    /// Runs the exit handlers and ends the session. Does nothing if the session has ended.
    ///
    /// # Errors
    /// Fails if the exit handlers cannot be run. The session ends anyway.
    pub fn close(&mut self) -> Result<(), B::Error> {
        let closed = match self.take() {
            Ok(guest) => self.close_guest(guest),
            // The session had already ended, or its guest was unwound and could not be restored.
            Err(_) if matches!(self.phase, Phase::Ended(_)) => return Ok(()),
            // The guest was unwound, and no instance is available to run exit handlers in.
            Err(error) => Err(error),
        };
        self.end("it was closed".into());
        closed
    }

    fn close_guest(&mut self, guest: Box<Guest<B::Machine>>) -> Result<(), B::Error> {
        let mut guest = self.reserve(guest)?;
        guest.ctx_mut().renew(self.backend.one_shot_ctx());
        guest.wasi_mut().begin_execution();
        let SessionSetup { image, limits, .. } = self.backend.setup();
        let closed = guest.close(image, limits).map_err(B::Error::from);
        let closed = closed.and_then(|()| self.backend.on_closed(&mut guest));
        self.backend.on_final_files(&guest);
        closed
    }

    /// Updates the session's description. The memory size stays unchanged if the guest was unwound.
    pub fn update(&mut self, info: &mut SessionInfo) {
        info.executions = self.executions;
        info.rollbacks = self.rollbacks;
        info.checkpoints = self.history.count();
        info.checkpoints_skipped = self.checkpoints_skipped;
        info.private_bytes = self.history.last().map_or(0, |saved| saved.state.pages.bytes());
        info.held_bytes = self.place.as_ref().map_or(0, LedgerEntry::bytes);
        match &mut self.phase {
            Phase::Active(guest) => info.memory_bytes = guest.machine.memory_bytes(),
            Phase::Unwound(_) => {}
            Phase::Ended(reason) => {
                info.memory_bytes = 0;
                info.ended = Some(reason.clone());
            }
        }
    }

    /// Takes the guest for an execution. Takes a checkpoint first if one is due.
    fn enter(&mut self, stdin: &[u8]) -> Result<Box<Guest<B::Machine>>, B::Error> {
        let limits = self.backend.setup().limits;
        self.place.as_ref().map_or(Ok(()), |place| place.check(limits, 0))?;
        let mut guest = self.take()?;
        let wasi = guest.wasi_mut();
        wasi.begin_execution();
        wasi.set_stdin(Vec::new());
        // Mark before saving, so that the saved and the live file system are the same until the guest changes files.
        wasi.vfs_mut().mark();
        self.save_if_due(&mut guest)?;
        let mut guest = self.reserve(guest)?;
        self.changed = true;
        if !stdin.is_empty() {
            guest.wasi_mut().set_stdin(stdin.to_vec());
        }
        Ok(guest)
    }

    /// Prepares the guest for a call. From here until the guest is idle again, its growth is reserved in the total of
    /// all sessions.
    fn reserve(&mut self, mut guest: Box<Guest<B::Machine>>) -> Result<Box<Guest<B::Machine>>, B::Error> {
        if let Err(error) = self.backend.prepare_call(&mut guest, self.history.count() > 0) {
            self.phase = Phase::Active(guest);
            return Err(error);
        }
        // The new usage includes a checkpoint that was just taken, and file changes by the host.
        self.account_for(&mut guest);
        if let Some(place) = &self.place {
            let reservation = place.reservation(self.backend.setup().limits);
            let host_bytes = guest.wasi().host_bytes();
            guest.machine.host_mut().limiter.reserve_from(reservation, host_bytes);
        }
        Ok(guest)
    }

    /// Takes a checkpoint if one is due and fits. Call this before the guest or its files change. After a skipped
    /// checkpoint, a rollback returns to an earlier one. Ends the session if the guest cannot be saved.
    fn save_if_due(&mut self, guest: &mut Guest<B::Machine>) -> Result<(), B::Error> {
        if !self.history.is_due(self.backend.setup().policy, self.executions, self.changed) {
            return Ok(());
        }
        let saved = self.save_due(guest);
        if let Err(error) = &saved {
            self.end(B::reason(error));
        }
        saved
    }

    fn save_due(&mut self, guest: &mut Guest<B::Machine>) -> Result<(), B::Error> {
        let page_bytes = self.backend.max_page_bytes(guest)?;
        if let Err(over) = self.check_room(guest, page_bytes.saturating_sub(self.history.automatic_bytes())) {
            self.checkpoints_skipped += 1;
            self.backend.on_checkpoint_skipped(&over);
            return Ok(());
        }
        let earlier = self.history.replace();
        let saved = self.save_sharing(guest, earlier)?;
        self.push(saved, true);
        Ok(())
    }

    /// Checks whether a checkpoint of the guest with `page_bytes` of pages fits.
    fn check_room(&self, guest: &Guest<B::Machine>, page_bytes: u64) -> Result<(), TooMany> {
        let bytes = page_bytes.saturating_add(guest.wasi().host_bytes());
        self.place.as_ref().map_or(Ok(()), |place| place.check(self.backend.setup().limits, bytes))
    }

    /// Calls `work` with the idle guest, for work that does not enter the guest.
    fn with_idle<R>(
        &mut self,
        work: impl FnOnce(&mut Self, &mut Guest<B::Machine>) -> Result<R, B::Error>,
    ) -> Result<R, B::Error> {
        let mut guest = self.take()?;
        let result = work(self, &mut guest);
        self.put_back(guest);
        result
    }

    pub(super) fn put_back(&mut self, guest: Box<Guest<B::Machine>>) {
        self.phase = Phase::Active(guest);
        self.account();
    }

    fn save_from(&mut self, guest: &mut Guest<B::Machine>) -> Result<Checkpoint, B::Error> {
        let earlier = self.history.last().map(|saved| saved.state.pages.clone());
        self.save_sharing(guest, earlier)
    }

    fn save_sharing(&mut self, guest: &mut Guest<B::Machine>, earlier: Option<Pages>) -> Result<Checkpoint, B::Error> {
        let Memory { pages, globals } = self.backend.memory_of(guest, earlier)?;
        Ok(Checkpoint {
            memory_bytes: guest.machine.memory_bytes(),
            pages,
            globals,
            wasi: guest.machine.host_mut().settled_wasi(),
            executions: self.executions,
            entropy_key: self.entropy_key,
            forks: self.forks,
        })
    }

    fn push(&mut self, state: Checkpoint, automatic: bool) -> CheckpointId {
        self.changed = false;
        let (commits, max) = (self.backend.known_commits(), self.checkpoints_retained());
        self.history.push(Arc::new(state), commits, automatic, max)
    }

    fn checkpoints_retained(&self) -> usize {
        usize::try_from(self.backend.setup().policy.checkpoints_retained.max(1)).unwrap_or(usize::MAX)
    }

    fn refused(&self, name: &str, refusal: Refusal) -> B::Error {
        match refusal {
            Refusal::Guest(reason) => self.backend.error(SessionFailure::Variable { name, reason }),
            Refusal::Driver(error) => error.into(),
        }
    }

    /// Records the session's usage: memory beyond the image, private pages within the image, other host state, and
    /// checkpoints.
    fn account(&mut self) {
        let Self { backend, phase, history, place, .. } = self;
        if let (Phase::Active(guest), Some(place)) = (phase, place) {
            account_for(backend, history, place, guest);
        }
    }

    fn account_for(&mut self, guest: &mut Guest<B::Machine>) {
        let Self { backend, history, place, .. } = self;
        if let Some(place) = place {
            account_for(backend, history, place, guest);
        }
    }
}

fn account_for<B: SessionBackend>(
    backend: &mut B,
    history: &History,
    place: &mut LedgerEntry,
    guest: &mut Guest<B::Machine>,
) {
    let grown_bytes = guest.machine.memory_bytes().saturating_sub(backend.setup().image_bytes);
    let held_bytes = [history.held_bytes(), backend.own_bytes(guest), grown_bytes, guest.wasi().host_bytes()];
    place.update(held_bytes.into_iter().fold(0, u64::saturating_add));
    guest.machine.host_mut().limiter.give_back_reservation();
    backend.on_accounted(guest, place);
}

/// Returns the reason why a guest could not answer; empty if it did.
fn failure_reason<B: SessionBackend, T>(result: &Result<T, B::Error>) -> String {
    result.as_ref().err().map_or_else(String::new, B::reason)
}
