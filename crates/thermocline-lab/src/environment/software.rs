//! Group 6: the programs: ours and the measured one: bytes, version, how built, environment, command line, libraries.

use super::fields::Fields;
use super::{sha256, About};
use crate::root::Root;
use serde_json::{json, Value};
use std::io::Read;

/// Environment variables that change how a program runs: their values are kept, of the others nothing.
const TELLING: &[&str] = &[
    "MALLOC_",
    "GLIBC_TUNABLES",
    "LD_",
    "RUST_",
    "RUSTFLAGS",
    "OMP_",
    "JAVA",
    "JDK_",
    "MAKEFLAGS",
    "THERMO",
    "LANG",
    "LC_ALL",
];
/// What a shell changes from one call to the next, as a pipe or a `cd` does.
const SHELLS_OWN: &[&str] = &["_=", "SHLVL=", "PWD=", "OLDPWD="];
/// Largest program hashed, bytes; a bigger one has its reason in the record.
const PROGRAM_BYTES_MAX: u64 = 1 << 30;

pub fn fields(root: &Root, about: &About) -> Fields {
    let mut fields = Fields::default();
    let own = std::process::id();
    fields.value("lab.version", json!(env!("CARGO_PKG_VERSION")));
    fields.read("lab.sha256", program_hash(root, own));
    fields.value("lab.build", json!(build()));
    fields.read("c_library", library(root, own, "libc"));
    fields.read("server.sha256", program_hash(root, about.server_pid));
    fields.read("server.c_library", library(root, about.server_pid, "libc"));
    let allocator = ["jemalloc", "mimalloc", "tcmalloc"]
        .iter()
        .find_map(|name| library(root, about.server_pid, name).ok());
    fields.value(
        "server.allocator_library",
        json!(allocator.unwrap_or("the C library's, or one linked in".into())),
    );
    fields.read("server.command_line", command_line(root, about.server_pid));
    fields.read("server.environment", environment(root, about.server_pid));
    for (name, value) in about
        .facts
        .iter()
        .filter(|(name, _)| !name.starts_with("workload."))
    {
        fields.value(&format!("said.{name}"), value.clone());
    }
    for (name, value) in about
        .settings
        .iter()
        .filter(|(name, _)| name.starts_with("subject"))
    {
        fields.value(name, value.clone());
    }
    fields
}

fn build() -> String {
    let profile = match cfg!(debug_assertions) {
        true => "with debug assertions",
        false => "release",
    };
    let features: &[(&str, bool)] = &[
        ("sse4.2", cfg!(target_feature = "sse4.2")),
        ("avx2", cfg!(target_feature = "avx2")),
        ("neon", cfg!(target_feature = "neon")),
    ];
    let on: Vec<&str> = features
        .iter()
        .filter(|(_, on)| *on)
        .map(|(name, _)| *name)
        .collect();
    format!("{profile}, target features [{}]", on.join(" "))
}

/// Read in pieces: programs are large, and this is done before each point.
fn program_hash(root: &Root, pid: u32) -> Result<String, String> {
    use sha2::{Digest, Sha256};
    let unread = |error: std::io::Error| crate::root::reason(&error).to_string();
    let path = root.path(&format!("/proc/{pid}/exe"));
    let mut file = std::fs::File::open(path).map_err(unread)?;
    if file.metadata().map_err(unread)?.len() > PROGRAM_BYTES_MAX {
        return Err(format!("larger than {PROGRAM_BYTES_MAX} bytes"));
    }
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece).map_err(unread)? {
            0 => return Ok(super::hex(&hash.finalize())),
            bytes => hash.update(&piece[..bytes]),
        }
    }
}

/// The file name of a mapped library that begins with `name`.
fn library(root: &Root, pid: u32, name: &str) -> Result<String, String> {
    let text = root.read(&format!("/proc/{pid}/maps"))?;
    text.lines()
        .filter_map(|line| line.rsplit('/').next())
        .find(|file| {
            let stem = file.strip_prefix("lib").unwrap_or(file);
            file.starts_with(&format!("{name}."))
                || file.starts_with(&format!("{name}-"))
                || stem.starts_with(&format!("{name}."))
        })
        .map(str::to_string)
        .ok_or_else(|| format!("no {name} is mapped: linked statically"))
}

/// The words after the program's own path: where it lies is the site's business.
fn command_line(root: &Root, pid: u32) -> Result<Value, String> {
    let bytes = root.read_bytes(&format!("/proc/{pid}/cmdline"))?;
    let words: Vec<String> = bytes
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .enumerate()
        .map(|(at, word)| match (at, word.rsplit_once('/')) {
            (0, Some((_, name))) => name.to_string(),
            _ => word,
        })
        .collect();
    Ok(json!(words))
}

fn environment(root: &Root, pid: u32) -> Result<Value, String> {
    let bytes = root.read_bytes(&format!("/proc/{pid}/environ"))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut variables: Vec<&str> = text
        .split('\0')
        .filter(|variable| !variable.is_empty())
        .filter(|variable| !SHELLS_OWN.iter().any(|name| variable.starts_with(name)))
        .collect();
    variables.sort_unstable();
    let told: Vec<&str> = variables
        .iter()
        .filter(|variable| TELLING.iter().any(|name| variable.starts_with(name)))
        .copied()
        .collect();
    let hash = sha256(variables.join("\0").as_bytes());
    Ok(json!({"telling": told, "count": variables.len(), "sha256": hash}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_shell_started_the_program_is_no_other_environment() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/7")).unwrap();
        let read = |variables: &str| {
            std::fs::write(folder.path().join("proc/7/environ"), variables).unwrap();
            environment(&Root::at(folder.path()), 7).unwrap()
        };
        let plain = read("A=1\0LANG=C\0_=./T\0SHLVL=1\0PWD=/a\0");
        assert_eq!(plain["telling"], json!(["LANG=C"]));
        assert_eq!(plain["count"], 2);
        assert_eq!(read("LANG=C\0A=1\0SHLVL=2\0OLDPWD=/b\0"), plain);
        assert_ne!(read("LANG=C\0A=2\0")["sha256"], plain["sha256"]);
    }
}
