//! Group 1: which kernel, built and started how, and every setting of its memory management.

use super::fields::Fields;
use super::{hex, sha256};
use crate::root::Root;
use serde_json::{json, Value};
use std::io::Read;

const THP: &str = "/sys/kernel/mm/transparent_hugepage";
/// Files of /proc/sys/vm that act or count rather than hold a setting.
const NOT_SETTINGS: &[&str] = &["drop_caches", "compact_memory", "stat_refresh", "numa_stat"];
/// Largest kernel configuration taken, bytes: they are a few hundred KiB.
const CONFIG_BYTES_MAX: u64 = 4 << 20;

pub fn fields(root: &Root) -> Fields {
    let mut fields = Fields::default();
    fields.file("release", root, "/proc/sys/kernel/osrelease");
    fields.file("version", root, "/proc/sys/kernel/version");
    fields.value("architecture", json!(std::env::consts::ARCH));
    fields.read("build_id", build_id(root));
    fields.read("command_line", command_line(root));
    config(&mut fields, root);
    fields.read("modules", modules(root));
    fields.file("tainted", root, "/proc/sys/kernel/tainted");
    fields.directory("vm", root, "/proc/sys/vm", |name| {
        !NOT_SETTINGS.contains(&name)
    });
    huge_pages(&mut fields, root);
    fields.file("lru_gen.enabled", root, "/sys/kernel/mm/lru_gen/enabled");
    fields.file(
        "lru_gen.min_ttl_ms",
        root,
        "/sys/kernel/mm/lru_gen/min_ttl_ms",
    );
    fields.directory("zswap", root, "/sys/module/zswap/parameters", |_| true);
    fields.read("swaps", swaps(root));
    zram(&mut fields, root);
    fields
}

/// The kernel's part: what stands behind `--`, and which program is started, is for that program.
fn command_line(root: &Root) -> Result<String, String> {
    let text = root.read("/proc/cmdline")?;
    let kernel = text.split(" -- ").next().unwrap_or("");
    let words: Vec<&str> = kernel
        .split_whitespace()
        .filter(|word| !word.starts_with("init=") && !word.starts_with("rdinit="))
        .collect();
    Ok(words.join(" "))
}

/// The GNU build id among the kernel's ELF notes.
fn build_id(root: &Root) -> Result<String, String> {
    const GNU_BUILD_ID: u32 = 3;
    let notes = root.read_bytes("/sys/kernel/notes")?;
    let mut rest = notes.as_slice();
    let word = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    while let (Some(name), Some(body), Some(kind)) = (word(rest, 0), word(rest, 4), word(rest, 8)) {
        let start = 12 + name.next_multiple_of(4) as usize;
        let end = start + body as usize;
        if kind == GNU_BUILD_ID && rest.get(12..16) == Some(b"GNU\0") {
            let id = rest.get(start..end).ok_or("a torn note")?;
            return Ok(hex(id));
        }
        rest = rest
            .get(start + body.next_multiple_of(4) as usize..)
            .unwrap_or(&[]);
    }
    Err("no build id among the kernel's notes".into())
}

/// The whole configuration: its hash, and what is set in it.
fn config(fields: &mut Fields, root: &Root) {
    let text = config_text(root);
    fields.read(
        "config_sha256",
        text.as_ref()
            .map(|text| sha256(text.as_bytes()))
            .map_err(Clone::clone),
    );
    let set = text.map(|text| {
        let set = text.lines().filter(|line| line.starts_with("CONFIG_"));
        set.map(|line| line.trim_start_matches("CONFIG_"))
            .collect::<Vec<_>>()
            .join("\n")
    });
    fields.read("config", set);
}

fn config_text(root: &Root) -> Result<String, String> {
    if let Ok(packed) = root.read_bytes("/proc/config.gz") {
        let mut text = String::new();
        return flate2::read::GzDecoder::new(packed.as_slice())
            .take(CONFIG_BYTES_MAX)
            .read_to_string(&mut text)
            .map(|_| text)
            .map_err(|error| format!("/proc/config.gz: {error}"));
    }
    let release = root.read("/proc/sys/kernel/osrelease")?;
    root.read(&format!("/boot/config-{release}"))
        .map_err(|_| "neither /proc/config.gz nor /boot/config-RELEASE is there".into())
}

fn modules(root: &Root) -> Result<Value, String> {
    match root.read("/proc/modules") {
        Ok(text) => {
            let mut names: Vec<&str> = text
                .lines()
                .filter_map(|line| line.split_whitespace().next())
                .collect();
            names.sort_unstable();
            Ok(json!(names))
        }
        // A kernel without loadable modules has no such file; one with them always does.
        Err(_) if root.exists("/proc/sys/vm") => Ok(json!("this kernel loads no modules")),
        Err(why) => Err(why),
    }
}

fn huge_pages(fields: &mut Fields, root: &Root) {
    fields.directory("thp", root, THP, |_| true);
    let counters = ["pages_collapsed", "full_scans"];
    fields.directory("khugepaged", root, &format!("{THP}/khugepaged"), |name| {
        !counters.contains(&name)
    });
    for size in root.list(THP) {
        if let Some(short) = size.strip_prefix("hugepages-") {
            fields.directory(
                &format!("thp.{short}"),
                root,
                &format!("{THP}/{size}"),
                |_| true,
            );
        }
    }
}

/// File, type, size and priority of each swap; not how full it is.
fn swaps(root: &Root) -> Result<Value, String> {
    let text = root.read("/proc/swaps")?;
    let rows: Vec<Value> = text
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words.len() == 5)
        .map(|words| json!({"type": words[1], "kib": words[2], "priority": words[4]}))
        .collect();
    Ok(json!(rows))
}

fn zram(fields: &mut Fields, root: &Root) {
    let devices: Vec<String> = root
        .list("/sys/block")
        .into_iter()
        .filter(|name| name.starts_with("zram"))
        .collect();
    if devices.is_empty() {
        fields.value("zram", json!("no device"));
    }
    for device in devices {
        for file in ["disksize", "comp_algorithm"] {
            fields.file(
                &format!("{device}.{file}"),
                root,
                &format!("/sys/block/{device}/{file}"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_init_is_told_is_not_the_kernels() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("proc")).unwrap();
        let line = "root=/dev/vda init=/sbin/mine mitigations=off -- --secret\n";
        fs::write(directory.path().join("proc/cmdline"), line).unwrap();
        let root = Root::imitated(directory.path());
        assert_eq!(
            command_line(&root).unwrap(),
            "root=/dev/vda mitigations=off"
        );
    }

    #[test]
    fn build_ids_are_found_among_notes_and_torn_ones_are_said_to_be() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("sys/kernel")).unwrap();
        let mut notes = Vec::new();
        let mut note = |name: &[u8], body: &[u8], kind: u32| {
            notes.extend_from_slice(&(name.len() as u32).to_le_bytes());
            notes.extend_from_slice(&(body.len() as u32).to_le_bytes());
            notes.extend_from_slice(&kind.to_le_bytes());
            for part in [name, body] {
                notes.extend_from_slice(part);
                notes.resize(notes.len().next_multiple_of(4), 0);
            }
        };
        note(b"Linux\0", b"abc", 0);
        note(b"GNU\0", &[0xab, 0xcd, 0xef], 3);
        let path = directory.path().join("sys/kernel/notes");
        let root = Root::imitated(directory.path());
        fs::write(&path, &notes).unwrap();
        assert_eq!(build_id(&root).unwrap(), "abcdef");
        for cut in 0..notes.len() {
            fs::write(&path, &notes[..cut]).unwrap();
            let _ = build_id(&root);
        }
    }
}
