//! Packages available to scripts in addition to the standard library.

use glovebox_wasi::Stop;

use super::wire::fields;
use crate::{COMPILED_FILE, Callee, DriverError, Machine, MachineError};

/// Packages of this project, by path below `/app/site-packages`, sorted.
pub const EMBEDDED_PACKAGES: &[(&str, &[u8])] = &[
    ("requests/__init__.py", include_bytes!("site/requests/__init__.py")),
    ("requests/auth.py", include_bytes!("site/requests/auth.py")),
    ("requests/cookies.py", include_bytes!("site/requests/cookies.py")),
    ("requests/exceptions.py", include_bytes!("site/requests/exceptions.py")),
    ("requests/models.py", include_bytes!("site/requests/models.py")),
    ("requests/sessions.py", include_bytes!("site/requests/sessions.py")),
    ("requests/structures.py", include_bytes!("site/requests/structures.py")),
    ("sandbox_utils/__init__.py", include_bytes!("site/sandbox_utils/__init__.py")),
    ("sandbox_utils/data.py", include_bytes!("site/sandbox_utils/data.py")),
    ("sandbox_utils/files.py", include_bytes!("site/sandbox_utils/files.py")),
    ("sandbox_utils/formats.py", include_bytes!("site/sandbox_utils/formats.py")),
    ("sandbox_utils/paths.py", include_bytes!("site/sandbox_utils/paths.py")),
    ("sandbox_utils/shell.py", include_bytes!("site/sandbox_utils/shell.py")),
    ("sandbox_utils/text.py", include_bytes!("site/sandbox_utils/text.py")),
    ("sandbox_utils/yaml_reader.py", include_bytes!("site/sandbox_utils/yaml_reader.py")),
    ("sandbox_utils/yaml_writer.py", include_bytes!("site/sandbox_utils/yaml_writer.py")),
];

/// Compiles the packages that are mounted at their path.
pub(super) const COMPILER: &str = include_str!("compile.py");

/// The arguments of the compiling interpreter. It may write to the workspace.
pub(super) fn compiler_args() -> Vec<String> {
    ["python", "-c", COMPILER, "/app/site-packages", &format!("/app/{COMPILED_FILE}")].map(str::to_owned).to_vec()
}

/// Runs [`COMPILER`] in a command that was given [`compiler_args`].
pub(super) fn compile(machine: &mut dyn Machine) -> Result<(), DriverError> {
    match machine.call(Callee::Export("_start"), &[]) {
        Ok(_) | Err(MachineError::Stopped(Stop::Exit(0))) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Decodes the output of [`COMPILER`].
pub(super) fn compiled(written: &[u8]) -> Result<Vec<(String, Vec<u8>)>, DriverError> {
    let parts = fields(written)?;
    let pairs = parts.chunks(2).map(|pair| match pair {
        [path, bytes] => Ok((String::from_utf8_lossy(path).into_owned(), bytes.to_vec())),
        _ => Err(DriverError::Boot("a path of a compiled package stands alone".to_owned())),
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_compiled_is_taken_apart() {
        let framed = |parts: &[&[u8]]| {
            let length = |part: &[u8]| u32::try_from(part.len()).unwrap().to_le_bytes();
            parts.iter().flat_map(|part| [&length(part)[..], part].concat()).collect::<Vec<u8>>()
        };
        assert_eq!(compiled(b"").unwrap(), []);
        let whole = framed(&[b"a", b"\0\xff", b"b", b""]);
        assert_eq!(compiled(&whole).unwrap(), [("a".into(), vec![0, 255]), ("b".into(), vec![])]);
        assert!(compiled(&framed(&[b"a"])).is_err(), "a path without bytes");
        assert!(compiled(&whole[..whole.len() - 1]).is_err(), "cut short");
    }

    #[test]
    fn packages_of_our_own_are_sorted() {
        assert!(EMBEDDED_PACKAGES.is_sorted_by_key(|(path, _)| *path));
    }
}
