//! Appends entries to sections, so that all indices stay valid.

use wasm_encoder::{Encode, Section, SectionId};
use wasmparser::BinaryReader;

use super::RewriteError;
use super::sections::Sections;

/// An encoded section.
pub(super) struct Raw {
    pub(super) id: u8,
    pub(super) data: Vec<u8>,
}

impl Encode for Raw {
    fn encode(&self, sink: &mut Vec<u8>) {
        self.data.encode(sink);
    }
}

impl Section for Raw {
    fn id(&self) -> u8 {
        self.id
    }
}

/// Splits a section's contents into the number of entries and the entries.
fn split(data: &[u8]) -> Result<(u32, &[u8]), RewriteError> {
    let mut reader = BinaryReader::new(data, 0);
    let count = reader.read_var_u32()?;
    Ok((count, data.get(reader.original_position()..).unwrap_or_default()))
}

/// Returns the encoded entries of a new section, without their number.
pub(super) fn entries(section: &impl Encode) -> Result<Vec<u8>, RewriteError> {
    let mut encoded = Vec::new();
    section.encode(&mut encoded);
    // The length of the section comes first.
    let (_, content) = split(&encoded)?;
    Ok(split(content)?.1.to_vec())
}

/// Returns a section with additional entries. The module need not have the section.
pub(super) fn longer(sections: &Sections<'_>, id: SectionId, more: u32, entries: &[u8]) -> Result<Raw, RewriteError> {
    let id = u8::from(id);
    let (count, before) = match sections.0.iter().find(|section| section.id == id) {
        Some(section) => split(section.data)?,
        None => (0, &[][..]),
    };
    let mut data = Vec::new();
    count.checked_add(more).ok_or_else(|| too_long(id))?.encode(&mut data);
    data.extend_from_slice(before);
    data.extend_from_slice(entries);
    Ok(Raw { id, data })
}

fn too_long(id: u8) -> RewriteError {
    RewriteError::Unsupported(format!("its section {id} has no room for another entry"))
}
