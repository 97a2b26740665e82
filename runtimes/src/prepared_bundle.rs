//! Prepared bundles: zip files of compiled code and prepared images. A machine with a bundle need not compile or boot
//! them.
//!
//! Each entry is copied from the cache with its key and record. The code is compressed with Zstandard. A bundle
//! contains native code, so it must be as trustworthy as this program. The digest in the record only detects damage.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use glovebox_vfs::escaped;
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use crate::{
    Artefact, ArtefactKey, CacheKind, Digest, NewArtefact, RuntimeError, Runtimes,
    package_list::{persist_bundle, temp_bundle},
    prepared::{MAX_RECORD_BYTES, RECORD_SUFFIX, SerializedRecord, record_name},
};

/// Zstandard level for the code. Higher levels reduce the size by at most 10% and take several times as long.
const COMPRESSION_LEVEL: i32 = 12;

/// Number of hexadecimal digits of the key in a record's file name.
const KEY_DIGITS: usize = 32;

/// Suffix of compressed code.
const COMPRESSED: &str = ".zst";

/// The path of a prepared bundle.
#[derive(Clone, Debug)]
pub(crate) struct PreparedBundle(pub(crate) PathBuf);

impl PreparedBundle {
    fn open(&self) -> io::Result<ZipArchive<File>> {
        Ok(ZipArchive::new(File::open(&self.0)?)?)
    }

    /// Returns `true` if the bundle contains an image with this label, for any version of Glovebox and any settings.
    /// Returns `false` for an unreadable bundle.
    pub(crate) fn has_image(&self, label: &str) -> bool {
        let begin = format!("{}/{label}-", CacheKind::Images.directory());
        let is_image = |name: &[u8]| {
            let rest = name.strip_prefix(begin.as_bytes());
            rest.is_some_and(|rest| {
                rest.len() == KEY_DIGITS + RECORD_SUFFIX.len() && rest.ends_with(RECORD_SUFFIX.as_bytes())
            })
        };
        self.open().is_ok_and(|archive| archive.file_names_raw().any(is_image))
    }

    /// Returns the artefact with this key, and its verified digest. Returns `None` for a missing or damaged artefact,
    /// which the caller must build. Damage is logged.
    pub(crate) fn take(&self, kind: CacheKind, key: &ArtefactKey) -> Option<(NewArtefact, Digest)> {
        let taken = self.open().and_then(|archive| read(archive, kind, key));
        taken.unwrap_or_else(|error| {
            tracing::warn!(bundle = %escaped(&self.0), key = %key, %error, "cannot use the prepared bundle");
            None
        })
    }
}

fn read(
    mut archive: ZipArchive<File>,
    kind: CacheKind,
    key: &ArtefactKey,
) -> io::Result<Option<(NewArtefact, Digest)>> {
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    let Some(index) = archive.index_for_name(&entry_name(kind, &record_name(key))) else { return Ok(None) };
    let mut text = Vec::new();
    archive.by_index(index)?.take(MAX_RECORD_BYTES).read_to_end(&mut text)?;
    let stored = SerializedRecord::parse(&text).filter(|stored| stored.key == *key.parts());
    let SerializedRecord { aot_file, aot_bytes, aot_sha256, record, .. } =
        stored.ok_or_else(|| invalid("a record is invalid; copy or create the bundle again"))?;
    let packed = archive.by_name(&entry_name(kind, &(aot_file + COMPRESSED)))?;
    let mut aot = Vec::new();
    aot.try_reserve_exact(usize::try_from(aot_bytes).map_err(io::Error::other)?).map_err(io::Error::other)?;
    zstd::stream::read::Decoder::new(packed)?.take(aot_bytes).read_to_end(&mut aot)?;
    let sha256 = Digest::of(&aot);
    if sha256 != aot_sha256 {
        return Err(invalid("the compiled code does not match its checksum; copy or create the bundle again"));
    }
    Ok(Some((NewArtefact { aot, record }, sha256)))
}

fn entry_name(kind: CacheKind, file: &str) -> String {
    format!("{}/{file}", kind.directory())
}

impl Runtimes {
    /// Writes a prepared bundle with these artefacts, except artefacts in the prepared bundle `without`. Returns the
    /// size in bytes.
    ///
    /// # Errors
    /// Fails if an artefact cannot be read, if the bundle cannot be written, or if `without` cannot be read.
    pub fn write_prepared(
        &self,
        artefacts: Vec<(CacheKind, ArtefactKey, Artefact)>,
        without: Option<&Path>,
        path: &Path,
    ) -> Result<u64, RuntimeError> {
        let reading = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| RuntimeError::Bundle { path, source }
        };
        let other = without.map(|path| PreparedBundle(path.to_owned()).open().map_err(reading(path)));
        let other = other.transpose()?;
        let mut temp = temp_bundle(path).map_err(reading(path))?;
        let mut archive = ZipWriter::new(temp.as_file_mut());
        // Write each artefact once: a runtime and its images have the same code.
        let mut written = BTreeSet::new();
        for (kind, key, artefact) in artefacts {
            let name = entry_name(kind, &record_name(&key));
            if !written.insert(name.clone())
                || other.as_ref().is_some_and(|other| other.index_for_name(&name).is_some())
            {
                continue;
            }
            let stored = self.compiled(kind).record_text(&key)?;
            add(&mut archive, &name, &stored, artefact, kind).map_err(reading(path))?;
        }
        archive.finish().map_err(|error| reading(path)(error.into()))?;
        persist_bundle(temp, path).map_err(reading(path))
    }
}

fn add(
    archive: &mut ZipWriter<&mut File>,
    name: &str,
    record: &[u8],
    mut artefact: Artefact,
    kind: CacheKind,
) -> io::Result<()> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(zip::DateTime::default())
        .unix_permissions(0o644);
    let file = artefact.aot_path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
    archive.start_file(name, options)?;
    archive.write_all(record)?;
    archive.start_file(entry_name(kind, &format!("{file}{COMPRESSED}")), options)?;
    zstd::stream::copy_encode(&mut artefact.aot, archive, COMPRESSION_LEVEL)
}
