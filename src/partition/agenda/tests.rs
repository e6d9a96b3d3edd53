//! When chores are done, that they are held weakly, and what a panic of one of them means.

use super::*;
use crate::clock::ManualClock;
use crate::clock::Timestamp;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counted {
    runs: AtomicUsize,
    panics: bool,
}

impl Counted {
    fn new(panics: bool) -> Arc<Counted> {
        Arc::new(Counted {
            runs: AtomicUsize::new(0),
            panics,
        })
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

impl Chore for Counted {
    fn run(&self) -> Result<()> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics, "planted");
        Ok(())
    }

    fn whose(&self) -> String {
        "counting".to_owned()
    }
}

fn agenda() -> (Arc<ManualClock>, Agenda) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)));
    let agenda = Agenda::new(Arc::clone(&clock) as Arc<dyn Clock>);
    (clock, agenda)
}

fn weak(chore: &Arc<Counted>) -> Weak<dyn Chore> {
    let chore: Arc<dyn Chore> = Arc::clone(chore) as Arc<dyn Chore>;
    Arc::downgrade(&chore)
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_chore_is_done_once_when_the_earliest_time_that_was_asked_for_has_come() {
    let (clock, agenda) = agenda();
    let chore = Counted::new(false);
    agenda.ask(&weak(&chore), 3 * SECOND);
    agenda.ask(&weak(&chore), SECOND);
    agenda.ask(&weak(&chore), 2 * SECOND);
    agenda.run_due().unwrap();
    assert_eq!(chore.runs(), 0);
    assert_eq!(agenda.until_due(), Some(SECOND));
    clock.advance(SECOND);
    agenda.run_due().unwrap();
    clock.advance(9 * SECOND);
    agenda.run_due().unwrap();
    assert_eq!(chore.runs(), 1);
    assert_eq!(agenda.until_due(), None);
}

#[test]
fn an_agenda_keeps_nothing_alive_and_nothing_after_it_was_closed() {
    let (clock, agenda) = agenda();
    let (gone, stays) = (Counted::new(false), Counted::new(false));
    agenda.ask(&weak(&gone), SECOND);
    assert_eq!(Arc::strong_count(&gone), 1);
    drop(gone);
    clock.advance(SECOND);
    agenda.run_due().unwrap();
    agenda.ask(&weak(&stays), SECOND);
    agenda.close();
    agenda.ask(&weak(&stays), SECOND);
    assert_eq!(agenda.until_due(), None);
    assert!(!agenda.ask_thread(&weak(&stays)));
}

#[test]
fn f76_a_panic_is_told_once_the_others_go_on_and_it_is_tried_again_later() {
    let (clock, agenda) = agenda();
    let (bad, good) = (Counted::new(true), Counted::new(false));
    agenda.ask(&weak(&bad), Duration::ZERO);
    agenda.ask(&weak(&good), Duration::ZERO);
    agenda.run_due().unwrap();
    assert_eq!((bad.runs(), good.runs()), (1, 1));
    let told = agenda.healthy().unwrap_err();
    assert_eq!(
        told.to_string(),
        "counting panicked in the background: planted"
    );
    agenda.healthy().unwrap();
    agenda.run_due().unwrap();
    assert_eq!(bad.runs(), 1, "not at once");
    clock.advance(PAUSE_AFTER_PANIC);
    agenda.run_due().unwrap();
    assert_eq!(bad.runs(), 2);
}
