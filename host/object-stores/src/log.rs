//! The log of a session, which orders writes and decides whether each write is accepted.
//!
//! # Objects
//!
//! * `records/ID!/N`: the log entries of session `ID`. N is a 20-digit number. An entry contains its own
//!   [version](StoredVersion), the versions of the entries that it is built on, and the session's record. An entry
//!   without a record means that the session was removed.
//! * `states/ID!/VERSION`: the state that belongs to the entry with this version.
//!
//! Objects are created and deleted, but never overwritten. A store must guarantee that exactly one creator of a name
//! succeeds. Reads and listings must reflect every acknowledged operation. `!` sorts before every ID character, so
//! names sort like IDs.
//!
//! # Protocol
//!
//! The *head* is the entry with the highest number, and defines the session. A write on top of head N has these steps:
//!
//! 1. read the head and compare it with the expected version;
//! 2. create the state;
//! 3. create entry N + 1: **this is the commit, if N is the head at that moment**;
//! 4. list the log, to check whether N was the head;
//! 5. delete the lower entries, each after its state.
//!
//! Writers delete only entries below the head ([except for expired removals](#removal)), so the number of the head only
//! increases. At step 3, the name N + 1 is free for one of two reasons. If no entry above N was ever created, N was the
//! head, and the write is accepted. If N + 1 was created and deleted again, a higher entry exists. Step 4 distinguishes
//! these cases:
//!
//! * *Two writers* with the same base try to create the same name, and one of them succeeds. The other writer finds a
//!   head that is not built on its entry, and is fenced.
//! * *A frozen writer that wakes after a takeover* finds its name taken, or creates an entry below the head. Such an
//!   entry is an orphan: it is never the head, readers ignore it, and its writer or the next writer deletes it. The
//!   head is not built on the orphan, so the writer is fenced.
//! * *A writer that checks only after later writes* finds its version among the head's ancestors, so its write was
//!   accepted. After more than [`MAX_ANCESTORS`](crate::entry::MAX_ANCESTORS) later writes, the outcome is unknown, and
//!   the write fails with [`StoreError::Remote`]. The write also fails with this error if a response was lost and the
//!   check fails.
//! * *A writer that loses the response* of step 2 or 3 compares the existing object with its own object. If this
//!   request also fails, the outcome is unknown, and the session's lock records the version. The next write with the
//!   same expected version also accepts a head with a recorded version.
//! * *A writer that crashes* before step 3 leaves an orphaned state, which remains until seven days after the session's
//!   removal. A crash after step 3 leaves a committed write, and lower entries that the next writer deletes.
//! * *A reader* lists the log, reads the head's entry, and then reads its state. If either object is missing, a writer
//!   deleted it after a later commit, and the reader retries. The reader returns the state and the record of one write:
//!   the last write that was committed when the read began, or a later write.
//!
//! # Removal
//!
//! An entry without a record removes a session, so a removal and a write contend for a name like two writers. The
//! number and the version fence a writer that began before the removal, even if the session was created again after the
//! removal.
//!
//! Seven days later, a listing deletes the removal entry while it holds the session's lease. The log is then empty and
//! starts again at 1. A write that was in progress for all seven days does not find its base in the listing of step 4,
//! and is fenced. One risk remains. If a process is frozen during this cleanup for longer than its lease, and another
//! process creates the session again, the first process can delete the new session's objects.

use bytes::Bytes;
use glovebox_sessions::{RecordError, SessionId, SessionRecord, StoreError, StoredVersion};

use crate::{
    bucket::{Bucket, CreateOutcome, ListedObject, ObjectContents, create, failed, refused},
    entry::{Entry, MAX_ENTRY_BYTES},
};

/// The directory of the logs.
pub(crate) const RECORDS: &str = "records";
const STATES: &str = "states";
/// Maximum number of entries in the log of a session or lease, and of states to examine when a removal expires. The
/// number of entries stays small, because every writer retries failed deletions.
const MAX_LISTED: usize = 10_000;
/// Maximum number of attempts to read during concurrent writes.
const READS: usize = 16;
/// The number of digits in an entry's number.
const DIGITS: usize = 20;

/// The log of one session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log<'a> {
    pub(crate) bucket: &'a dyn Bucket,
    pub(crate) id: &'a SessionId,
}

/// The last entry of a log.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) number: u64,
    /// The entry, or the reason why it cannot be read.
    pub(crate) entry: Result<Entry, RecordError>,
    pub(crate) bytes: u64,
    pub(crate) modified_ms: i64,
}

impl Head {
    pub(crate) fn is_removal(&self) -> bool {
        self.entry.as_ref().is_ok_and(|entry| entry.record.is_none())
    }

    pub(crate) fn is(&self, version: &StoredVersion) -> bool {
        self.entry.as_ref().is_ok_and(|entry| entry.is(version))
    }
}

/// A write to append to a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    /// The unique version of the write.
    pub(crate) version: &'a StoredVersion,
    /// The record and the state. `None` to remove the session.
    pub(crate) session: Option<(&'a SessionRecord, &'a Bytes)>,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    /// The write was accepted.
    Committed,
    /// A different writer was first. The objects of the lost write are deleted.
    Lost,
}

impl Log<'_> {
    fn dir(self) -> String {
        format!("{RECORDS}/{}!", self.id)
    }

    pub(crate) fn name(self, number: u64) -> String {
        format!("{RECORDS}/{}!/{number:0DIGITS$}", self.id)
    }

    pub(crate) fn state_name(self, version: &StoredVersion) -> String {
        format!("{STATES}/{}!/{version}", self.id)
    }

    async fn entries(self) -> Result<Vec<(u64, ListedObject)>, StoreError> {
        list_numbered(self.bucket, &self.dir()).await
    }

    /// Reads a listed entry. Returns `None` if the entry has been deleted since it was listed.
    pub(crate) async fn read(self, number: u64, listed: &ListedObject) -> Result<Option<Head>, StoreError> {
        let entry = match self.bucket.get(&listed.name, MAX_ENTRY_BYTES).await? {
            None => return Ok(None),
            Some(ObjectContents::Bytes(bytes)) => Entry::read(self.id, &bytes),
            Some(ObjectContents::TooLong { .. }) => Err("its record is too long".into()),
        };
        Ok(Some(Head { number, entry, bytes: listed.bytes, modified_ms: listed.modified_ms }))
    }

    /// Reads the head. Returns `None` if the log is empty.
    pub(crate) async fn head(self) -> Result<Option<Head>, StoreError> {
        for _ in 0..READS {
            let entries = self.entries().await?;
            let Some((number, listed)) = entries.last() else { return Ok(None) };
            if let Some(head) = self.read(*number, listed).await? {
                return Ok(Some(head));
            }
        }
        Err(self.moves())
    }

    /// Appends a write on top of the head `base`. Without a base, appends the first entry.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the head has the maximum number. Nothing was written. After any other error, the
    /// write may have been accepted.
    pub(crate) async fn append(self, base: Option<&Head>, write: Write<'_>) -> Result<Outcome, StoreError> {
        let Some(number) = base.map_or(Some(1), |base| base.number.checked_add(1)) else {
            let path = format!("{}/{}", self.bucket.url(), self.name(u64::MAX));
            let reason = "its last entry has the maximum number; delete this entry".to_owned();
            return Err(StoreError::Damaged { id: self.id.clone(), path: path.into(), reason });
        };
        if let Some((_, state)) = write.session {
            let name = self.state_name(write.version);
            if create(self.bucket, &name, state.clone()).await? != CreateOutcome::Here {
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
                Some((last, _)) if *last == number && created == CreateOutcome::Here && has_base => {
                    self.delete_below(&entries, base).await;
                    return Ok(Outcome::Committed);
                }
                Some((last, listed)) if *last > number => {
                    let Some(head) = self.read(*last, listed).await? else { continue };
                    let entry = head.entry.map_err(|reason| self.unknown(&reason.to_string()))?;
                    match entry.descends_from(write.version, *last - number) {
                        Some(true) => return Ok(Outcome::Committed),
                        Some(false) => {}
                        None => return Err(self.unknown("too many later versions exist")),
                    }
                }
                // The store refused to create the entry, but lists no entry. An aborted request of this process may
                // still arrive.
                _ if created == CreateOutcome::Gone => return Err(refused(self.bucket, &self.name(number))),
                // If this write's entry is the last entry, its base was removed and has expired. Otherwise, another
                // writer was first.
                Some(_) => {}
                None if created == CreateOutcome::Here => return Err(self.unknown("its listing is incomplete")),
                None => {}
            }
            self.discard(number, created, write).await;
            return Ok(Outcome::Lost);
        }
        Err(self.moves())
    }

    /// Deletes the objects of a lost write.
    async fn discard(self, number: u64, created: CreateOutcome, write: Write<'_>) {
        if created == CreateOutcome::Here {
            self.delete_unneeded(&self.name(number)).await;
        }
        if write.session.is_some() {
            self.delete_unneeded(&self.state_name(write.version)).await;
        }
    }

    /// Deletes all entries except the last entry. Deletes each entry after its state, because only the entry contains
    /// the name of the state. The next writer retries failed deletions.
    async fn delete_below(self, entries: &[(u64, ListedObject)], known: Option<&Head>) {
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
                Some(version) => !self.delete_unneeded(&self.state_name(&version)).await,
                None => false,
            };
            if !has_state {
                self.delete_unneeded(&listed.name).await;
            }
        }
    }

    /// Deletes the states of writes that had an unknown outcome and were not accepted.
    pub(crate) async fn forget(self, versions: &[StoredVersion]) {
        for version in versions {
            self.delete_unneeded(&self.state_name(version)).await;
        }
    }

    /// Deletes an unneeded object. Returns `false` if the deletion fails, which is harmless.
    async fn delete_unneeded(self, name: &str) -> bool {
        let deleted = self.bucket.delete(name).await;
        if let Err(error) = &deleted {
            tracing::debug!(target: "glovebox", %error, "could not delete an object of a session");
        }
        deleted.is_ok()
    }

    /// Cleans up after a session that was removed before `until_ms`. Deletes the states that crashed writers left
    /// behind, and then the removal entry. The caller must hold the session's lease.
    pub(crate) async fn expire(self, until_ms: i64) -> Result<(), StoreError> {
        let entries = self.entries().await?;
        let Some((number, listed)) = entries.last() else { return Ok(()) };
        let Some(head) = self.read(*number, listed).await? else { return Ok(()) };
        if !head.is_removal() || head.modified_ms >= until_ms {
            return Ok(());
        }
        let states = self.bucket.list(&format!("{STATES}/{}!", self.id), None, MAX_LISTED).await?;
        let mut stays = states.len() == MAX_LISTED;
        for state in states {
            stays |= state.modified_ms >= until_ms || !self.delete_unneeded(&state.name).await;
        }
        // Keep the removal entry, because the remaining states would never be deleted without it.
        if stays {
            return Ok(());
        }
        self.delete_below(&entries, None).await;
        self.delete_unneeded(&listed.name).await;
        Ok(())
    }

    fn moves(self) -> StoreError {
        let action = format!("read session `{}`", self.id);
        failed(self.bucket, action, "other processes change it repeatedly; try again")
    }

    fn unknown(self, reason: &str) -> StoreError {
        let action = format!("confirm that session `{}` was written", self.id);
        failed(self.bucket, action, reason)
    }
}

/// Lists the numbered entries in a directory, in ascending order.
pub(crate) async fn list_numbered(bucket: &dyn Bucket, dir: &str) -> Result<Vec<(u64, ListedObject)>, StoreError> {
    let listed = bucket.list(dir, None, MAX_LISTED + 1).await?;
    if listed.len() > MAX_LISTED {
        let reason = format!("it has more than {MAX_LISTED} objects; delete all of them except the last");
        return Err(failed(bucket, format!("read `{dir}`"), reason));
    }
    Ok(listed.into_iter().filter_map(|listed| Some((number_of(&listed.name)?, listed))).collect())
}

/// Parses the number from the name of an entry.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let (_, digits) = name.rsplit_once('/')?;
    (digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok()).flatten()
}
