//! A clock that tests can move: `debugtime` of memcached's test suite.
//!
//! It follows the machine's clock, and adds what it was told to add, unless it is paused.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thermocline::Clock;

/// How finely the test clock ticks.
const TICK: Duration = Duration::from_millis(5);

#[derive(Clone)]
pub struct TestClock {
    clock: Clock,
    paused: Arc<AtomicBool>,
    stopped: Arc<AtomicBool>,
}

impl TestClock {
    /// Starts at the present, with a thread of its own that moves it.
    pub fn start() -> std::io::Result<TestClock> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64);
        let clock = TestClock {
            clock: Clock::manual(now),
            paused: Arc::default(),
            stopped: Arc::default(),
        };
        let ticking = clock.clone();
        std::thread::Builder::new()
            .name("test-clock".into())
            .spawn(move || ticking.tick())?;
        Ok(clock)
    }

    fn tick(&self) {
        let mut last = Instant::now();
        while !self.stopped.load(Relaxed) {
            std::thread::sleep(TICK);
            let passed = last.elapsed();
            last += Duration::from_millis(passed.as_millis() as u64);
            if !self.paused.load(Relaxed) {
                self.clock.advance_ms(passed.as_millis() as u64);
            }
        }
    }

    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    pub fn advance_s(&self, seconds: u64) {
        self.clock.advance_ms(seconds.saturating_mul(1000));
    }

    pub fn pause(&self) {
        self.paused.store(true, Relaxed);
    }

    pub fn resume(&self) {
        self.paused.store(false, Relaxed);
    }

    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }
}
