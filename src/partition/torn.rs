//! Step 8: what the first byte that is not a valid batch means.
//!
//! A torn tail is an interrupted write and is cut. Damage is not: cutting there would lose acknowledged records. In the same
//! boot the cache was whole, so that a tail can only be short; after a power loss the valid batches behind the place tell, by
//! what they knew to be durable.

use super::classify::Last;
use super::settings::OnSuspectTail;
use crate::error::Result;
use crate::format::batch::NO_WATERMARK;
use crate::segment::scan::{self, Scan, ScanStop};

/// What a place that is not a valid batch means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    Whole,
    Torn,
    Suspect,
    Damaged,
}

impl Last<'_> {
    /// Step 8.
    pub(super) fn tail(&self, scan: &Scan, remade: bool) -> Result<Tail> {
        if remade {
            return Ok(Tail::Damaged); // a later file exists, so this one was sealed and synced: it has lost its footer
        }
        if scan.end == self.len {
            return Ok(Tail::Whole);
        }
        if planted!(CUT_AT_DAMAGE) {
            return Ok(Tail::Torn);
        }
        let tail = if self.same_boot {
            self.tail_in_same_boot(scan)?
        } else {
            self.tail_after_power_loss(scan)?
        };
        // What a sync of this process failed to write may be gone, from the middle of what was written since.
        let failed_here = self.synced_here.is_some_and(|end| scan.next >= end);
        let tail = match tail {
            Tail::Damaged if failed_here => Tail::Suspect,
            tail => tail,
        };
        match (tail, self.home.on_suspect_tail) {
            (Tail::Suspect, OnSuspectTail::Damaged) => Ok(Tail::Damaged),
            (tail, _) => Ok(tail),
        }
    }

    fn tail_in_same_boot(&self, scan: &Scan) -> Result<Tail> {
        // A length may be what is damaged, and then the batch only looks cut short: what lies behind it tells.
        let behind = scan::next_batch(&*self.file, &self.header, scan.end + 1, self.len)
            .map_err(|e| self.io(e))?;
        Ok(match scan.stop {
            _ if behind.is_some() => Tail::Damaged,
            ScanStop::CutShort => Tail::Torn,
            _ => Tail::Suspect,
        })
    }

    fn tail_after_power_loss(&self, scan: &Scan) -> Result<Tail> {
        let mut from = scan.end + 1;
        let mut valid_behind = false;
        while let Some((position, batch)) =
            scan::next_batch(&*self.file, &self.header, from, self.len).map_err(|e| self.io(e))?
        {
            let first = self.header.base + u64::from(batch.base_delta);
            let watermark = match batch.watermark_back {
                NO_WATERMARK => 0,
                back => first.saturating_sub(u64::from(back)),
            };
            if watermark > scan.next {
                return Ok(Tail::Damaged); // what stood here was durable before this batch was built
            }
            valid_behind = true;
            from = position + batch.total_len();
        }
        Ok(if valid_behind && !self.header.below_power {
            Tail::Suspect
        } else {
            Tail::Torn
        })
    }
}
