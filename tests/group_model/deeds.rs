//! What one member does, compared with the model: commits, seeks, pauses, topics, and being shut out.

use thalweg::{Error, Offset, Positions, TopicPartition};

use crate::Event;
use crate::world::{Member, World, names};

impl World {
    /// Those of a member: it does them, or is told why not.
    pub(crate) fn steer(&mut self, event: Event) {
        let (Event::Subscribe { slot, .. }
        | Event::CommitAt { slot, .. }
        | Event::SeekBack { slot, .. }
        | Event::SeekToEnd { slot, .. }
        | Event::Pause { slot, .. }
        | Event::Unsubscribe(slot)
        | Event::Commit(slot)
        | Event::CommitDurably(slot)
        | Event::SeekToCommitted(slot)
        | Event::Resume(slot)
        | Event::Rebalance(slot)
        | Event::Remove(slot)
        | Event::Fence(slot)) = event
        else {
            return;
        };
        let Some(mut member) = self.slots.remove(&slot) else {
            return;
        };
        let out = self.is_out(&member);
        match event {
            Event::Commit(_) | Event::CommitDurably(_) | Event::CommitAt { .. } => {
                self.commit(&mut member, out, event);
            }
            Event::Remove(_) => {
                let removed = self
                    .group()
                    .remove_member(member.consumer.membership().member());
                if !member.named || (member.is_in && !out) {
                    // (The place of a static one may be kept, and be given up so.)
                    assert_eq!(removed.is_ok(), member.is_in && !out, "{removed:?}");
                }
                self.book.lock().unwrap().reader(member.number).fenced |= member.is_in;
            }
            Event::Fence(_) if member.is_in => {
                self.test.fence(&member.consumer);
                self.book.lock().unwrap().reader(member.number).fenced = true;
            }
            Event::Unsubscribe(_) => {
                self.book.lock().unwrap().reader(member.number).fenced |= out;
                member.consumer.unsubscribe().unwrap();
                let mut book = self.book.lock().unwrap();
                assert!(
                    book.reader(member.number).owned.is_empty(),
                    "it was not told"
                );
                book.reader(member.number).fenced = false;
                (member.is_in, member.topics) = (false, 0);
            }
            Event::Subscribe { topics, .. } => {
                member.consumer.subscribe(names(topics)).unwrap();
                member.topics = topics;
                if !member.is_in {
                    (member.is_in, member.silent) = (true, 0);
                }
            }
            Event::Rebalance(_) => member.consumer.rebalance().unwrap(),
            other => self.seek(&mut member, other),
        }
        self.slots.insert(slot, member);
    }

    fn commit(&mut self, member: &mut Member, out: bool, event: Event) {
        let number = member.number;
        let mut one = None;
        let committed = match event {
            Event::CommitAt { which, behind, .. } => {
                let book = &mut self.book.lock().unwrap();
                let owned = &book.reader(number).owned;
                let Some((at, place)) = owned.iter().nth(which as usize) else {
                    return;
                };
                let next = place.next.saturating_sub(behind);
                one = Some((at.clone(), next));
                let mut positions = Positions::new();
                positions.set(at.at(Offset::new(next)));
                member.consumer.commit_at(&positions)
            }
            Event::CommitDurably(_) => member.consumer.commit_durable(),
            _ => member.consumer.commit(),
        };
        if out || !member.is_in {
            assert!(
                matches!(committed, Err(Error::Fenced { .. })),
                "{committed:?}"
            );
            self.book.lock().unwrap().reader(number).fenced |= out;
            return;
        }
        committed.unwrap();
        let mut book = self.book.lock().unwrap();
        match one {
            Some((at, next)) => {
                book.commit(&at, next);
                let place = book.reader(number).owned.get_mut(&at).unwrap();
                place.moved = place.next != next;
            }
            None => book.commit_moved(number, |_| true),
        }
    }

    fn seek(&mut self, member: &mut Member, event: Event) {
        let mut book = self.book.lock().unwrap();
        let number = member.number;
        let owned: Vec<TopicPartition> = book.reader(number).owned.keys().cloned().collect();
        let committed = book.committed.clone();
        let reader = book.reader(number);
        match event {
            Event::SeekToCommitted(_) => {
                member.consumer.seek_to_committed().unwrap();
                for (at, place) in &mut reader.owned {
                    place.next = committed.get(at).copied().unwrap_or(0);
                    place.moved = false;
                }
            }
            Event::Resume(_) => {
                member.consumer.resume(&owned).unwrap();
                reader
                    .owned
                    .values_mut()
                    .for_each(|place| place.paused = false);
            }
            Event::SeekBack { which, .. }
            | Event::SeekToEnd { which, .. }
            | Event::Pause { which, .. } => {
                let Some(at) = owned.get(which as usize) else {
                    return;
                };
                let Some(place) = reader.owned.get_mut(at) else {
                    return;
                };
                match event {
                    Event::SeekBack { by, .. } => {
                        place.next = place.next.saturating_sub(by);
                        member
                            .consumer
                            .seek(&at.at(Offset::new(place.next)))
                            .unwrap();
                        place.moved = true;
                    }
                    Event::SeekToEnd { .. } => {
                        member
                            .consumer
                            .seek_to_end(std::slice::from_ref(at))
                            .unwrap();
                        place.next = member.consumer.position(at).unwrap().get();
                        place.moved = true;
                    }
                    _ => {
                        member.consumer.pause(std::slice::from_ref(at)).unwrap();
                        place.paused = true;
                    }
                }
            }
            _ => {}
        }
    }
}
