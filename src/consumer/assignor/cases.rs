//! The thirty worked assignments of Kafka's users, in the notation in which they are written down.
//!
//! A case is `number. topics; members; rules result; rules result`, and goes on in lines that begin with a space. `t1:3` is a topic
//! of three, and `t1-0,2` are its partitions 0 and 2. A member is `c1(instance){topics}[what it owned]@generation`, where all but the name can be left out: it then has no instance id,
//! reads everything, owned nothing, in generation 1. Rules are `R` [`Range`], `RR` [`RoundRobin`], `S` [`Sticky`], `CS`
//! [`CooperativeSticky`], and `CS1` is what members own after the old owners polled and before the new ones did.

use std::collections::BTreeMap;

use super::*;

const CASES: &str = "
1. t0:3; C0 C1; R C0[t0-0,1] C1[t0-2]; RR S CS C0[t0-0,2] C1[t0-1]
2. t0:3 t1:3; C0 C1; R C0[t0-0,1 t1-0,1] C1[t0-2 t1-2]; RR S CS C0[t0-0,2 t1-1] C1[t0-1 t1-0,2]
3. t1:3 t2:2; c1{t1} c2{t1,t2} c3{t1}; R RR c1[t1-0] c2[t1-1 t2-0,1] c3[t1-2]; S CS c1[t1-0,2] c2[t2-0,1] c3[t1-1]
4. t0:2; A B C; R RR S CS A[t0-0] B[t0-1] C[]
5. t0:1 t1:2 t2:3; C0{t0} C1{t0,t1} C2{t0,t1,t2}; R RR C0[t0-0] C1[t1-0] C2[t1-1 t2-0,1,2];
    S CS C0[t0-0] C1[t1-0,1] C2[t2-0,1,2]
6. t1:2 t2:1 t3:2 t4:1 t5:2; c1 c2{t1,t3,t5} c3{t1,t3,t5} c4;
    R c1[t1-0 t2-0 t3-0 t4-0 t5-0] c2[t1-1 t3-1 t5-1] c3[] c4[];
    RR c1[t1-0 t3-0 t5-0] c2[t1-1 t3-1 t5-1] c3[] c4[t2-0 t4-0];
    S CS c1[t2-0 t3-0] c2[t1-0 t3-1] c3[t1-1 t5-0] c4[t4-0 t5-1]
7. t0:2 t1:2 t2:2 t3:2; C0 C1 C2; R C0[t0-0 t1-0 t2-0 t3-0] C1[t0-1 t1-1 t2-1 t3-1] C2[];
    RR S CS C0[t0-0 t1-1 t3-0] C1[t0-1 t2-0 t3-1] C2[t1-0 t2-1]
8. t0:2 t1:2 t2:2 t3:2; C0[t0-0 t1-1 t3-0] C2[t1-0 t2-1]; S CS C0[t0-0,1 t1-1 t3-0] C2[t1-0 t2-0,1 t3-1];
    R RR C0[t0-0 t1-0 t2-0 t3-0] C2[t0-1 t1-1 t2-1 t3-1]
9. t1:3; c1[t1-0,1,2] c2; S CS c1[t1-0,1] c2[t1-2]; CS1 c1[t1-0,1] c2[]
10. t1:2 t2:3; c1[t1-0 t2-1] c2[t1-1 t2-2]; S CS c1[t1-0 t2-0,1] c2[t1-1 t2-2]
11. t1:2 t2:2; c1[t1-0 t2-0] c2[t1-1 t2-1] c3; S CS c1[t1-0 t2-0] c2[t1-1] c3[t2-1]; CS1 c1[t1-0 t2-0] c2[t1-1] c3[]
12. t1:3 t2:4; c1 c2; S CS c1[t1-0,2 t2-1,3] c2[t1-1 t2-0,2]
13. t1:3 t2:4; c1[t1-0,2 t2-1,3] c2[t1-1 t2-0,2] c3 c4; S CS c1[t1-0 t2-1] c2[t1-1 t2-0] c3[t1-2 t2-3] c4[t2-2];
    CS1 c1[t1-0 t2-1] c2[t1-1 t2-0] c3[] c4[]
14. t1:3 t2:4; c3[t1-2 t2-3] c4[t2-2]; S CS c3[t1-0,2 t2-1,3] c4[t1-1 t2-0,2]
15. t1:3; c1[t1-0,1] c2[t1-0,2] c3; CS1 c1[t1-1] c2[t1-2] c3[]; CS c1[t1-1] c2[t1-2] c3[t1-0]
16. t1:4; c1[t1-0,1] c2[t1-0,2] c3; CS1 c1[t1-1,3] c2[t1-2] c3[]; CS c1[t1-1,3] c2[t1-2] c3[t1-0]
17. t1:3; c1[t1-0,2]@10 c2[t1-1]@10 c3[t1-2]@9; S CS c1[t1-0] c2[t1-1] c3[t1-2]; CS1 c1[t1-0] c2[t1-1] c3[]
18. t1:6; a[t1-0,2] b[t1-1]; S CS CS1 a[t1-0,2,3] b[t1-1,4,5]
19. t1:2 t2:2; A{t2}[t1-0 t2-0] B{t2}[t1-1 t2-1]; R RR S CS A[t2-0] B[t2-1]
20. t1:10; a b c; R a[t1-0,1,2,3] b[t1-4,5,6] c[t1-7,8,9]; RR S CS a[t1-0,3,6,9] b[t1-1,4,7] c[t1-2,5,8]
21. t1:7; a[t1-0,3,6] b[t1-1,4]; S CS a[t1-0,3,5,6] b[t1-1,2,4]
22. t1:6 t2:7 t3:2; c0 c1 c2; R c0[t1-0,1 t2-0,1,2 t3-0] c1[t1-2,3 t2-3,4 t3-1] c2[t1-4,5 t2-5,6];
    RR S CS c0[t1-0,3 t2-0,3,6] c1[t1-1,4 t2-1,4 t3-0] c2[t1-2,5 t2-2,5 t3-1]
23. t1:6 t2:7 t3:2; c0 c1 c2{t1,t3}; R c0[t1-0,1 t2-0,1,2,3 t3-0] c1[t1-2,3 t2-4,5,6 t3-1] c2[t1-4,5];
    RR c0[t1-0,3 t2-0,2,4,6] c1[t1-1,4 t2-1,3,5 t3-0] c2[t1-2,5 t3-1]
24. t0:3 t1:3; consumer-b(instance1) consumer-a(instance2); R consumer-b[t0-0,1 t1-0,1] consumer-a[t0-2 t1-2];
    RR consumer-b[t0-0,2 t1-1] consumer-a[t0-1 t1-0,2]; S CS consumer-a[t0-0,2 t1-1] consumer-b[t0-1 t1-0,2]
25. t1:5 t2:4; c1(c1) c2(c2) c3(c3) c4; R c1[t1-0,1 t2-0] c2[t1-2 t2-1] c3[t1-3 t2-2] c4[t1-4 t2-3]
25. t1:5 t2:4; c1(c1) c2(c2) c3(c3) c5; R c1[t1-0,1 t2-0] c2[t1-2 t2-1] c3[t1-3 t2-2] c5[t1-4 t2-3]
26. t1:3 t2:3; A[t1-0,1 t2-0,1] B[t1-2 t2-2]; S CS A[t1-0,1 t2-0] B[t1-2 t2-1,2]
27. t1:3 t2:3; A[t1-0,2 t2-0] B[t1-1 t2-1,2] C; S CS A[t1-0 t2-0] B[t1-1 t2-1] C[t1-2 t2-2]
28. t1:3 t2:3; A[t1-0 t2-0] B[t1-1 t2-1]; S CS A[t1-0,2 t2-0] B[t1-1 t2-1,2]
29. t1:3 t3:6; A{t1,t3} B{t3}; S CS A[t1-0,1,2 t3-3,5] B[t3-0,1,2,4]
30. t1:6 t2:4 t3:4; A{t1}[t1-0,1,2] B{t1,t2}[t1-3 t2-0] C{t1,t2,t3}[t1-4,5 t2-1,2,3 t3-0,1,2,3];
    S CS A[t1-0,1,2,3,4] B[t2-0,1,2,3] C[t1-5 t3-0,1,2,3]
";

struct Case<'a> {
    topics: Vec<TopicSize<'a>>,
    members: Vec<Described<'a>>,
}

/// A member, as a line describes it.
struct Described<'a> {
    name: &'a str,
    instance: Option<&'a str>,
    topics: Vec<&'a str>,
    owned: Vec<TopicPartition>,
    generation: u64,
}

/// What each member owns, by name.
type Result<'a> = BTreeMap<&'a str, Vec<TopicPartition>>;

impl<'a> Case<'a> {
    fn parse(topics: &'a str, members: &'a str) -> Self {
        let topics = topics.split_whitespace().map(|topic| {
            let (name, partitions) = topic.split_once(':').expect("name:partitions");
            TopicSize::new(name, partitions.parse().expect("a number"))
        });
        let topics: Vec<TopicSize<'_>> = topics.collect();
        let members = words(members).into_iter();
        let members = members.map(|member| Described::parse(member, &topics));
        Case {
            members: members.collect(),
            topics,
        }
    }

    fn assign(&self, assignor: &dyn Assignor) -> Result<'a> {
        let name = |member: &Described<'a>| member.name;
        let members: Vec<Member<'_>> = self.members.iter().map(Described::member).collect();
        let lists = assignor.assign(&members, &self.topics);
        assert_eq!(validate(&members, &self.topics, &lists), Ok(()));
        self.members.iter().map(name).zip(lists).collect()
    }

    /// What the members own as soon as all have given up what they must: of `target`, what nobody else has.
    fn first_generation(&self, mut target: Result<'a>) -> Result<'a> {
        for (name, list) in &mut target {
            list.retain(|at| {
                let claim = |member: &&Described<'_>| member.owned.contains(at);
                let newest = self.members.iter().filter(claim);
                let newest = newest.map(|member| member.generation).max();
                let right = |member: &&Described<'_>| Some(member.generation) == newest;
                let mut owners = self.members.iter().filter(claim).filter(right);
                owners.all(|owner| owner.name == *name)
            });
        }
        target
    }

    fn turn_around(&mut self) {
        self.topics.reverse();
        self.members.reverse();
    }
}

impl<'a> Described<'a> {
    fn parse(text: &'a str, all: &[TopicSize<'a>]) -> Self {
        let part = |open: char, close: char| {
            let (_, part) = text.split_once(open)?;
            Some(part.split_once(close).expect("it is closed").0)
        };
        let generation = text.rsplit_once('@').map_or("1", |(_, number)| number);
        let topics = part('{', '}').map(|topics| topics.split(',').collect());
        Described {
            name: text.split(['(', '{', '[']).next().expect("a name"),
            instance: part('(', ')'),
            topics: topics.unwrap_or_else(|| all.iter().map(|topic| topic.name).collect()),
            owned: partitions(part('[', ']').unwrap_or("")),
            generation: generation.parse().expect("a number"),
        }
    }

    fn member(&self) -> Member<'_> {
        let member = Member::new(self.name, &self.topics).owned(&self.owned, self.generation);
        match self.instance {
            Some(id) => member.instance_id(id),
            None => member,
        }
    }
}

/// `t1-0,2 t2-1` are three.
fn partitions(text: &str) -> Vec<TopicPartition> {
    let of_topic = |text: &str| {
        let (topic, numbers) = text.rsplit_once('-').expect("topic-numbers");
        let at = |number: &str| TopicPartition::new(topic, number.parse::<u32>().expect("one"));
        numbers.split(',').map(at).collect::<Vec<_>>()
    };
    text.split(' ')
        .filter(|text| !text.is_empty())
        .flat_map(of_topic)
        .collect()
}

/// Split at spaces, but not at those in brackets.
fn words(text: &str) -> Vec<&str> {
    let mut inside = false;
    let between = |c: char| {
        inside = (inside || c == '[') && c != ']';
        c == ' ' && !inside
    };
    text.split(between)
        .filter(|word| !word.is_empty())
        .collect()
}

/// What `rule` makes of a case.
fn found<'a>(case: &Case<'a>, rule: &str) -> Result<'a> {
    match rule {
        "R" => case.assign(&Range),
        "RR" => case.assign(&RoundRobin),
        "S" => case.assign(&Sticky),
        "CS" => case.assign(&CooperativeSticky),
        "CS1" => case.first_generation(case.assign(&CooperativeSticky)),
        _ => panic!("there is no rule {rule}"),
    }
}

/// Compares each result of a case, and counts them.
pub(super) fn check(case: &str) -> usize {
    let mut parts = case.split("; ");
    let mut part = || parts.next().expect("number. topics; members; results");
    let (topics, members) = (part(), part());
    let (number, topics) = topics.split_once(". ").expect("a number");
    let mut case = Case::parse(topics, members);
    let mut checked = 0;
    for expected in parts {
        let words = words(expected);
        let (expected, rules): (Vec<&str>, _) = words.iter().partition(|word| word.contains('['));
        let expected: Vec<Described<'_>> = expected
            .into_iter()
            .map(|member| Described::parse(member, &[]))
            .collect();
        let expected: Result<'_> = expected.into_iter().map(|m| (m.name, m.owned)).collect();
        for rule in rules {
            assert_eq!(found(&case, rule), expected, "case {number}, {rule}");
            case.turn_around();
            assert_eq!(
                found(&case, rule),
                expected,
                "case {number}, {rule}, turned"
            );
            case.turn_around();
            checked += 1;
        }
    }
    checked
}

#[test]
fn the_worked_assignments() {
    let cases = CASES.replace("\n    ", " ");
    let checked: usize = cases.trim().lines().map(check).sum();
    assert_eq!(checked, 89, "a result that is not compared proves nothing");
}
