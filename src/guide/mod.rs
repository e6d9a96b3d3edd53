//! The book: what there is to know beyond single items, a page for each question.
//!
//! | Page | Answers |
//! | --- | --- |
//! | [`concepts`] | What are logs, topics, offsets, groups? How do members share work, and where do repeats come from? |
//! | [`groups`] | Who reads which partition, and what happens when members come and go? How is that tested? What differs from Kafka? |
//! | [`keeping`] | What is kept of a topic, how does the rest go, and who does it? |
//! | [`durability`] | What survives what? What does an error say about my record? What about damage, copies, file systems? |
//! | [`testing`] | How do I test my own code against crashes, full disks and time? |
//! | [`mod@format`] | What are all these files? |
//! | [`changes`] | What is new, and what does the format promise? |
//!
//! There is no code here: the examples are tests that run. Single calls are described where they are, beginning at the table
//! on the [front page](crate#i-want-to).

pub mod changes;
pub mod concepts;
pub mod durability;
pub mod format;
pub mod groups;
pub mod keeping;
pub mod testing;
