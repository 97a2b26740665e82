//! Reads the standard input of scripts.

use std::{
    fs::File,
    io::{self, Read as _},
    os::{fd::AsFd as _, unix::fs::FileTypeExt as _},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use glovebox::{Request, escaped};

use crate::{
    args::SourceArgs,
    source::{STDIN, bounded},
    terminal::{HintedError, OrHint as _, note},
};

/// Standard input of scripts.
#[derive(Debug)]
pub(crate) enum Stdin {
    Given(Vec<u8>),
    Piped(PipedStdin),
}

impl Stdin {
    /// Reads the file that `--stdin` specifies. Without this flag, scripts read this process's standard input when they
    /// need it, unless a script is itself read from standard input.
    pub(crate) fn new(path: Option<&Path>, source: &SourceArgs, max_bytes: u64) -> anyhow::Result<Self> {
        let is_script = source.code.files.iter().any(|file| file.as_os_str() == STDIN);
        let bytes = match path {
            None if is_script => Vec::new(),
            None => return Ok(PipedStdin::new(max_bytes).map_or_else(|| Self::Given(Vec::new()), Self::Piped)),
            Some(path) if path.as_os_str() == STDIN => {
                if is_script {
                    return Err(HintedError::new(
                        "the script and its input cannot both come from standard input",
                        "put one of them into a file",
                    )
                    .into());
                }
                bounded("standard input", io::stdin().lock(), max_bytes, "--stdin-bytes")?
            }
            Some(path) => {
                let what = format!("input file `{}`", escaped(path));
                let file =
                    File::open(path).or_hint(|| format!("cannot read {what}"), "check the path given to --stdin")?;
                bounded(&what, file, max_bytes, "--stdin-bytes")?
            }
        };
        Ok(Self::Given(bytes))
    }

    /// Reads standard input to its end, because a suspended execution must contain it.
    pub(crate) fn read(self) -> Self {
        match self {
            Self::Piped(piped) => Self::Given(piped.bytes()),
            given @ Self::Given(_) => given,
        }
    }

    pub(crate) fn give<'a>(&'a self, request: Request<'a>) -> Request<'a> {
        match self {
            Self::Given(bytes) => request.stdin(bytes),
            Self::Piped(piped) => {
                let piped = piped.clone();
                request.stdin_from(move || piped.bytes())
            }
        }
    }
}

/// Standard input if it is a pipe, a socket or a file. It is read when the first script reads, so that a script that
/// does not read never waits, even if the pipe is never closed. All scripts of a run read the same input.
#[derive(Clone, Debug)]
pub(crate) struct PipedStdin {
    max_bytes: u64,
    read: Arc<Mutex<Option<Vec<u8>>>>,
}

impl PipedStdin {
    /// Returns `None` if standard input is a terminal, a device or closed.
    fn new(max_bytes: u64) -> Option<Self> {
        let handle = io::stdin().as_fd().try_clone_to_owned().ok()?;
        let kind = File::from(handle).metadata().ok()?.file_type();
        let is_given = kind.is_fifo() || kind.is_socket() || kind.is_file();
        is_given.then(|| Self { max_bytes, read: Arc::default() })
    }

    /// Returns the input, up to its end or the limit.
    fn bytes(&self) -> Vec<u8> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.get_or_insert_with(|| self.read_all()).clone()
    }

    fn read_all(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let max = usize::try_from(self.max_bytes).unwrap_or(usize::MAX);
        if let Err(error) = io::stdin().lock().take(self.max_bytes.saturating_add(1)).read_to_end(&mut bytes) {
            note(&format!("cannot read more of standard input: {error}"));
        }
        if bytes.len() > max {
            bytes.truncate(max);
            note(&format!(
                "standard input truncated: the script receives the first {max} bytes; raise the limit with \
                 --stdin-bytes N"
            ));
        }
        bytes
    }
}
