//! Plays the conformance cases over sockets, in all styles, in memory and with a log.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use testkit::socket::SocketWire;
use testkit::suite::Outcome;

use crate::programs::start_both;
use testkit::thrift::cases::{Case, read_cases};
use testkit::thrift::codec::{STYLES, Style};

/// Waiting cases use no processor time, so more of them run at once than the machine has cores.
const CASES_AT_ONCE: usize = 24;

#[test]
fn the_service_does_what_its_description_says() -> Result<()> {
    let cases = read_cases()?;
    let plays: Vec<(&Case, Style)> =
        STYLES.iter().flat_map(|style| cases.iter().map(move |case| (case, *style))).collect();
    // These cases change what other cases use as well.
    let (shared, own): (Vec<_>, Vec<_>) = plays
        .into_iter()
        .partition(|(case, _)| case.has_tag("alone") || case.has_tag("testconfig"));
    for (name, server) in start_both()? {
        let mut outcome = play(&own, server.address(), CASES_AT_ONCE);
        let others = play(&shared, server.address(), 1);
        outcome.played += others.played;
        outcome.failures.extend(others.failures);
        outcome.failures.iter_mut().for_each(|(_, reason)| reason.push_str(name));
        outcome.assert_all_passed();
    }
    Ok(())
}

fn play(plays: &[(&Case, Style)], address: SocketAddr, at_once: usize) -> Outcome {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((case, style)) = plays.get(number) else { return };
                    let mut wire = SocketWire::new(address);
                    let played = case.play(&mut wire, *style, &format!("case{number}"));
                    if let Err(error) = played.with_context(|| format!("{style:?}")) {
                        let failure = (case.name.clone(), format!("{error:#}, "));
                        failures.lock().expect("no holder panics").push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no holder panicked");
    Outcome { played: plays.len(), failures }
}
