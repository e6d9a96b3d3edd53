//! What a group has committed in one partition, and which of it a crash may leave.

use thalweg::testing::CrashModel;

use super::End;

impl Commit {
    fn begun(&self, point: usize) -> bool {
        self.began.is_none_or(|began| began < point)
    }
}

/// The commits of one group in one partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commits {
    list: Vec<Commit>,
}

#[derive(Clone, Copy, Debug)]
struct Commit {
    next: u64,
    began: Option<usize>,
    acked: usize,
    safe: Option<usize>,
}

impl Commits {
    /// `next` is committed, since some operation between these. Nothing new if it was before.
    pub(crate) fn add(&mut self, next: u64, began: usize, acked: usize) {
        if self.list.last().is_some_and(|last| last.next == next) {
            return;
        }
        self.list.push(Commit {
            next,
            began: Some(began),
            acked,
            safe: None,
        });
    }

    pub(crate) fn synced(&mut self, point: usize) {
        for commit in &mut self.list {
            commit.safe.get_or_insert(point);
        }
    }

    /// Commits are written at the level of the process: a power loss may take the newest.
    pub(crate) fn check(&self, found: Option<u64>, end: End) -> Result<(), String> {
        let begun = self.list.iter().filter(|c| c.begun(end.point)).count();
        let must = |commit: &Commit| match end.model {
            CrashModel::ProcessKill => commit.acked <= end.point,
            CrashModel::LyingDevice => false,
            _ => commit.safe.is_some_and(|safe| safe <= end.point),
        };
        let floor = self.list.iter().rposition(must);
        // A commit of what was committed already writes nothing, and is there as soon as it began.
        let possible = floor.unwrap_or(0)..begun.max(floor.map_or(0, |floor| floor + 1));
        let among = self.list[possible].iter().map(|commit| commit.next);
        let none = floor.is_none() && found.is_none();
        if none || found.is_some_and(|found| among.clone().any(|next| next == found)) {
            return Ok(());
        }
        let allowed: Vec<u64> = among.collect();
        Err(format!(
            "committed is {found:?}, which is none of {allowed:?}"
        ))
    }

    /// As [`Tally::unseen`].
    pub(crate) fn unseen(&mut self, end: End) {
        self.list.retain(|commit| commit.begun(end.point));
        for commit in &mut self.list {
            if commit.acked > end.point {
                commit.acked = usize::MAX;
            }
            commit.safe = commit.safe.filter(|at| *at <= end.point);
        }
    }

    /// What a power loss left is on the medium; what a kill left is as it was.
    pub(crate) fn survive(&mut self, found: Option<u64>, end: End, opened: usize) {
        if end.model == CrashModel::ProcessKill {
            self.list.retain(|commit| commit.begun(end.point));
            // One that was under way is there or not.
            let there = |commit: &Commit| Some(commit.next) == found;
            let count = self.list.iter().rposition(there).map_or(0, |last| last + 1);
            self.list.truncate(count);
            for commit in &mut self.list {
                commit.acked = commit.acked.min(opened);
                commit.safe = commit.safe.filter(|at| *at <= end.point);
            }
            return;
        }
        self.list.clear();
        if let Some(next) = found {
            self.list.push(Commit {
                next,
                began: None,
                acked: 0,
                safe: Some(0),
            });
        }
    }
}
