//! What a server was doing when its test failed: else a hang that comes once in ten thousand runs leaves nothing.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A file for what a server says.
pub struct Log(PathBuf);

impl Default for Log {
    fn default() -> Log {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let name = format!("server-{}-{call}.log", std::process::id());
        Log(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
    }
}

impl Log {
    pub fn file(&self) -> Stdio {
        let file = std::fs::File::create(&self.0);
        file.map_or_else(|_| Stdio::null(), Stdio::from)
    }

    /// What it has said so far.
    pub fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap_or_default()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _gone_already = std::fs::remove_file(&self.0);
    }
}

/// Prints what it said, each thread's state and, where gdb is installed, where it is.
pub fn print(child: &mut Child, log: &Log) {
    println!("{}", log.text());
    match child.try_wait() {
        Ok(None) => {}
        ended => return println!("the server has ended: {ended:?}"),
    }
    let tasks = format!("/proc/{}/task", child.id());
    for task in std::fs::read_dir(tasks).into_iter().flatten().flatten() {
        print_thread(&task.path());
    }
    let pid = child.id().to_string();
    let stacks = Command::new("gdb")
        .args(["-p", &pid, "-batch", "-ex", "thread apply all bt 40"])
        .output();
    match stacks {
        Ok(output) => println!("{}", String::from_utf8_lossy(&output.stdout)),
        Err(error) => println!("no stacks: gdb: {error}"),
    }
}

fn print_thread(task: &Path) {
    let read = |name: &str| std::fs::read_to_string(task.join(name)).unwrap_or_default();
    let stat = read("stat");
    // After the name in parentheses: state is the first field, CPU ticks are the 12th and 13th.
    let fields: Vec<&str> = match stat.rsplit_once(')') {
        Some((_, after)) => after.split_whitespace().collect(),
        None => Vec::new(),
    };
    let field = |at: usize| fields.get(at).copied().unwrap_or("?");
    println!(
        "thread {} state {} user {} system {} ticks, in {} syscall {}",
        read("comm").trim(),
        field(0),
        field(11),
        field(12),
        read("wchan").trim(),
        read("syscall").trim(),
    );
}
