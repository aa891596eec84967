//! A durable work queue inside one program: `cargo run -p lineshaft-broker --example embedded`.
//!
//! Run it twice: the second run finds the jobs that the first run left.

use std::time::Duration;

use lineshaft_broker::embedded::{Error, Store, Wait};
use lineshaft_broker::{NewJob, State};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join("lineshaft-embedded-example");
    let store = Store::open(&folder)?;
    println!("the store is in {}", folder.display());
    if let Some(stats) = store.stats("thumbnails") {
        println!("an earlier run left {} ready and {} buried", stats.ready, stats.buried);
    }

    // A put returns when the job is on stable storage.
    let mut producer = store.session();
    for name in ["cat.jpg", "broken.jpg", "dog.jpg"] {
        let id = producer.put("thumbnails", NewJob::default(), name.as_bytes())?;
        println!("put {id}: {name}");
    }

    // A worker holds the jobs that it took. If the worker fails, its jobs are given back.
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| -> Result<(), Error> {
            let mut session = store.session();
            while let Some(job) =
                session.take(&["thumbnails"], Wait::For(Duration::from_millis(100)))?
            {
                let name = String::from_utf8_lossy(&job.body).into_owned();
                if name.starts_with("broken") {
                    session.bury(job.id, 1024)?;
                    println!("set aside {}: {name}", job.id);
                } else {
                    session.finish(job.id)?;
                    println!("finished {}: {name}", job.id);
                }
            }
            Ok(())
        });
        worker.join().expect("the worker does not panic")
    })?;

    let first = producer.peek("thumbnails", State::Buried)?;
    println!("the first one set aside is {}", first.id);
    drop(producer);
    store.close()?;
    Ok(())
}
