//! Every knob's name, the kernel file behind it and the values it takes. Pure tables and parsing; nothing is read from the
//! machine here. An unknown name is refused with the nearest one known.

use super::expect::Expect;
use crate::units::parse_bytes;
use serde_json::Value;

/// What a knob's file takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Word,
    /// Written as `Y` or `N`.
    YesNo,
    /// Written as `1` or `0`.
    OneZero,
    /// `true`, `false` or the mask itself.
    Mask,
    Number,
}

const ZSWAP: &str = "/sys/module/zswap/parameters";
const THP: &str = "/sys/kernel/mm/transparent_hugepage";
const LRU_GEN: &str = "/sys/kernel/mm/lru_gen";
const HUGETLB: &str = "/sys/kernel/mm/hugepages";

/// Knobs that are one file: name, file, form. In this order they are turned.
const FILES: &[(&str, &str, &str, Form)] = &[
    ("swappiness", "/proc/sys/vm", "swappiness", Form::Number),
    ("thp.enabled", THP, "enabled", Form::Word),
    ("thp.defrag", THP, "defrag", Form::Word),
    ("thp.shmem_enabled", THP, "shmem_enabled", Form::Word),
    ("thp.use_zero_page", THP, "use_zero_page", Form::OneZero),
    (
        "thp.shrink_underused",
        THP,
        "shrink_underused",
        Form::OneZero,
    ),
    ("khugepaged.defrag", THP, "khugepaged/defrag", Form::OneZero),
    (
        "khugepaged.pages_to_scan",
        THP,
        "khugepaged/pages_to_scan",
        Form::Number,
    ),
    (
        "khugepaged.scan_sleep_millisecs",
        THP,
        "khugepaged/scan_sleep_millisecs",
        Form::Number,
    ),
    (
        "khugepaged.alloc_sleep_millisecs",
        THP,
        "khugepaged/alloc_sleep_millisecs",
        Form::Number,
    ),
    (
        "khugepaged.max_ptes_none",
        THP,
        "khugepaged/max_ptes_none",
        Form::Number,
    ),
    (
        "khugepaged.max_ptes_swap",
        THP,
        "khugepaged/max_ptes_swap",
        Form::Number,
    ),
    (
        "khugepaged.max_ptes_shared",
        THP,
        "khugepaged/max_ptes_shared",
        Form::Number,
    ),
    ("lru_gen.enabled", LRU_GEN, "enabled", Form::Mask),
    ("lru_gen.min_ttl_ms", LRU_GEN, "min_ttl_ms", Form::Number),
    ("zswap.compressor", ZSWAP, "compressor", Form::Word),
    (
        "zswap.max_pool_percent",
        ZSWAP,
        "max_pool_percent",
        Form::Number,
    ),
    (
        "zswap.accept_threshold_percent",
        ZSWAP,
        "accept_threshold_percent",
        Form::Number,
    ),
    (
        "zswap.shrinker_enabled",
        ZSWAP,
        "shrinker_enabled",
        Form::YesNo,
    ),
    ("zswap.enabled", ZSWAP, "enabled", Form::YesNo),
    (
        "hugetlb.2MiB",
        HUGETLB,
        "hugepages-2048kB/nr_hugepages",
        Form::Number,
    ),
    (
        "hugetlb.1GiB",
        HUGETLB,
        "hugepages-1048576kB/nr_hugepages",
        Form::Number,
    ),
];

/// Knobs that are more than a file.
const OTHERS: &[&str] = &[
    "swap_existing",
    "swap_file",
    "swap_directory",
    "swap_priority",
    "zram",
    "zram_algorithm",
    "tmpfs.size",
    "tmpfs.huge",
    "drop_caches",
    "cgroup.version",
    "cgroup.memory_max",
    "cgroup.memory_high",
    "cgroup.swap_max",
    "cgroup.cpu_percent",
    "cgroup.charge_pools",
];

/// Per-size THP files: `thp.64kB.enabled`, `thp.2048kB.shmem_enabled`.
fn sized_huge_page(name: &str) -> Option<String> {
    let rest = name.strip_prefix("thp.")?;
    let (size, file) = rest.split_once('.')?;
    let digits = size.strip_suffix("kB")?;
    let known = matches!(file, "enabled" | "shmem_enabled");
    let is_size = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (known && is_size).then(|| format!("{THP}/hugepages-{size}/{file}"))
}

/// A sysctl of memory management: `vm.page-cluster`.
fn sysctl(name: &str) -> Option<String> {
    let file = name.strip_prefix("vm.")?;
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    let is_name = !file.is_empty() && file.bytes().all(plain);
    // These act when written and hold no value to put back.
    let acts = matches!(file, "drop_caches" | "compact_memory" | "stat_refresh");
    (is_name && !acts).then(|| format!("/proc/sys/vm/{file}"))
}

/// One file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileKnob {
    pub name: String,
    pub path: String,
    pub text: String,
    pub expect: Expect,
}

/// The file knob of this name with this value; `None` when it is not a file knob.
pub fn file_knob(name: &str, value: &Value) -> Option<Result<FileKnob, String>> {
    let found = FILES.iter().find(|(known, ..)| *known == name);
    let (path, form) = match found {
        Some((_, directory, file, form)) => (format!("{directory}/{file}"), Some(*form)),
        None => (sized_huge_page(name).or_else(|| sysctl(name))?, None),
    };
    let form = form.unwrap_or(if name.starts_with("thp.") {
        Form::Word
    } else {
        Form::Number
    });
    let is_sysctl = name.starts_with("vm.");
    let parsed = match is_sysctl {
        // A sysctl may hold several numbers.
        true => plain(value).map(|text| (text.clone(), Expect::Text(text))),
        false => written(form, value),
    };
    Some(
        parsed
            .map_err(|why| format!("machine.{name}: {why}"))
            .map(|(text, expect)| FileKnob {
                name: name.to_string(),
                path,
                text,
                expect,
            }),
    )
}

/// Where a file knob comes in the order of turning; the free names come first.
pub fn order(name: &str) -> usize {
    FILES
        .iter()
        .position(|(known, ..)| *known == name)
        .map_or(0, |at| at + 1)
}

/// Whether the name is a knob that is more than a file.
pub fn is_compound(name: &str) -> bool {
    OTHERS.contains(&name)
}

/// "unknown", and the nearest name known.
pub fn unknown(name: &str) -> String {
    let files = FILES.iter().map(|(known, ..)| *known);
    let known: Vec<&str> = files.chain(OTHERS.iter().copied()).collect();
    format!(
        "machine.{name}: {} (any file of /proc/sys/vm is `vm.NAME`)",
        crate::settings::unknown(name, &known)
    )
}

fn written(form: Form, value: &Value) -> Result<(String, Expect), String> {
    match form {
        Form::Word => {
            let word = plain(value)?;
            Ok((word.clone(), Expect::Word(word)))
        }
        Form::YesNo => {
            let on = truth(value)?;
            Ok((if on { "Y" } else { "N" }.into(), Expect::Flag(on)))
        }
        Form::OneZero => {
            let on = truth(value)?;
            Ok((u8::from(on).to_string(), Expect::Flag(on)))
        }
        Form::Mask => match number(value) {
            Ok(mask) => Ok((mask.to_string(), Expect::Number(mask))),
            Err(_) => {
                let on = truth(value)?;
                Ok((if on { "y" } else { "n" }.into(), Expect::Flag(on)))
            }
        },
        Form::Number => {
            let number = number(value)?;
            Ok((number.to_string(), Expect::Number(number)))
        }
    }
}

/// A word or number without blanks around it or line ends inside.
pub fn plain(value: &Value) -> Result<String, String> {
    let text = match value {
        Value::String(text) => text.trim().to_string(),
        Value::Number(number) => number.to_string(),
        Value::Bool(on) => on.to_string(),
        other => return Err(format!("`{other}` is not a word or number")),
    };
    match text.is_empty() || text.contains(['\n', '\0', ',']) {
        true => Err(format!("`{text}` is not a word or number")),
        false => Ok(text),
    }
}

pub fn number(value: &Value) -> Result<u64, String> {
    let text = plain(value)?;
    text.parse()
        .map_err(|_| format!("`{text}` is not a whole number"))
}

pub fn truth(value: &Value) -> Result<bool, String> {
    match plain(value)?.as_str() {
        "true" | "on" | "yes" | "1" | "Y" | "y" => Ok(true),
        "false" | "off" | "no" | "0" | "N" | "n" => Ok(false),
        other => Err(format!("`{other}` is neither true nor false")),
    }
}

/// Bytes, or `None` for `max` and `none`.
pub fn bytes(value: &Value) -> Result<Option<u64>, String> {
    match plain(value)?.as_str() {
        "max" | "none" | "off" => Ok(None),
        text => parse_bytes(text).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_lead_to_files() {
        let knob = |name: &str, value: Value| file_knob(name, &value).unwrap().unwrap();
        assert_eq!(
            knob("swappiness", json!(100)).path,
            "/proc/sys/vm/swappiness"
        );
        assert_eq!(knob("zswap.enabled", json!(true)).text, "Y");
        assert_eq!(knob("lru_gen.enabled", json!(5)).text, "5");
        assert_eq!(knob("lru_gen.enabled", json!(false)).text, "n");
        assert_eq!(
            knob("thp.64kB.enabled", json!("madvise")).path,
            format!("{THP}/hugepages-64kB/enabled")
        );
        assert_eq!(
            knob("vm.page-cluster", json!(0)).path,
            "/proc/sys/vm/page-cluster"
        );
    }

    #[test]
    fn names_that_would_leave_their_directory_are_no_knobs() {
        for name in [
            "vm.../kernel/panic",
            "vm.",
            "thp.kB.enabled",
            "thp.64kB.stats",
            "vm.drop_caches",
        ] {
            assert!(file_knob(name, &json!(1)).is_none(), "{name}");
        }
    }

    #[test]
    fn a_mistyped_name_suggests_the_nearest() {
        assert!(unknown("swapiness").contains("`swappiness`"));
        assert!(unknown("zswap.enable").contains("`zswap.enabled`"));
        assert!(unknown("cgroup.memory_mx").contains("`cgroup.memory_max`"));
    }

    #[test]
    fn values_of_the_wrong_kind_name_the_knob() {
        let error = file_knob("swappiness", &json!("much"))
            .unwrap()
            .unwrap_err();
        assert_eq!(error, "machine.swappiness: `much` is not a whole number");
        assert!(file_knob("zswap.enabled", &json!("maybe"))
            .unwrap()
            .is_err());
        assert!(file_knob("thp.enabled", &json!(["always"]))
            .unwrap()
            .is_err());
        assert!(file_knob("thp.enabled", &json!("a\nb")).unwrap().is_err());
    }
}
