//! `thermocline top`: a running server at a glance, from its admin door: hit ratio, memory, tiers, generations, faults,
//! pressure. One frame with `--once`, else a screen redrawn every interval until q is pressed.
//!
//! Owns: asking, waiting for keys, and saying what is wrong when nobody answers. What a frame shows is in `frame`, the
//! terminal in `screen`.

mod frame;
mod screen;

use crate::admin_client;
use crate::config::Listen;
use frame::{Frame, Sample};
use screen::{Key, Screen};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How the command was called.
pub struct Options<'a> {
    pub at: &'a Listen,
    /// One frame, then the end.
    pub once: bool,
    /// Between two looks.
    pub interval: Duration,
}

/// Runs until q, or prints one frame. An error says what is wrong and what to do.
pub fn run(options: &Options<'_>) -> Result<(), String> {
    let first = sample(options.at)?;
    if options.once {
        print!("{}", Frame::default().draw(options.at, &first));
        return Ok(());
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err("top needs a terminal: --once prints one frame".into());
    }
    let screen = Screen::enter().map_err(|error| format!("the terminal: {error}"))?;
    let watched = watch(options, &screen, first);
    drop(screen);
    watched
}

fn watch(options: &Options<'_>, screen: &Screen, first: Sample) -> Result<(), String> {
    let mut frame = Frame::default();
    let mut text = frame.draw(options.at, &first);
    let mut answered = Instant::now();
    loop {
        screen.show(&text).map_err(|error| error.to_string())?;
        match screen.wait(options.interval) {
            Ok(Key::Quit) => return Ok(()),
            Ok(Key::Other) => continue,
            Ok(Key::None) => {}
            Err(error) => return Err(format!("the terminal: {error}")),
        }
        match sample(options.at) {
            Ok(now) => {
                text = frame.draw(options.at, &now);
                answered = Instant::now();
            }
            // It may come back: what was seen last stays on the screen, and how old it is.
            Err(error) => {
                let age_s = answered.elapsed().as_secs();
                text = frame.without_answer(&text, &error, age_s);
            }
        }
    }
}

fn sample(at: &Listen) -> Result<Sample, String> {
    let pages = [
        admin_client::json(at, "/stats")?,
        admin_client::json(at, "/pressure")?,
        admin_client::json(at, "/tiers")?,
    ];
    Sample::of(&pages[0], &pages[1], &pages[2])
        .ok_or_else(|| format!("{at}: a figure is missing; is it another version?"))
}
