//! A session's log: who may write next, and whether a write was accepted.
//!
//! # The objects
//!
//! * `records/ID!/N`: the entries of session `ID`, N a number of 20 digits. An entry has a name of its own (its [version](StoredVersion)), those of
//!   the entries that it is built on, and the session's record; one without a record says that the session was removed.
//! * `states/ID!/VERSION`: the state that the entry of this version belongs to.
//!
//! Objects are created and deleted, and never written again. The only thing asked of a store beyond that is that of all who create a name one
//! succeeds, and that reads and listings see what was answered. (`!` is less than all that is in ids: so names are ordered as ids are.)
//!
//! # The protocol
//!
//! The *head* is the entry of the highest number; the session is what it says. To write on top of head N:
//!
//! 1. read the head, and look whether it is what is expected;
//! 2. create the state;
//! 3. create entry N + 1: **this is the commit, if N is the head at that moment**;
//! 4. list the log, to see whether it was;
//! 5. delete the lower entries, each once its state is gone.
//!
//! The head is never deleted, only entries below it ([but for removals that expired](#removal)). Therefore numbers only grow, and a name that was
//! free at step 3 was free for one of two reasons: nothing above N was ever created, so N was the head and the write counts; or N + 1 had been
//! created and deleted again, so there is an entry above. Step 4 tells these apart:
//!
//! * *Two writers* with one base create the same name, and one of them succeeds. The other sees a head that is not built on its entry: `Fenced`.
//! * *A frozen writer that wakes after others took over* finds its name taken, or creates an entry below the head: that is garbage, which is
//!   never the head, whom no reader follows, and which it deletes itself, or the next writer does. It sees that the head is not built on it: `Fenced`.
//! * *A writer whose entry was already built upon before it looked* finds itself among the head's ancestors: it was accepted. Where more than
//!   [`MAX_ANCESTORS`] writes came in between, nobody can tell any more, and it says so ([`StoreError::Remote`]), as it does where an answer got
//!   lost and asking fails.
//! * *An answer that got lost* at step 2 or 3: creating compares what is there with what it wanted to write. Where even that fails, the outcome is
//!   unknown, and the session's lock remembers the version: the next write with the same expectation accepts a head that it wrote itself.
//! * *A crash* before step 3 leaves a state that nobody names, until the session has been removed for seven days; after it, a committed write,
//!   with lower entries that the next writer deletes.
//! * *A reader* lists, reads the head's entry, reads its state. Where one of them is missing, a writer has deleted it after a later commit: it
//!   begins again. So it gets the state and the record of one write, and the latest that was committed when it began, or a later one.
//!
//! # Removal
//!
//! A session is removed by an entry without a record: so removing and writing contend for one name as two writers do, and a writer from
//! before the removal is fenced by the number and the version, also when a session of the same id was made anew on top of it. Seven days later it is
//! cleaned up by a listing, under the session's lease; then the log is empty and begins anew at 1. A write that had been under way all that time does not find
//! its base in the listing of step 4, and is fenced. Only a process that was frozen in the middle of this cleaning, for longer than a lease lasts,
//! while others made the same id anew, could delete what it does not mean.

use bytes::Bytes;

use super::{
    bucket::{Bucket, Created, Listed, create, failed, refused},
    entry::{Entry, MAX_ENTRY_BYTES},
};
use crate::store::{SessionId, SessionRecord, StoreError, StoredVersion};

/// The directory of the logs.
pub(super) const RECORDS: &str = "records";
/// The directory of the states.
pub(super) const STATES: &str = "states";
/// The most objects of a session's log, and of states that are looked at to forget a session: what cannot be deleted is tried again by every writer.
const MAX_LISTED: usize = 10_000;
/// How often a read begins again because others write meanwhile.
const READS: usize = 16;
/// The digits of a number.
const DIGITS: usize = 20;

/// The log of one session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log<'a> {
    pub(super) bucket: &'a dyn Bucket,
    pub(super) id: &'a SessionId,
}

/// The entry that a log ends with.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) number: u64,
    /// What it says, or why it cannot be read.
    pub(super) entry: Result<Entry, String>,
    pub(super) bytes: u64,
    pub(super) modified_ms: i64,
}

impl Head {
    pub(super) fn is_removal(&self) -> bool {
        self.entry.as_ref().is_ok_and(|entry| entry.record.is_none())
    }

    pub(super) fn is(&self, version: &StoredVersion) -> bool {
        self.entry.as_ref().is_ok_and(|entry| entry.is(version))
    }
}

/// What is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write<'a> {
    /// Its name, which no other write has.
    pub(super) version: &'a StoredVersion,
    /// The record and the state; none to remove the session.
    pub(super) session: Option<(&'a SessionRecord, &'a Bytes)>,
}

/// What became of a write.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It was accepted.
    Committed,
    /// Others were first: nothing of it is left.
    Lost,
}

impl Log<'_> {
    fn dir(self) -> String {
        format!("{RECORDS}/{}!", self.id)
    }

    pub(super) fn name(self, number: u64) -> String {
        format!("{RECORDS}/{}!/{number:0DIGITS$}", self.id)
    }

    pub(super) fn state_name(self, version: &StoredVersion) -> String {
        format!("{STATES}/{}!/{version}", self.id)
    }

    /// The entries, lowest first.
    async fn entries(self) -> Result<Vec<(u64, Listed)>, StoreError> {
        let dir = self.dir();
        let listed = self.bucket.list(&dir, None, MAX_LISTED + 1).await?;
        if listed.len() > MAX_LISTED {
            let reason = format!("it has more than {MAX_LISTED} objects; delete those below the last");
            return Err(failed(self.bucket, format!("read `{dir}`"), reason));
        }
        Ok(listed.into_iter().filter_map(|listed| Some((number_of(&listed.name)?, listed))).collect())
    }

    /// The entry that a listing found; none if it was deleted since.
    pub(super) async fn read(self, number: u64, listed: &Listed) -> Result<Option<Head>, StoreError> {
        let entry = match self.bucket.get(&listed.name, MAX_ENTRY_BYTES).await {
            Ok(None) => return Ok(None),
            Ok(Some(bytes)) => Entry::read(self.id, &bytes),
            Err(StoreError::BlobTooLarge { .. }) => Err("its record is too long".to_owned()),
            Err(error) => return Err(error),
        };
        Ok(Some(Head { number, entry, bytes: listed.bytes, modified_ms: listed.modified_ms }))
    }

    /// The head; none if the log is empty.
    pub(super) async fn head(self) -> Result<Option<Head>, StoreError> {
        for _ in 0..READS {
            let entries = self.entries().await?;
            let Some((number, listed)) = entries.last() else { return Ok(None) };
            if let Some(head) = self.read(*number, listed).await? {
                return Ok(Some(head));
            }
        }
        Err(self.moves())
    }

    /// Writes on top of this head.
    ///
    /// # Errors
    /// The outcome is unknown then: the write may be accepted.
    pub(super) async fn append(self, base: Option<&Head>, write: Write<'_>) -> Result<Outcome, StoreError> {
        let Some(number) = base.map_or(Some(1), |base| base.number.checked_add(1)) else {
            let path = format!("{}/{}", self.bucket.url(), self.name(u64::MAX));
            let reason = "no number comes after its own; delete this object".to_owned();
            return Err(StoreError::Damaged { id: self.id.clone(), path: path.into(), reason });
        };
        if let Some((_, state)) = write.session {
            let name = self.state_name(write.version);
            if create(self.bucket, &name, state.clone()).await? != Created::Here {
                return Err(refused(self.bucket, &name));
            }
        }
        let below = base.and_then(|base| base.entry.as_ref().ok());
        let entry = Entry::new(write.version, below, write.session.map(|(record, _)| record));
        let created = create(self.bucket, &self.name(number), entry.to_bytes().into()).await?;
        for _ in 0..READS {
            let entries = self.entries().await?;
            let has_base = base.is_none_or(|base| entries.iter().any(|(number, _)| *number == base.number));
            match entries.last() {
                Some((last, _)) if *last == number && created == Created::Here && has_base => {
                    self.delete_below(&entries, base).await;
                    return Ok(Outcome::Committed);
                }
                Some((last, listed)) if *last > number => {
                    let Some(head) = self.read(*last, listed).await? else { continue };
                    let entry = head.entry.map_err(|reason| self.unknown(&reason))?;
                    match entry.descends_from(write.version, *last - number) {
                        Some(true) => return Ok(Outcome::Committed),
                        Some(false) => {}
                        None => return Err(self.unknown("too much was written since")),
                    }
                }
                // Refused by none that can be seen: a request of ours that broke off may still arrive.
                _ if created == Created::Gone => return Err(refused(self.bucket, &self.name(number))),
                // Where ours stands alone, what it was built on was removed and forgotten; where another stands in its place, that was first.
                Some(_) => {}
                None if created == Created::Here => return Err(self.unknown("it does not list what it has")),
                None => {}
            }
            self.discard(number, created, write).await;
            return Ok(Outcome::Lost);
        }
        Err(self.moves())
    }

    /// Deletes what was written in vain.
    async fn discard(self, number: u64, created: Created, write: Write<'_>) {
        if created == Created::Here {
            self.tidy(&self.name(number)).await;
        }
        if write.session.is_some() {
            self.tidy(&self.state_name(write.version)).await;
        }
    }

    /// Deletes all entries but the last, each once its state is gone: nothing else says where that is. The next writer tries again what fails.
    pub(super) async fn delete_below(self, entries: &[(u64, Listed)], known: Option<&Head>) {
        let Some((_, below)) = entries.split_last() else { return };
        for (number, listed) in below {
            let version = match known.filter(|known| known.number == *number) {
                Some(known) => known.entry.as_ref().ok().map(Entry::version),
                None => match self.read(*number, listed).await {
                    Ok(Some(head)) => head.entry.ok().map(|entry| entry.version()),
                    Ok(None) | Err(_) => continue,
                },
            };
            let has_state = match version {
                Some(version) => !self.tidy(&self.state_name(&version)).await,
                None => false,
            };
            if !has_state {
                self.tidy(&listed.name).await;
            }
        }
    }

    /// Deletes the states of writes that were not accepted, of which nothing was heard.
    pub(super) async fn forget(self, versions: &[StoredVersion]) {
        for version in versions {
            self.tidy(&self.state_name(version)).await;
        }
    }

    /// Deletes what nobody needs; whether it is gone. What cannot be deleted harms nobody.
    async fn tidy(self, name: &str) -> bool {
        let deleted = self.bucket.delete(name).await;
        if let Err(error) = &deleted {
            tracing::debug!(target: "glovebox", %error, "an object of a session stays in the store");
        }
        deleted.is_ok()
    }

    /// Cleans up after a session that was removed long ago: deletes its removal, and states of before `until_ms` that crashed writers left. The
    /// caller has the session's lease.
    pub(super) async fn expire(self, until_ms: i64) -> Result<(), StoreError> {
        let entries = self.entries().await?;
        let Some((number, listed)) = entries.last() else { return Ok(()) };
        let Some(head) = self.read(*number, listed).await? else { return Ok(()) };
        if !head.is_removal() || head.modified_ms >= until_ms {
            return Ok(());
        }
        let states = self.bucket.list(&format!("{STATES}/{}!", self.id), None, MAX_LISTED).await?;
        let mut stays = states.len() == MAX_LISTED;
        for state in states {
            stays |= state.modified_ms >= until_ms || !self.tidy(&state.name).await;
        }
        // Without the removal nobody would come back for them.
        if stays {
            return Ok(());
        }
        self.delete_below(&entries, None).await;
        self.tidy(&listed.name).await;
        Ok(())
    }

    fn moves(self) -> StoreError {
        let action = format!("read session `{}`", self.id);
        failed(self.bucket, action, "others write it faster than it can be read")
    }

    fn unknown(self, reason: &str) -> StoreError {
        let action = format!("say whether session `{}` was written", self.id);
        failed(self.bucket, action, reason)
    }
}

/// The number of an entry of this name.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let (_, digits) = name.rsplit_once('/')?;
    (digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok()).flatten()
}
