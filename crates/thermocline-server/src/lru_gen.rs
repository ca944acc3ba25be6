//! `thermocline lru-gen`: a running server's generations, and the commands that age and evict them.

use crate::admin_client;
use crate::config::Listen;

/// Carries out `commands`, if there are any, and returns the text that shows the generations.
pub fn run(at: &Listen, commands: &str) -> Result<String, String> {
    let (status, body) = match commands.trim() {
        "" => admin_client::get(at, "/lru_gen")?,
        commands => admin_client::post(at, "/lru_gen", commands)?,
    };
    match status {
        200 => Ok(body),
        status => Err(format!("{at}/lru_gen answered {status}: {}", body.trim())),
    }
}
