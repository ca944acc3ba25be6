//! Which pages are asked for, what the machine can give, and what comes of the two.
//!
//! Owns the names of the modes and the verdict (`choose`), which is pure: it takes the machine's facts and
//! says what to use, or in one line why not and what to do. Reading the facts is here too (`Machine::read`,
//! from any root, so that tests can build a machine out of files). Mapping is `backing`'s.

use std::fs;
use std::path::Path;

/// How the pages behind the cache are asked for. What was got is in `Cache::pages`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum PageMode {
    /// The best the machine gives: `Hugetlb2M` where the pool holds the whole budget, else `Thp`, else
    /// `Collapse`, else `Base`. Never refused.
    #[default]
    Auto,
    /// Base pages (4 KiB), also where the system would give huge ones.
    Base,
    /// Transparent huge pages when first touched, by `madvise`.
    Thp,
    /// Base pages when first touched, made into huge ones in the background (`MADV_COLLAPSE`, Linux 6.1),
    /// also where the system's setting for transparent huge pages is `never`.
    Collapse,
    /// Pages of 2 MiB out of the pool the administrator reserved.
    Hugetlb2M,
    /// Pages of 1 GiB out of the pool. Seven eighths of the budget are taken at the start, as whole pages,
    /// and never given back: `set_memory` cannot shrink such a cache.
    Hugetlb1G,
    /// Shared memory: a file in `Config::memory_dir` (tmpfs or hugetlbfs), or a nameless one.
    Shmem,
}

/// The modes with the names they bear in settings, in the order of `--help`.
pub const PAGE_MODES: [(&str, PageMode); 7] = [
    ("auto", PageMode::Auto),
    ("base", PageMode::Base),
    ("thp", PageMode::Thp),
    ("collapse", PageMode::Collapse),
    ("hugetlb-2m", PageMode::Hugetlb2M),
    ("hugetlb-1g", PageMode::Hugetlb1G),
    ("shmem", PageMode::Shmem),
];

impl PageMode {
    /// The name it bears in settings.
    pub fn name(self) -> &'static str {
        let found = PAGE_MODES.iter().find(|(_, mode)| *mode == self);
        found.map_or("unknown", |(name, _)| name)
    }
}

/// A pool of hugetlb pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HugePool {
    pub(crate) total: u64,
    /// Free and promised to nobody.
    pub(crate) available: u64,
}

/// What the machine can give.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Machine {
    /// The word in brackets of transparent_hugepage/enabled; None: no such file.
    pub(crate) thp: Option<String>,
    pub(crate) pool_2m: HugePool,
    pub(crate) pool_1g: HugePool,
    /// The kernel knows `MADV_COLLAPSE` (6.1), and `MADV_POPULATE_WRITE` (5.14).
    pub(crate) collapses: bool,
    pub(crate) populates: bool,
}

const MIB_2: u64 = 2 << 20;
const GIB: u64 = 1 << 30;
/// Of a budget, what 1 GiB pages may take: the rest is the index's and the ghosts', in smaller pages.
pub(crate) const GIGANTIC_SHARE: (u64, u64) = (7, 8);

impl Machine {
    /// Reads a dozen small files and asks the kernel twice; about 0.2 ms.
    pub(crate) fn read(root: &Path) -> Machine {
        let pools = root.join("sys/kernel/mm/hugepages");
        Machine {
            thp: chosen(&root.join("sys/kernel/mm/transparent_hugepage/enabled")),
            pool_2m: pool(&pools.join("hugepages-2048kB")),
            pool_1g: pool(&pools.join("hugepages-1048576kB")),
            collapses: super::os::knows_advice(libc::MADV_COLLAPSE),
            populates: super::os::knows_advice(libc::MADV_POPULATE_WRITE),
        }
    }

    /// The same machine if it had no pools.
    pub(crate) fn without_pools(self) -> Machine {
        Machine {
            pool_2m: HugePool::default(),
            pool_1g: HugePool::default(),
            ..self
        }
    }

    fn has_thp(&self) -> bool {
        matches!(self.thp.as_deref(), Some("always" | "madvise"))
    }

    fn thp_word(&self) -> &str {
        self.thp.as_deref().unwrap_or("missing from this kernel")
    }
}

/// `always [madvise] never` -> `madvise`.
fn chosen(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let word = |word: &str| Some(word.strip_prefix('[')?.strip_suffix(']')?.to_string());
    text.split_whitespace().find_map(word)
}

fn pool(path: &Path) -> HugePool {
    let number = |name: &str| -> u64 {
        let text = fs::read_to_string(path.join(name)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    HugePool {
        total: number("nr_hugepages"),
        available: number("free_hugepages").saturating_sub(number("resv_hugepages")),
    }
}

/// What to use, and in one line why it is not what was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chosen {
    pub(crate) mode: PageMode,
    pub(crate) note: Option<String>,
}

/// What to use for a cache of `bytes`. Err: an explicit wish that cannot be had, with what to do about it.
pub(crate) fn choose(asked: PageMode, machine: &Machine, bytes: u64) -> Result<Chosen, String> {
    let granted = |mode| Ok(Chosen { mode, note: None });
    match asked {
        PageMode::Auto => Ok(best(machine, bytes)),
        PageMode::Thp if !machine.has_thp() => Err(format!(
            "page_mode = thp: the system's setting is {}: `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`, \
             or page_mode = collapse (needs no setting), or auto",
            machine.thp_word()
        )),
        PageMode::Collapse if !machine.collapses => Err(
            "page_mode = collapse: this kernel has no MADV_COLLAPSE (Linux 6.1): page_mode = thp or auto".into(),
        ),
        PageMode::Hugetlb2M | PageMode::Hugetlb1G if !machine.populates => Err(format!(
            "page_mode = {}: this kernel cannot say that its pool is empty before it is too late \
             (MADV_POPULATE_WRITE, Linux 5.14): page_mode = thp or auto",
            asked.name()
        )),
        PageMode::Hugetlb2M => {
            pool_holds(asked, machine.pool_2m, bytes.div_ceil(MIB_2), "vm.nr_hugepages=")?;
            granted(asked)
        }
        PageMode::Hugetlb1G => {
            let pages = gigantic_pages(bytes);
            if pages == 0 {
                return Err("page_mode = hugetlb-1g: 7/8 of memory is less than one page: memory = 1200MiB at least, \
                            or page_mode = hugetlb-2m"
                    .into());
            }
            let knob = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages <- ";
            pool_holds(asked, machine.pool_1g, pages, knob)?;
            granted(asked)
        }
        _ => granted(asked),
    }
}

/// Pages of 1 GiB that items get in a cache of so many bytes.
pub(crate) fn gigantic_pages(bytes: u64) -> u64 {
    bytes / GIGANTIC_SHARE.1 * GIGANTIC_SHARE.0 / GIB
}

fn pool_holds(asked: PageMode, pool: HugePool, needed: u64, knob: &str) -> Result<(), String> {
    if pool.available >= needed {
        return Ok(());
    }
    let size = if asked == PageMode::Hugetlb1G {
        "1 GiB"
    } else {
        "2 MiB"
    };
    Err(format!(
        "page_mode = {}: the pool has {} of {} pages of {size} to give, {needed} are needed: {knob}{}, \
         or less memory, or page_mode = auto",
        asked.name(),
        pool.available,
        pool.total,
        pool.total - pool.available + needed
    ))
}

fn best(machine: &Machine, bytes: u64) -> Chosen {
    let needed = bytes.div_ceil(MIB_2);
    if machine.populates && machine.pool_2m.available >= needed {
        return Chosen {
            mode: PageMode::Hugetlb2M,
            note: None,
        };
    }
    let pool = match machine.pool_2m.total {
        0 => "no hugetlb pool".to_string(),
        _ => format!(
            "a hugetlb pool of {} free pages, {needed} needed",
            machine.pool_2m.available
        ),
    };
    let thp = machine.thp_word();
    let (mode, note) = match (machine.has_thp(), machine.collapses) {
        (true, _) => {
            return Chosen {
                mode: PageMode::Thp,
                note: None,
            }
        }
        (false, true) => (
            PageMode::Collapse,
            format!("{pool}, and transparent huge pages are {thp}"),
        ),
        (false, false) => (
            PageMode::Base,
            format!(
                "{pool}, transparent huge pages are {thp}, and this kernel has no MADV_COLLAPSE"
            ),
        ),
    };
    Chosen {
        mode,
        note: Some(note),
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn machine(thp: &str) -> Machine {
        Machine {
            thp: Some(thp.into()),
            collapses: true,
            populates: true,
            ..Machine::default()
        }
    }

    fn with_pool(total: u64, available: u64) -> Machine {
        Machine {
            pool_2m: HugePool { total, available },
            ..machine("never")
        }
    }

    #[test]
    fn auto_takes_the_best_and_says_what_was_missing() {
        let auto = |machine: &Machine| choose(PageMode::Auto, machine, 8 << 20).unwrap();
        assert_eq!(auto(&with_pool(4, 4)).mode, PageMode::Hugetlb2M);
        assert_eq!(auto(&machine("madvise")).mode, PageMode::Thp);
        let collapse = auto(&with_pool(4, 3));
        assert_eq!(collapse.mode, PageMode::Collapse);
        assert!(collapse.note.unwrap().contains("3 free pages, 4 needed"));
        let old = Machine {
            collapses: false,
            ..machine("never")
        };
        assert_eq!(auto(&old).mode, PageMode::Base);
        let bare = Machine::default();
        assert!(auto(&bare)
            .note
            .unwrap()
            .contains("missing from this kernel"));
    }

    #[test]
    fn explicit_wishes_are_refused_with_what_to_do() {
        let refusal =
            |asked, machine: &Machine| choose(asked, machine, 3 << 30).expect_err("refused");
        let text = refusal(PageMode::Thp, &machine("never"));
        assert!(
            text.contains("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
            "{text}"
        );
        // 100 are others' already: the pool must hold theirs and ours.
        let text = refusal(PageMode::Hugetlb2M, &with_pool(110, 10));
        assert!(
            text.contains("10 of 110 pages of 2 MiB") && text.contains("vm.nr_hugepages=1636"),
            "{text}"
        );
        let text = refusal(PageMode::Hugetlb1G, &machine("never"));
        assert!(
            text.contains("2 are needed") && text.contains("<- 2,"),
            "{text}"
        );
        let old = Machine {
            collapses: false,
            populates: false,
            ..machine("always")
        };
        assert!(refusal(PageMode::Collapse, &old).contains("Linux 6.1"));
        assert!(refusal(PageMode::Hugetlb2M, &old).contains("Linux 5.14"));
        assert!(choose(PageMode::Hugetlb1G, &machine("never"), 1 << 30)
            .unwrap_err()
            .contains("at least"));
    }

    #[test]
    fn a_machine_is_read_from_its_files() {
        let root = std::env::temp_dir().join(format!("thermocline-machine-{}", std::process::id()));
        for (path, text) in [
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never\n",
            ),
            (
                "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
                "10\n",
            ),
            (
                "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
                "8\n",
            ),
            (
                "sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages",
                "3\n",
            ),
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let machine = Machine::read(&root);
        assert_eq!(machine.thp.as_deref(), Some("madvise"));
        assert_eq!(
            machine.pool_2m,
            HugePool {
                total: 10,
                available: 5
            }
        );
        assert_eq!(machine.pool_1g, HugePool::default());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn names_and_modes_agree() {
        for (name, mode) in PAGE_MODES {
            assert_eq!(mode.name(), name);
        }
    }
}
