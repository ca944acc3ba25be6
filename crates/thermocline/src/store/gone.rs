//! What is no longer to be seen: flushed, dropped with its group, expired, idle.

use super::Store;
use crate::groups::Groups;
use crate::item::Fields;
use crate::location::Place;
use crate::sync::Ordering;

impl Store {
    /// Whether a flush that was carried out, or a drop of its group, has made the item invisible.
    #[inline(always)]
    pub(crate) fn is_flushed(&self, place: Place) -> bool {
        let any = self.flush.any.load(Ordering::Acquire);
        any != 0 && self.segments.of(place).birth() <= any && self.is_dark(place)
    }

    #[inline(never)]
    fn is_dark(&self, place: Place) -> bool {
        let birth = self.segments.of(place).birth();
        birth <= self.flush.birth.load(Ordering::Acquire)
            || self.groups.as_ref().is_some_and(|groups| {
                let group = self.group_at(groups, place);
                group.is_some_and(|id| groups.is_dark(id, birth))
            })
    }

    /// Marks have been raised or forgotten. Under the reclaim lock.
    pub(crate) fn refresh_marks(&self) {
        let groups = self.groups.as_ref().map_or(0, Groups::youngest_mark);
        let any = self.flush.birth.load(Ordering::Acquire).max(groups);
        self.flush.any.store(any, Ordering::Release);
    }

    /// Whether an item is no longer to be seen: expired, idle or flushed.
    #[inline(always)]
    pub(crate) fn is_gone(&self, place: Place, fields: &Fields) -> bool {
        if self.is_flushed(place) {
            return true;
        }
        let timed = fields.expires_ms != 0 || self.idle_s != 0;
        if !timed && self.flush.due_ms.load(Ordering::Relaxed) == u64::MAX {
            return false;
        }
        self.is_over(fields)
    }

    #[inline(never)]
    fn is_over(&self, fields: &Fields) -> bool {
        let now_ms = self.time.now_ms();
        if fields.expires_ms != 0 && fields.expires_ms <= now_ms {
            return true;
        }
        // Due and not yet carried out by the background thread.
        if now_ms >= self.flush.due_ms.load(Ordering::Relaxed) {
            return true;
        }
        match fields.marks {
            Some(marks) if self.idle_s != 0 => {
                let idle = marks.idle_s((now_ms / 1000) as u32);
                idle > self.idle_s
            }
            _ => false,
        }
    }
}
