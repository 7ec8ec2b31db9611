//! The inputs that the fuzzer kept, once more: every way in holds what `tests/fuzz/targets.rs` says of it.

use std::{fs, path::Path};

#[path = "../fuzz/targets.rs"]
#[expect(
    clippy::expect_used,
    reason = "a target fails by panicking, its helpers too"
)]
mod targets;

#[test]
fn every_corpus_input_satisfies_its_fuzz_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    for (name, target) in targets::TARGETS {
        let mut count = 0;
        for file in
            fs::read_dir(corpus.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
        {
            let path = file.unwrap().path();
            let data = fs::read(&path).unwrap();
            let holds = std::panic::catch_unwind(|| target(&data)).is_ok();
            assert!(holds, "{} does not hold", path.display());
            count += 1;
        }
        assert!(count > 0, "the corpus of {name} is empty");
    }
}
