//! Which member reads which partition.

/// A member, as an assignor sees it.
pub(super) struct Member<'a> {
    /// Its topics, sorted.
    pub(super) topics: &'a [String],
}

/// A topic that there is.
#[derive(Clone, Copy)]
pub(super) struct TopicSize<'a> {
    pub(super) name: &'a str,
    pub(super) partitions: u32,
}

/// Topic by topic, each of its members gets a contiguous range of the partitions; the first ones get one more where they do not
/// divide evenly. Members in the order given; per member, indices of `topics` and partitions.
pub(super) fn range(members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<(usize, u32)>> {
    let mut assigned = vec![Vec::new(); members.len()];
    for (at, topic) in topics.iter().enumerate() {
        let wants = |member: &Member<'_>| {
            let found = member
                .topics
                .binary_search_by(|of| of.as_str().cmp(topic.name));
            found.is_ok()
        };
        let subscribed: Vec<usize> = (0..members.len())
            .filter(|&member| wants(&members[member]))
            .collect();
        let Some(count) = u32::try_from(subscribed.len()).ok().filter(|&n| n > 0) else {
            continue;
        };
        let (each, more) = (topic.partitions / count, topic.partitions % count);
        let mut next = 0;
        for (member, rank) in subscribed.into_iter().zip(0..) {
            let end = next + each + u32::from(rank < more);
            assigned[member].extend((next..end).map(|partition| (at, partition)));
            next = end;
        }
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Members as `name: topics`, topics as `name: partitions`; the result as `member[topic-partitions ..]`.
    fn assign(members: &[(&str, &[&str])], topics: &[(&str, u32)]) -> String {
        let subscribed: Vec<Vec<String>> = members
            .iter()
            .map(|(_, of)| of.iter().map(|&name| name.to_owned()).collect())
            .collect();
        let as_members: Vec<Member<'_>> =
            subscribed.iter().map(|topics| Member { topics }).collect();
        let sizes: Vec<TopicSize<'_>> = topics
            .iter()
            .map(|&(name, partitions)| TopicSize { name, partitions })
            .collect();
        let shown = range(&as_members, &sizes).into_iter().zip(members);
        let shown = shown.map(|(assigned, (name, _))| {
            let of_topic = |at: usize| {
                let numbers = assigned.iter().filter(|(of, _)| *of == at);
                let numbers: Vec<String> = numbers.map(|(_, n)| n.to_string()).collect();
                (!numbers.is_empty()).then(|| format!("{}-{}", topics[at].0, numbers.join(",")))
            };
            let by_topic: Vec<String> = (0..topics.len()).filter_map(of_topic).collect();
            format!("{name}[{}]", by_topic.join(" "))
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_worked_assignments_of_range() {
        let both: &[&str] = &["t0", "t1"];
        let cases = [
            (
                1,
                assign(&[("C0", &["t0"]), ("C1", &["t0"])], &[("t0", 3)]),
                "C0[t0-0,1] C1[t0-2]",
            ),
            (
                2,
                assign(&[("C0", both), ("C1", both)], &[("t0", 3), ("t1", 3)]),
                "C0[t0-0,1 t1-0,1] C1[t0-2 t1-2]",
            ),
            (
                3,
                assign(
                    &[("c1", &["t1"]), ("c2", &["t1", "t2"]), ("c3", &["t1"])],
                    &[("t1", 3), ("t2", 2)],
                ),
                "c1[t1-0] c2[t1-1 t2-0,1] c3[t1-2]",
            ),
            (
                4,
                assign(
                    &[("A", &["t0"]), ("B", &["t0"]), ("C", &["t0"])],
                    &[("t0", 2)],
                ),
                "A[t0-0] B[t0-1] C[]",
            ),
            (
                5,
                assign(
                    &[("C0", &["t0"]), ("C1", both), ("C2", &["t0", "t1", "t2"])],
                    &[("t0", 1), ("t1", 2), ("t2", 3)],
                ),
                "C0[t0-0] C1[t1-0] C2[t1-1 t2-0,1,2]",
            ),
            (
                20,
                assign(
                    &[("a", &["t1"]), ("b", &["t1"]), ("c", &["t1"])],
                    &[("t1", 10)],
                ),
                "a[t1-0,1,2,3] b[t1-4,5,6] c[t1-7,8,9]",
            ),
            (
                23,
                assign(
                    &[
                        ("c0", &["t1", "t2", "t3"]),
                        ("c1", &["t1", "t2", "t3"]),
                        ("c2", &["t1", "t3"]),
                    ],
                    &[("t1", 6), ("t2", 7), ("t3", 2)],
                ),
                "c0[t1-0,1 t2-0,1,2,3 t3-0] c1[t1-2,3 t2-4,5,6 t3-1] c2[t1-4,5]",
            ),
        ];
        for (case, found, expected) in cases {
            assert_eq!(found, expected, "case {case}");
        }
    }
}
