//! Tests the parsers with complete, truncated and damaged sources, and with the corpora of the fuzz
//! targets.

#![expect(clippy::unwrap_used, reason = "a test may end there")]

mod beanstalkd;
mod gearmand;
mod kestrel;
mod script;

use proptest::collection::vec;
use proptest::prelude::*;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("../../fuzz/corpus").join(target);
    let files = std::fs::read_dir(folder).unwrap();
    let files: Vec<_> = files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
    assert!(files.len() >= 2, "the corpus of {target} is gone");
    files
}

#[test]
fn the_fuzz_corpus_is_read() {
    for bytes in corpus("import_beanstalkd") {
        script::check_beanstalkd(&bytes);
    }
    for bytes in corpus("import_gearmand") {
        script::check_gearmand(&bytes);
    }
    for bytes in corpus("import_kestrel") {
        script::check_kestrel(&bytes);
    }
}

proptest! {
    /// Changes a few bytes of a valid source. The parsers read further into such a source than into
    /// random bytes.
    #[test]
    fn changed_sources_are_read(changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let change = |mut bytes: Vec<u8>| {
            for (place, byte) in &changes {
                let place = place.index(bytes.len());
                bytes[place] = *byte;
            }
            bytes
        };
        for bytes in corpus("import_beanstalkd") {
            script::check_beanstalkd(&change(bytes));
        }
        for bytes in corpus("import_gearmand") {
            script::check_gearmand(&change(bytes));
        }
        for bytes in corpus("import_kestrel") {
            script::check_kestrel(&change(bytes));
        }
    }
}
