//! `kind = "file"`: rows in a file behind the kernel's page cache, described.

use super::embedded::{Embedded, Manner};
use super::recipe::{Recipe, StartContext};
use super::Subject;
use crate::engines::engine::Reading;
use crate::engines::file_store::{FileStore, FileStoreSize};
use crate::settings::Settings;
use anyhow::{bail, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A disk, on most machines, where /tmp may be memory.
const DIRECTORY: &str = "/var/tmp";

pub struct FileRecipe {
    directory: PathBuf,
    heap_bytes: u64,
    time_every: usize,
}

impl FileRecipe {
    pub fn read(settings: &mut Settings) -> Result<Self> {
        let directory = settings.text("directory")?;
        let directory = PathBuf::from(directory.unwrap_or_else(|| DIRECTORY.into()));
        if !directory.is_absolute() {
            bail!(
                "`{}`: `{}` is not an absolute path",
                settings.name("directory"),
                directory.display()
            );
        }
        Ok(FileRecipe {
            directory,
            heap_bytes: settings.bytes("heap")?.unwrap_or(0),
            time_every: settings.count("time_every")?.unwrap_or(1).clamp(1, 1 << 20) as usize,
        })
    }
}

impl Recipe for FileRecipe {
    fn start(&self, context: &StartContext) -> Result<Box<dyn Subject>> {
        let store = FileStore::new(&FileStoreSize {
            directory: self.directory.clone(),
            rows: context.items,
            row_bytes_max: context.value_bytes_max,
            heap_bytes: self.heap_bytes,
        })?;
        let manner = Manner {
            reading: Reading::Copy,
            fill: false,
            check: context.is_stamped,
            time_every: self.time_every,
            value_bytes_max: context.value_bytes_max,
            seed: context.seed,
        };
        let facts = BTreeMap::from([("engine".to_string(), Value::from("file"))]);
        Ok(Box::new(Embedded::new(store, manner, None, facts)))
    }
}
