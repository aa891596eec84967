//! Tests that read any text as a configuration: random combinations of meaningful lines, and the
//! corpus of the fuzz target.

mod script;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use script::check;

fn line() -> impl Strategy<Value = String> {
    let heads =
        ["[listen]", "[limits]", "[data]", "[tls]", "[[policy]]", "[kestrel]", "[", "\"\"\""];
    let keys = [
        "match",
        "limits.jobs",
        "limits.bytes",
        "alias",
        "route.copy_to",
        "expire_to",
        "sync",
        "beanstalk",
        "http",
        "unsent_size",
        "version",
        "dir",
        "io_threads",
    ];
    let values = [
        "1",
        "\"*\"",
        "\"a*\"",
        "\"a\"",
        "[\"a\", \"b+c\"]",
        "\"none\"",
        "\"50ms\"",
        "\"1MiB\"",
        "true",
        "\"127.0.0.1:0\"",
        "\"tls:[::1]:9\"",
        "\"\\u0007\\\"\"",
        "-1",
        "1e9",
    ];
    prop_oneof![
        1 => select(heads.map(str::to_owned).to_vec()),
        4 => (select(keys.to_vec()), select(values.to_vec()))
            .prop_map(|(key, value)| format!("{key} = {value}")),
        1 => "[ -~]{0,12}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_configuration_can_be_shown_and_read_again(lines in vec(line(), 0..8)) {
        check(lines.join("\n").as_bytes());
    }

    #[test]
    fn any_bytes_are_a_configuration_or_mistakes(bytes in vec(any::<u8>(), 0..100)) {
        check(&bytes);
    }
}

#[test]
fn the_fuzz_corpus_gives_a_configuration_or_mistakes() {
    for file in testkit::fuzz_corpus("configuration", 5) {
        check(&file);
    }
}
