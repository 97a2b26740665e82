//! This process's standard input as the standard input of scripts.

use std::{
    io::{self, Read as _},
    os::{fd::AsFd as _, unix::fs::FileTypeExt as _},
    sync::{Arc, Mutex, PoisonError},
};

use crate::terminal::note;

/// Standard input if it is a pipe or a file. It is read when the first script reads, so that other scripts never wait,
/// even if the pipe is never closed. All scripts of a run read the same input.
#[derive(Clone, Debug)]
pub(crate) struct PipedStdin {
    max_bytes: u64,
    read: Arc<Mutex<Option<Vec<u8>>>>,
}

impl PipedStdin {
    /// Returns `None` if standard input is a terminal, a device or closed.
    pub(crate) fn new(max_bytes: u64) -> Option<Self> {
        let handle = io::stdin().as_fd().try_clone_to_owned().ok()?;
        let kind = std::fs::File::from(handle).metadata().ok()?.file_type();
        let is_given = kind.is_fifo() || kind.is_socket() || kind.is_file();
        is_given.then(|| Self { max_bytes, read: Arc::default() })
    }

    /// Returns the input, up to its end or the limit.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.get_or_insert_with(|| self.read_all()).clone()
    }

    fn read_all(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let most = usize::try_from(self.max_bytes).unwrap_or(usize::MAX);
        if let Err(error) = io::stdin().lock().take(self.max_bytes.saturating_add(1)).read_to_end(&mut bytes) {
            note(&format!("standard input cannot be read any further: {error}"));
        }
        if bytes.len() > most {
            bytes.truncate(most);
            note(&format!(
                "standard input truncated: the script gets the first {most} bytes; raise it with --stdin-bytes N"
            ));
        }
        bytes
    }
}
