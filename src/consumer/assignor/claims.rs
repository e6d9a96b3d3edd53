//! Who has a right to keep which partition.

use super::plan::Plan;

#[derive(Clone, Copy)]
enum Claim {
    None,
    Of {
        member: usize,
        generation: u64,
    },
    /// Several members said so of this generation: at most one can be right, and nobody knows which.
    Void {
        generation: u64,
    },
}

/// By partition, the member whose claim stands: that of the highest generation, unless two share it.
pub(super) fn standing(plan: &Plan<'_>) -> Vec<Option<usize>> {
    let mut claims = vec![Claim::None; plan.partitions()];
    for member in 0..plan.members() {
        let generation = plan.generation(member);
        for partition in plan.owned(member) {
            let claim = &mut claims[partition];
            *claim = claim.and(member, generation);
        }
    }
    let stands = |claim| match claim {
        Claim::Of { member, .. } => Some(member),
        Claim::None | Claim::Void { .. } => None,
    };
    claims.into_iter().map(stands).collect()
}

impl Claim {
    fn and(self, member: usize, generation: u64) -> Claim {
        let new = Claim::Of { member, generation };
        match self {
            Claim::None => new,
            Claim::Of { member: of, .. } if of == member => self, // said twice
            Claim::Of { generation: of, .. } | Claim::Void { generation: of } => {
                match generation.cmp(&of) {
                    std::cmp::Ordering::Greater => new,
                    std::cmp::Ordering::Equal => Claim::Void { generation },
                    std::cmp::Ordering::Less => self,
                }
            }
        }
    }
}
