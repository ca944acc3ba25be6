//! Writing `points.jsonl`: one line appended and synced at a time. What is in the file is whole lines, always:
//! a write that fails (a full disk) is taken back.

use crate::point::{Line, Results, RunLine, POINTS_FILE};
use anyhow::{bail, Context, Result};
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// An open points file.
pub struct PointsFile {
    file: File,
    path: PathBuf,
    /// Bytes of whole lines.
    whole_bytes: u64,
}

impl PointsFile {
    /// Begins a run in `dir`, which must hold none yet.
    pub fn create(dir: &Path, run: &RunLine) -> Result<PointsFile> {
        std::fs::create_dir_all(dir)
            .with_context(|| format!("cannot make the directory {}", dir.display()))?;
        let path = dir.join(POINTS_FILE);
        let file = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(&path)
            .with_context(|| {
                format!(
                    "cannot begin {}; if a run is there already: thermolab resume {}",
                    path.display(),
                    dir.display()
                )
            })?;
        let mut points = PointsFile {
            file,
            path,
            whole_bytes: 0,
        };
        points.append(&Line::Run(run.clone()))?;
        // The file's name must be on disk, too.
        if let Ok(dir) = File::open(dir) {
            let _ = dir.sync_all();
        }
        Ok(points)
    }

    /// Opens a run to go on with it; what is torn at its end is cut off.
    pub fn open(dir: &Path) -> Result<(PointsFile, Results)> {
        let path = dir.join(POINTS_FILE);
        let results = Results::read(&path)?;
        let mut file = OpenOptions::new()
            .append(true)
            .open(&path)
            .with_context(|| format!("cannot write to {}", path.display()))?;
        if results.torn_bytes > 0 {
            file.set_len(results.whole_bytes)
                .with_context(|| format!("cannot cut the torn line off {}", path.display()))?;
            file.seek(SeekFrom::End(0))?;
        }
        let points = PointsFile {
            file,
            path,
            whole_bytes: results.whole_bytes,
        };
        Ok((points, results))
    }

    /// Appends a line and waits until it is on disk.
    pub fn append(&mut self, line: &Line) -> Result<()> {
        let mut text =
            serde_json::to_string(line).context("a line of results cannot be written")?;
        text.push('\n');
        let written = self
            .file
            .write_all(text.as_bytes())
            .and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // Taken back so that the file stays readable; if that fails too, reading drops the torn line.
            let _ = self.file.set_len(self.whole_bytes);
            let dir = self.path.parent().unwrap_or(Path::new("."));
            bail!(
                "{}: {error}. The points before this one are safe; make room, then: thermolab resume {}",
                self.path.display(),
                dir.display()
            );
        }
        self.whole_bytes += text.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::{PointLine, SCHEMA};

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("thermolab-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        dir
    }

    fn run() -> RunLine {
        RunLine {
            schema: SCHEMA,
            experiment: "x".into(),
            ..RunLine::default()
        }
    }

    fn point(index: usize) -> Line {
        Line::Point(PointLine {
            index,
            ..PointLine::default()
        })
    }

    #[test]
    fn a_torn_end_is_cut_off_and_the_next_line_goes_there() {
        let dir = scratch("torn");
        let mut file = PointsFile::create(&dir, &run()).unwrap();
        file.append(&point(0)).unwrap();
        drop(file);
        let path = dir.join(POINTS_FILE);
        let mut raw = OpenOptions::new().append(true).open(&path).unwrap();
        raw.write_all(b"{\"kind\":\"point\",\"ind").unwrap();
        let (mut file, results) = PointsFile::open(&dir).unwrap();
        assert!(results.torn_note().unwrap().contains("20 bytes"));
        file.append(&point(1)).unwrap();
        let results = Results::read(&dir).unwrap();
        assert_eq!((results.points.len(), results.torn_bytes), (2, 0));
        assert!(
            PointsFile::create(&dir, &run()).is_err(),
            "never over another run"
        );
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_full_disk_says_what_to_do() {
        let dir = scratch("full");
        let mut file = PointsFile::create(&dir, &run()).unwrap();
        file.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let error = file.append(&point(0)).unwrap_err().to_string();
        assert!(
            error.contains("No space left") && error.contains("thermolab resume"),
            "{error}"
        );
        assert_eq!(Results::read(&dir).unwrap().points.len(), 0);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
