//! `glovebox session files`: the files of a stored session.

use std::{
    io::{self, BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, Subcommand};
use glovebox::{CopyReport, FileEntry, FileError, FileKind, FilesError, IfExists, Session, escaped};
use glovebox_sessions::SessionId;

use super::{open_input, stdout_for};
use crate::{
    args::{ActivateArgs, GlobalArgs},
    engine::{Host, Pooling},
    file,
    session_dir::SessionDir,
    source::{STDIN, bounded},
    terminal::{
        Column::{Left, Right},
        HintedError, bytes, format_count, grouped, out_report, table, write_printable,
    },
};

const AFTER_HELP: &str = "\
Examples:
  glovebox session files trip ls
  glovebox session files trip ls 'src/**/*.py'
  glovebox session files trip cat plan.json
  glovebox session files trip put ./data        a file or a directory, under its own name
  glovebox session files trip put in.csv data/in.csv --replace
  glovebox session files trip get out ./out
  glovebox session files trip rm -r data
  glovebox session files trip tar - | tar -tv
  tar -c src | glovebox session files trip untar -

Paths are relative to the session's workspace, /app in its scripts, and cannot lead out of it. The session's quotas \
apply to files copied in. A failed action changes nothing.";

/// List, read, write, delete and copy the files of a session
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct FilesArgs {
    /// Name of the session
    #[arg(value_name = "ID")]
    id: SessionId,

    #[command(subcommand)]
    action: Action,

    /// Print JSON
    #[arg(long, global = true)]
    json: bool,

    #[command(flatten)]
    activate: ActivateArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List all files, or those that match a pattern
    Ls {
        /// Glob pattern; `**` matches any number of directories
        #[arg(value_name = "PATTERN", default_value = "**")]
        pattern: String,
    },
    /// Write a file to standard output
    Cat {
        /// Path of the file
        #[arg(value_name = "PATH")]
        path: String,
    },
    /// Copy a host file or directory into the session
    Put {
        /// File or directory; `-` is standard input
        #[arg(value_name = "HOST")]
        host: PathBuf,

        /// Path in the session, required with `-` [default: the last component of HOST]
        #[arg(value_name = "PATH")]
        path: Option<String>,

        /// Replace existing files
        #[arg(long)]
        replace: bool,
    },
    /// Copy a file or directory to the host
    Get {
        /// File or directory; `.` for all files
        #[arg(value_name = "PATH")]
        path: String,

        /// Path on the host [default: the last component of PATH, in the current directory]
        #[arg(value_name = "HOST")]
        host: Option<PathBuf>,

        /// Replace existing files
        #[arg(long)]
        replace: bool,
    },
    /// Rename a file or directory
    Mv {
        /// Current path
        #[arg(value_name = "FROM")]
        from: String,

        /// New path
        #[arg(value_name = "TO")]
        to: String,

        /// Replace an existing file
        #[arg(long)]
        replace: bool,
    },
    /// Delete a file or an empty directory
    Rm {
        /// File or empty directory
        #[arg(value_name = "PATH")]
        path: String,

        /// Delete a directory with all its contents
        #[arg(short, long)]
        recursive: bool,
    },
    /// Write all files as a tar archive
    Tar {
        /// Archive to write (overwritten if it exists); `-` for standard output
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Unpack a tar archive
    Untar {
        /// Uncompressed archive; `-` for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// Replace existing files
        #[arg(long)]
        replace: bool,
    },
}

impl Action {
    /// Returns `true` for actions that change the session, which must then be saved.
    fn is_change(&self) -> bool {
        !matches!(self, Self::Ls { .. } | Self::Cat { .. } | Self::Get { .. } | Self::Tar { .. })
    }
}

pub(super) fn run(global: &GlobalArgs, session_dir: &SessionDir, args: &FilesArgs) -> anyhow::Result<()> {
    let host = Host::open(global, Pooling::Single)?;
    let session = session_dir.activate_existing(&host, &args.activate, &args.id)?;
    act(args, &session.session()?).map_err(hinted)?;
    if args.action.is_change() {
        session.save().with_context(|| format!("cannot save session `{}`", args.id))?;
    }
    Ok(())
}

fn act(args: &FilesArgs, session: &Session) -> anyhow::Result<()> {
    let files = session.files();
    match &args.action {
        Action::Ls { pattern } => {
            let entries = files.list(pattern)?;
            out_report(args.json, &entries, || file_table(&entries))?;
        }
        Action::Cat { path } => {
            let bytes = files.read(path)?;
            let mut out = BufWriter::new(io::stdout().lock());
            // The script chose the file's contents, which must not control the terminal.
            if out.get_ref().is_terminal() {
                write_printable(&mut out, &bytes)?;
            } else {
                out.write_all(&bytes)?;
            }
            out.flush()?;
        }
        Action::Put { host, path, replace } if host.as_os_str() == STDIN => {
            let path = path.as_deref().ok_or_else(|| {
                HintedError::new("standard input has no file name", "add the file's path: `put - PATH`")
            })?;
            let max = session.sandbox().policy().limits.workspace_bytes;
            let bytes = bounded("standard input", io::stdin().lock(), max, "--workspace-bytes")?;
            files.write(path, bytes, if_exists(*replace))?;
        }
        Action::Put { host, path, replace } => {
            let to = match path {
                Some(path) => path.clone(),
                None => name_of(host)?,
            };
            report(args, &files.copy_in(host, &to, if_exists(*replace))?)?;
        }
        Action::Get { path, host, replace } => {
            let own_name = || Path::new(path).file_name().map_or_else(|| PathBuf::from("."), PathBuf::from);
            let to = host.clone().unwrap_or_else(own_name);
            report(args, &files.copy_out(path, to, if_exists(*replace))?)?;
        }
        Action::Mv { from, to, replace } => files.rename(from, to, if_exists(*replace))?,
        Action::Rm { path, recursive: true } => files.delete_all(path)?,
        Action::Rm { path, recursive: false } => remove(session, path)?,
        Action::Tar { file } if file.as_os_str() == STDIN => {
            let mut out = BufWriter::new(stdout_for("an archive")?);
            files.export_tar(&mut out)?;
            out.flush()?;
        }
        Action::Tar { file } => {
            let mut archive = Vec::new();
            let written = files.export_tar(&mut archive)?;
            file::replace(file, &archive)?;
            report(args, &written)?;
        }
        Action::Untar { file, replace } => {
            let (_, reader) = open_input(file, "archive")?;
            report(args, &files.import_tar(reader, if_exists(*replace))?)?;
        }
    }
    Ok(())
}

/// Adds a hint with the flag that allows the rejected operation.
fn hinted(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(FilesError::Workspace(FileError::Exists { .. })) => {
            HintedError::new(error.to_string(), "use --replace").into()
        }
        _ => error,
    }
}

fn remove(session: &Session, path: &str) -> anyhow::Result<()> {
    let files = session.files();
    files.delete(path).map_err(|error| match files.stat(path) {
        Ok(entry) if entry.kind == FileKind::Directory => {
            let hint = "`rm -r` deletes a directory with everything in it";
            HintedError::new(format!("cannot delete `{path}`"), hint).caused_by(error).into()
        }
        _ => anyhow::Error::from(error),
    })
}

fn if_exists(replace: bool) -> IfExists {
    if replace { IfExists::Replace } else { IfExists::Fail }
}

/// Returns the default name in the session for a copied host file.
fn name_of(host: &Path) -> anyhow::Result<String> {
    let name = host.file_name().and_then(|name| name.to_str());
    let unnamed = || {
        HintedError::new(
            format!("the name of `{}` is not valid in a session", escaped(host)),
            "add a path: `put HOST PATH`",
        )
    };
    Ok(name.map(str::to_owned).ok_or_else(unnamed)?)
}

/// Returns a table of files.
pub(crate) fn file_table(entries: &[FileEntry]) -> String {
    let rows = entries.iter().map(|entry| {
        let (size, mark) = match entry.kind {
            FileKind::Directory => (String::new(), "/"),
            FileKind::Symlink => (String::new(), "@"),
            FileKind::File => (bytes(entry.size_bytes), ""),
        };
        [size, escaped(&entry.path).to_string() + mark]
    });
    table([Right("SIZE"), Left("PATH")], rows)
}

fn report(args: &FilesArgs, report: &CopyReport) -> anyhow::Result<()> {
    out_report(args.json, report, || {
        let mut text = format!("{}, {}", format_count(report.file_count, "file"), bytes(report.bytes));
        if report.skipped_count > 0 {
            text += &format!(
                "; {} skipped: special files, invalid names, or links that leave the target directory",
                grouped(report.skipped_count)
            );
        }
        text + "\n"
    })
}
