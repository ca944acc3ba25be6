//! Expiry times as memcached clients send them.

use thermocline::Expiry;

/// Up to 30 days a number counts from now; beyond, it is a date.
const RELATIVE_MAX_S: i64 = 60 * 60 * 24 * 30;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expire {
    Never,
    /// Unix milliseconds.
    At(u64),
    /// Already over.
    Past,
}

impl Expire {
    /// 64-bit and saturating: a far date is far, any negative number is over. Times are whole seconds, as memcached's
    /// clock is: such an expiry takes 4 bytes less in an item, and a touch can change it in place.
    pub fn of(seconds: i64, now_ms: u64) -> Expire {
        match seconds {
            0 => Expire::Never,
            i64::MIN..=-1 => Expire::Past,
            1..=RELATIVE_MAX_S => {
                let now_s = now_ms / 1000;
                Expire::At(now_s.saturating_add(seconds as u64).saturating_mul(1000))
            }
            date => match (date as u64).saturating_mul(1000) {
                at if at <= now_ms => Expire::Past,
                at => Expire::At(at),
            },
        }
    }

    /// For the engine: what is over is stored with a time that has passed.
    pub fn engine(self) -> Expiry {
        match self {
            Expire::Never => Expiry::Never,
            Expire::At(unix_ms) => Expiry::AtMs(unix_ms),
            Expire::Past => Expiry::AtMs(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_absolute_and_past() {
        let now_ms = 1_700_000_000_000;
        assert_eq!(Expire::of(0, now_ms), Expire::Never);
        assert_eq!(Expire::of(-1, now_ms), Expire::Past);
        assert_eq!(Expire::of(i64::MIN + 1, now_ms), Expire::Past);
        assert_eq!(Expire::of(30, now_ms), Expire::At(now_ms + 30_000));
        assert_eq!(
            Expire::of(2_592_000, now_ms),
            Expire::At(now_ms + 2_592_000_000)
        );
        assert_eq!(Expire::of(30, now_ms + 999), Expire::At(now_ms + 30_000));
        assert_eq!(Expire::of(2_592_001, now_ms), Expire::Past);
        assert_eq!(
            Expire::of(1_700_000_010, now_ms),
            Expire::At(now_ms + 10_000)
        );
        assert_eq!(
            Expire::of(2_147_483_648, now_ms),
            Expire::At(2_147_483_648_000)
        );
        assert_eq!(Expire::of(i64::MAX, now_ms), Expire::At(u64::MAX));
    }
}
