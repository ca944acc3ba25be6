//! Being a process among others: whom we run as, the pid file, the service manager.

use nix::unistd::{setgid, setgroups, setuid, Uid, User};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Becomes `name` if we are root; anybody else stays who they are, as with memcached.
pub fn become_user(name: &str) -> io::Result<()> {
    if !Uid::effective().is_root() {
        return Ok(());
    }
    let user = User::from_name(name)?.ok_or_else(|| {
        let text = format!("user {name} does not exist: create it or choose another with --user");
        io::Error::new(io::ErrorKind::NotFound, text)
    })?;
    if user.uid == Uid::effective() {
        return Ok(());
    }
    setgroups(&[user.gid])?;
    setgid(user.gid)?;
    setuid(user.uid)?;
    Ok(())
}

/// Removed when dropped.
pub struct PidFile(PathBuf);

impl PidFile {
    pub fn write(path: &Path) -> io::Result<PidFile> {
        fs::write(path, format!("{}\n", std::process::id())).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("pid file {}: {error}", path.display()),
            )
        })?;
        Ok(PidFile(path.to_path_buf()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // The server that took over has written its own.
        let ours = fs::read_to_string(&self.0);
        if ours.is_ok_and(|text| text.trim() != std::process::id().to_string()) {
            return;
        }
        // Somebody else may have removed it already.
        let _gone = fs::remove_file(&self.0);
    }
}

/// Tells the service manager, if there is one.
pub fn notify(state: sd_notify::NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "the service manager could not be told");
    }
}
