//! Image files: tar archives of a definition and its inputs, in a fixed order and without times, so that equal images
//! give equal bytes.

use std::io::{self, Read, Write};

use glovebox_vfs::escaped;
use tar::{Archive, Builder, Entry, EntryType, Header};

use super::definition::{ImageDefinition, ImageInputs};
use crate::Digest;
use crate::wheel_files::MAX_WHEEL_BYTES;

/// Name of the definition, the first entry.
const DEFINITION: &str = "image.json";
/// Suffices for the setups' code with escapes, and the longest list of files.
const MAX_DEFINITION_BYTES: u64 = 16 << 20;

pub(super) fn write(definition: &ImageDefinition, inputs: &ImageInputs, out: impl Write) -> io::Result<()> {
    let mut archive = Builder::new(out);
    let text = serde_json::to_vec_pretty(definition)?;
    append(&mut archive, DEFINITION, &text)?;
    for (at, (_, bytes)) in inputs.wheels.iter().chain(&inputs.files).enumerate() {
        append(&mut archive, &input_name(at), bytes)?;
    }
    archive.into_inner()?.flush()
}

/// Archive entries have numbers for names. The paths are in the definition; long ones would need extensions of the
/// format.
fn input_name(at: usize) -> String {
    format!("inputs/{at}")
}

fn append(archive: &mut Builder<impl Write>, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o600);
    header.set_path(name)?;
    header.set_cksum();
    archive.append(&header, bytes)
}

pub(super) fn read_definition(file: impl Read) -> io::Result<ImageDefinition> {
    let mut archive = Archive::new(file);
    // Raw entries, because an extension header may be as long as the file.
    let mut entries = archive.entries()?.raw(true);
    definition_of(entries.next())
}

/// Reads an image and verifies the digests of its inputs. Passes each wheel to `check` before reading the next.
pub(super) fn read(
    file: impl Read,
    mut check: impl FnMut(&str, &[u8]) -> io::Result<()>,
) -> io::Result<(ImageDefinition, ImageInputs)> {
    let mut archive = Archive::new(file);
    let mut entries = archive.entries()?.raw(true);
    let definition = definition_of(entries.next())?;
    // Checked before memory is allocated for sizes that the definition claims.
    definition.check().map_err(|error| invalid(error.to_string()))?;
    let mut contents = Vec::new();
    for (at, input) in definition.inputs().enumerate() {
        let is_wheel = at < definition.wheels.len();
        if is_wheel && input.size_bytes > MAX_WHEEL_BYTES {
            return Err(invalid(format!("`{}` in it has more than {MAX_WHEEL_BYTES} bytes", escaped(&input.path))));
        }
        let bytes = content(entries.next(), &input_name(at), input.size_bytes)?;
        if bytes.len() as u64 != input.size_bytes || Digest::of(&bytes) != input.sha256 {
            return Err(invalid(format!("`{}` in it does not match its definition", escaped(&input.path))));
        }
        if is_wheel {
            check(&input.path, &bytes)?;
        }
        contents.push((input.path.clone(), bytes));
    }
    let files = contents.split_off(definition.wheels.len());
    Ok((definition, ImageInputs { wheels: contents, files }))
}

fn definition_of<R: Read>(entry: Option<io::Result<Entry<'_, R>>>) -> io::Result<ImageDefinition> {
    let text = content(entry, DEFINITION, MAX_DEFINITION_BYTES)?;
    Ok(serde_json::from_slice(&text)?)
}

fn content<R: Read>(entry: Option<io::Result<Entry<'_, R>>>, name: &str, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let missing = || invalid(format!("`{name}` is missing or in the wrong place"));
    let entry = entry.ok_or_else(missing)??;
    if entry.header().entry_type() != EntryType::Regular || &*entry.path_bytes() != name.as_bytes() {
        return Err(missing());
    }
    let mut bytes = Vec::new();
    entry.take(limit_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit_bytes {
        return Err(invalid(format!("`{name}` in it has more than {limit_bytes} bytes")));
    }
    Ok(bytes)
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
