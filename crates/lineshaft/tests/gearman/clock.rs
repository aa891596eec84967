//! Changes the wall clock while the server runs. A job with a due time must arrive when the wall
//! clock shows that time.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::packet::{CAN_DO, JOB_CREATED, NOOP, PRE_SLEEP, Peer, SUBMIT_JOB_EPOCH, WORK_COMPLETE};
use crate::programs;
use crate::wall_clock::Rig;

const HOUR_S: u64 = 3_600;

#[test]
fn a_scheduled_job_comes_when_the_wall_clock_is_set_to_its_time() -> Result<()> {
    for (name, program) in programs::lineshaft() {
        eprintln!("{name}");
        let Some(rig) = Rig::new_or_skip(&program)? else { return Ok(()) };
        let address = rig.server.address().to_string();
        let (mut client, mut worker) = (Peer::connect(&address), Peer::connect(&address));
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        worker.send(CAN_DO, &["f"]);
        for (hours, workload) in [(2, "later"), (1, "sooner")] {
            let due_s = (now_s + hours * HOUR_S).to_string();
            client.send(SUBMIT_JOB_EPOCH, &["f", "", &due_s, workload]);
            client.expect(JOB_CREATED);
        }
        for (hours, workload) in [(1, "sooner"), (2, "later")] {
            assert_eq!(worker.try_grab(), None, "{workload} is not due");
            worker.send(PRE_SLEEP, &[]);
            rig.set_clock((hours * HOUR_S + 60) as i64)?;
            worker.expect(NOOP);
            let job = worker.grab();
            assert_eq!(job[2], workload);
            worker.send(WORK_COMPLETE, &[&job[0], ""]);
        }
        assert_eq!(worker.try_grab(), None);
    }
    Ok(())
}
