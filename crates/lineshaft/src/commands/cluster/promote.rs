//! `lineshaft cluster promote`: another node leads from now on.
//!
//! The command leaves an order in the bucket of the hints, and the leader reads it: whoever can
//! write to the stream can give the order, from any machine, and needs no token. The leader waits
//! until the other node has caught up, stops, and resigns in its favour. Its service manager starts
//! it again, and it follows.

use std::hash::{BuildHasher as _, RandomState};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use nats::hints::{Hint, Hints, Order, Role, Seen};
use serde::Serialize;

use super::block_on;
use super::forget::find;
use super::place::Node;
use super::status::{leader, watch};
use crate::cli::PromoteArguments;
use crate::text::{complain, print_line, print_value, seconds};

/// The leader gives the other node 10 s to catch up. Then it stops, and the other node claims.
const ORDER_MAX: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);
/// A node that is further behind needs too long to catch up.
const LAG_MAX_MS: u64 = 10_000;

#[derive(Debug, Serialize)]
struct Shown {
    /// The node that leads now.
    leader: String,
    /// The node that led before.
    before: String,
    /// The epoch of the new leader.
    epoch: u64,
    /// Whether the lead has changed. False: the node led already.
    changed: bool,
}

/// Hands the lead over.
pub(super) fn run(arguments: &PromoteArguments) -> Result<ExitCode> {
    let PromoteArguments { node, name, json } = arguments;
    let config = Node::read(node.config.clone(), None, 3)?;
    let shown = block_on(promote(Hints::new(config.place().clone()), name))?;
    let Shown { leader, before, epoch, changed } = &shown;
    if *json {
        print_value(&shown)?;
    } else if *changed {
        print_line(&format!("node {leader} leads now, in epoch {epoch}; node {before} stops"))?;
    } else {
        print_line(&format!("node {leader} leads already"))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn promote(mut hints: Hints, name: &str) -> Result<Shown> {
    let seen = watch(&mut hints).await?;
    let target = find(&seen, name)?;
    let Some(before) = leader(&seen) else {
        bail!("no node leads; `lineshaft cluster status` says why");
    };
    let (epoch, before) = (before.epoch, before.name.clone());
    if target.hint.name == before {
        return Ok(Shown { leader: before.clone(), before, epoch, changed: false });
    }
    if let Some(why) = refusal(target) {
        bail!("node {name} cannot lead now: {why}");
    }
    let order =
        Order { id: RandomState::new().hash_one(epoch).max(1), epoch, successor: target.node };
    let outcome = give(&mut hints, &order).await;
    // The order counts only in its epoch, which may go on. It can also be there if NATS did not confirm it.
    // An order that somebody else has given since then is not ours to take back.
    if outcome.is_err()
        && let Err(error) = hints.take_back(&order).await
    {
        complain(&format!("cannot take the order back: {error}"));
    }
    let Hint { name: leader, epoch, .. } = outcome?;
    Ok(Shown { leader, before, epoch, changed: true })
}

/// Why this node cannot lead. The leader asks the same again, and knows more.
fn refusal(Seen { hint, changes, .. }: &Seen) -> Option<String> {
    if *changes == 0 {
        Some("it is silent; start it first".to_owned())
    } else if hint.never_leads {
        Some("its cluster.lead is false".to_owned())
    } else if !hint.fault.is_empty() {
        Some(hint.fault.clone())
    } else if !hint.refusal.is_empty() {
        Some(hint.refusal.clone())
    } else if hint.role != Role::Follows {
        Some("it does not follow yet".to_owned())
    } else if hint.lag_ms > LAG_MAX_MS {
        Some(format!("it is {} behind the leader", seconds(hint.lag_ms / 1000)))
    } else {
        None
    }
}

/// Gives the order, and waits for the next leader.
async fn give(hints: &mut Hints, order: &Order) -> Result<Hint> {
    hints.order(order).await?;
    outcome(hints, order).await
}

/// Waits for the next leader.
async fn outcome(hints: &mut Hints, order: &Order) -> Result<Hint> {
    let begun = Instant::now();
    loop {
        // While the lead changes, NATS may answer late.
        let seen = hints.read().await.unwrap_or_default();
        let next =
            seen.iter().find(|one| one.hint.role == Role::Leads && one.hint.epoch > order.epoch);
        match next {
            Some(one) if one.node == order.successor => return Ok(one.hint.clone()),
            Some(one) => bail!("node {} leads now: the other node was too slow", one.hint.name),
            None => {}
        }
        let refused = seen.iter().find(|one| one.hint.refused_order == order.id);
        if let Some(Seen { hint, .. }) = refused {
            bail!("node {} does not hand the lead over: {}", hint.name, hint.order_refusal);
        }
        if begun.elapsed() >= ORDER_MAX {
            bail!("the leader does not obey; `lineshaft cluster status` may say why");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_live_follower_can_lead() {
        let well = Hint { name: "a".to_owned(), role: Role::Follows, ..Hint::default() };
        let seen = |hint, changes| Seen { node: 1, hint, changes, age: Duration::ZERO };
        assert_eq!(refusal(&seen(well.clone(), 1)), None);
        for (hint, changes, what) in [
            (well.clone(), 0, "silent"),
            (Hint { never_leads: true, ..well.clone() }, 1, "cluster.lead is false"),
            (Hint { fault: "broken".to_owned(), ..well.clone() }, 1, "broken"),
            (Hint { refusal: "flush".to_owned(), ..well.clone() }, 1, "flush"),
            (Hint { role: Role::Starts, ..well.clone() }, 1, "does not follow yet"),
            (Hint { lag_ms: 11_000, ..well.clone() }, 1, "11 s behind"),
        ] {
            let why = refusal(&seen(hint, changes)).expect("a reason");
            assert!(why.contains(what), "{why}");
        }
    }
}
