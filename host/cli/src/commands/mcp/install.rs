//! `glovebox mcp install`: adds the server to the configuration file of a client, which then starts the server.

use std::{
    env, fmt, fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use glovebox::{Language, Policy, escaped};
use serde_json::{Value, json};

use super::client_file::{EditError, add_to_json, add_to_toml};
use crate::{
    args::{GlobalArgs, RuntimeArgs},
    engine::{Host, Pooling},
    file, interrupt, own_program,
    terminal::{HintedError, note, out},
    typecheck::TypeChecker,
};

const AFTER_HELP: &str = "\
Examples:
  glovebox mcp install claude-code
  glovebox mcp install claude-desktop --print
  glovebox mcp install cursor --name python -- --runtime python --timeout-ms 60000
  glovebox mcp install codex -- --tools-from ~/tools.json

All other entries keep their comments and layout. The file is replaced atomically. If it cannot be edited, it is left unchanged \
and the entry to add is printed. The interpreters are prepared too, because clients wait only a few seconds for a server to \
answer.";

/// Maximum size of a client's file, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Configure a client so that it starts the server
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct InstallArgs {
    /// Client to configure
    #[arg(value_name = "CLIENT", value_enum)]
    client: Client,

    /// Print the entry and change nothing
    #[arg(long)]
    print: bool,

    /// Configuration file [default: the client's own]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Name of the server in the client
    #[arg(long, value_name = "NAME", default_value = "glovebox", value_parser = name)]
    name: String,

    /// Do not prepare the interpreters
    #[arg(long)]
    no_prepare: bool,

    /// Flags for `glovebox mcp`
    #[arg(value_name = "FLAGS", last = true)]
    flags: Vec<String>,
}

/// Parses a server name, which must not need quotes in any client's file.
fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if (1..=64).contains(&text.len()) && text.chars().all(is_plain) {
        return Ok(text.to_owned());
    }
    Err("use 1 to 64 letters, digits, `_` or `-`".into())
}

pub(super) fn run(global: &GlobalArgs, args: &InstallArgs) -> anyhow::Result<i32> {
    let path = match &args.file {
        Some(path) => path.clone(),
        None => args.client.file()?,
    };
    let start = start(global, args)?;
    let fresh = edit_config(args, "", &start).unwrap_or_default();
    if args.print {
        note(&format!("{} reads this from `{}`:", args.client, escaped(&path)));
        out(&fresh)?;
        return Ok(0);
    }
    // If the path is a symlink, write to its target, so that the link is not replaced.
    let path = fs::canonicalize(&path).unwrap_or(path);
    let before = read(&path)?;
    let after = edit_config(args, &before, &start).map_err(|error| {
        let (EditError::Syntax(why) | EditError::Form(why)) = error;
        let hint = format!("the file was not changed; add this yourself:\n{fresh}");
        HintedError::new(format!("cannot change `{}`", escaped(&path)), hint).caused_by(why)
    })?;
    if after == before {
        note(&format!("{} is already configured in `{}`", args.client, escaped(&path)));
    } else {
        write(&path, after.as_bytes())?;
        note(&format!("wrote `{}`; {}", escaped(&path), args.client.next()));
    }
    if !args.no_prepare {
        prepare(global, args)?;
    }
    Ok(0)
}

/// Returns the command that the client starts: this program by its absolute path, because programs with a graphical
/// interface have a different `PATH`.
fn start(global: &GlobalArgs, args: &InstallArgs) -> anyhow::Result<Start> {
    let program = own_program();
    let program = fs::canonicalize(&program).unwrap_or(program);
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.with_context(|| format!("`{}` is not UTF-8; move it to a UTF-8 path", escaped(path)))
    };
    let mut words = vec!["mcp".to_owned()];
    // The client does not inherit the variables of this shell, so pass their values as flags.
    let cache = global.cache_dir.iter().map(|path| ("--cache-dir", path));
    let bundles = global.bundle.iter().map(|path| ("--bundle", path));
    let prepared = global.prepared.iter().map(|path| ("--prepared", path));
    let running = env::current_exe().and_then(fs::canonicalize).unwrap_or_else(|_| program.clone());
    let bundles = bundles.chain(prepared).filter(|(_, path)| !is_found_by(&program, &running, path));
    for (flag, path) in cache.chain(bundles) {
        let path = std::path::absolute(path).with_context(|| format!("cannot use `{}`", escaped(path)))?;
        words.extend([flag.to_owned(), text(&path)?]);
    }
    words.extend(args.flags.iter().cloned());
    Ok(Start { command: text(&program)?, args: words })
}

/// Returns `true` if `program` finds a bundle without a flag. A command that a Python package installed finds the
/// bundles in its Python environment. `running` is then the Python interpreter. A flag with the bundle's path would
/// stop working when an update of Python changes the path.
fn is_found_by(program: &Path, running: &Path, bundle: &Path) -> bool {
    let bundle = fs::canonicalize(bundle).unwrap_or_else(|_| bundle.to_owned());
    let environment = program.parent().and_then(Path::parent);
    program != running && environment.is_some_and(|environment| bundle.starts_with(environment))
}

fn edit_config(args: &InstallArgs, before: &str, start: &Start) -> Result<String, EditError> {
    match args.client.container() {
        Some(container) => add_to_json(before, container, &args.name, &args.client.entry(start)),
        None => add_to_toml(before, &args.name, &start.command, &start.args),
    }
}

/// Reads the file. A missing file is treated as empty.
fn read(path: &Path) -> anyhow::Result<String> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Ok(metadata) if metadata.len() > MAX_FILE_BYTES => {
            anyhow::bail!(
                "`{}` is larger than {MAX_FILE_BYTES} bytes; add the entry yourself (--print shows it)",
                escaped(path)
            );
        }
        _ => {}
    }
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", escaped(path)))
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot create the directory `{}`", escaped(directory)))?;
    }
    file::replace_alike(path, bytes)
}

/// Prepares the interpreters that the server uses by default, and downloads the type checker if the server needs it.
fn prepare(global: &GlobalArgs, args: &InstallArgs) -> anyhow::Result<()> {
    interrupt::install()?;
    let host = Host::open(global, Pooling::Single)?;
    let runtime = RuntimeArgs::default();
    for language in Language::ALL {
        host.sandbox(&runtime, Some(language), &Policy::default())?;
    }
    if args.flags.iter().any(|flag| flag == "--types") {
        TypeChecker::open(&host)?;
    }
    Ok(())
}

/// An MCP client that `glovebox mcp install` can configure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Client {
    /// Claude Code: .mcp.json in this directory, for this project
    ClaudeCode,
    /// Claude Desktop: claude_desktop_config.json
    ClaudeDesktop,
    /// Codex: ~/.codex/config.toml
    Codex,
    /// Cursor: ~/.cursor/mcp.json
    Cursor,
    /// Gemini CLI: ~/.gemini/settings.json
    GeminiCli,
    /// Visual Studio Code: .vscode/mcp.json in this directory, for this project
    Vscode,
    /// Windsurf: ~/.codeium/windsurf/mcp_config.json
    Windsurf,
    /// Zed: ~/.config/zed/settings.json
    Zed,
}

/// The command that a client starts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Start {
    command: String,
    args: Vec<String>,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Codex => "Codex",
            Self::Cursor => "Cursor",
            Self::GeminiCli => "Gemini CLI",
            Self::Vscode => "Visual Studio Code",
            Self::Windsurf => "Windsurf",
            Self::Zed => "Zed",
        })
    }
}

impl Client {
    /// Returns the path of the configuration file.
    fn file(self) -> Result<PathBuf, HintedError> {
        Ok(match self {
            Self::ClaudeCode => ".mcp.json".into(),
            Self::ClaudeDesktop => settings("Library/Application Support")?.join("Claude/claude_desktop_config.json"),
            Self::Codex => match directory("CODEX_HOME") {
                Some(codex) => codex.join("config.toml"),
                None => home()?.join(".codex/config.toml"),
            },
            Self::Cursor => home()?.join(".cursor/mcp.json"),
            Self::GeminiCli => home()?.join(".gemini/settings.json"),
            Self::Vscode => ".vscode/mcp.json".into(),
            Self::Windsurf => home()?.join(".codeium/windsurf/mcp_config.json"),
            // Zed uses `~/.config` on macOS too, and ignores XDG_CONFIG_HOME there.
            Self::Zed => settings(".config")?.join("zed/settings.json"),
        })
    }

    /// Returns the name of the object with the servers in a JSON file. `None` for a TOML file, which has a table
    /// `mcp_servers.NAME` per server.
    fn container(self) -> Option<&'static str> {
        match self {
            Self::Codex => None,
            Self::Vscode => Some("servers"),
            Self::Zed => Some("context_servers"),
            _ => Some("mcpServers"),
        }
    }

    /// Returns the entry for a server, as JSON.
    fn entry(self, Start { command, args }: &Start) -> Value {
        match self {
            Self::ClaudeCode | Self::Vscode => json!({ "type": "stdio", "command": command, "args": args }),
            _ => json!({ "command": command, "args": args }),
        }
    }

    /// Returns the next step for the user.
    fn next(self) -> &'static str {
        match self {
            Self::ClaudeCode => "start `claude` in this directory and approve the server",
            Self::Vscode => "open this directory and start the server from .vscode/mcp.json",
            _ => "restart the client",
        }
    }
}

fn directory(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn home() -> Result<PathBuf, HintedError> {
    directory("HOME").ok_or_else(|| {
        HintedError::new("HOME is not set to an absolute path", "set HOME, or choose the file with --file FILE")
    })
}

/// Returns the directory for settings: `macos` in the home directory on macOS, and XDG_CONFIG_HOME or `~/.config`
/// elsewhere.
fn settings(macos: &str) -> Result<PathBuf, HintedError> {
    let xdg = directory("XDG_CONFIG_HOME").filter(|_| !cfg!(target_os = "macos"));
    let default = if cfg!(target_os = "macos") { macos } else { ".config" };
    xdg.map_or_else(|| Ok(home()?.join(default)), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scripts_find_the_bundles_of_their_environment() {
        let is_found = |running: &str, bundle: &str| {
            is_found_by(Path::new("/none/bin/glovebox"), Path::new(running), Path::new(bundle))
        };
        let (python, inside) = ("/usr/bin/python3.11", "/none/lib/python3.11/site-packages/x/prepared.zip");
        assert!(is_found(python, inside));
        assert!(!is_found("/none/bin/glovebox", inside), "the command of the archive searches nowhere");
        assert!(!is_found(python, "/other/prepared.zip"));
    }
}
