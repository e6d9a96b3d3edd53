//! Blocks of memory to read into again, once nobody holds what was read with them before.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::entry::Block;
use crate::offset::TopicPartition;

/// Blocks that were read into lately. A reader that gives its batches back in time needs no new memory: one block is being
/// read, one is with the user, and one holds what did not fit into the last batch.
#[derive(Default)]
pub(crate) struct Spares {
    blocks: Mutex<Vec<Arc<Block>>>,
}

const KEPT: usize = 4;

impl Spares {
    /// A block to read into. (A new one is empty, and grows to what is needed: memory that is asked for with zeros in it takes
    /// longer to get where it is little.)
    pub(crate) fn take(&self, at: &TopicPartition) -> Arc<Block> {
        let mut blocks = self.blocks.lock();
        let free = (0..blocks.len()).find(|&i| Arc::get_mut(&mut blocks[i]).is_some());
        let block = free.map(|i| blocks.swap_remove(i));
        drop(blocks);
        if let Some(mut block) = block
            && Arc::get_mut(&mut block).is_some_and(|block| block.reuse(at))
        {
            return block;
        }
        Arc::new(Block::owned(at.clone(), Vec::new()))
    }

    /// Keeps a block for later, in place of the oldest.
    pub(crate) fn keep(&self, block: &Arc<Block>) {
        let mut blocks = self.blocks.lock();
        let old = (blocks.len() == KEPT).then(|| blocks.swap_remove(0));
        blocks.push(Arc::clone(block));
        drop(blocks);
        drop(old); // its memory is given back outside the lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(mut block: Arc<Block>, len: usize) -> Arc<Block> {
        let bytes = Arc::get_mut(&mut block).and_then(Block::owned_mut);
        bytes.unwrap().resize(len, 0);
        block
    }

    #[test]
    fn a_block_that_is_held_is_not_read_into_again() {
        let spares = Spares::default();
        let (orders, sales) = (
            TopicPartition::new("orders", 0),
            TopicPartition::new("sales", 1),
        );
        let first = grown(spares.take(&orders), 10);
        spares.keep(&first);
        let second = grown(spares.take(&orders), 20);
        spares.keep(&second);
        let place = second.bytes().as_ptr();
        drop(second);
        let third = grown(spares.take(&sales), 5);
        assert_eq!(third.bytes().as_ptr(), place);
        assert_eq!((third.bytes().len(), third.at()), (5, &sales));
        assert_eq!(first.at(), &orders);
    }

    #[test]
    fn only_a_few_are_kept() {
        let spares = Spares::default();
        for _ in 0..10 {
            let block = spares.take(&TopicPartition::new("orders", 0));
            spares.keep(&block);
            let held = Arc::clone(&block);
            std::mem::forget(held); // somebody keeps all of them
        }
        assert_eq!(spares.blocks.lock().len(), KEPT);
    }
}
