use longhaul::demo;
fn main() {
    let dir = std::path::PathBuf::from(std::env::args().nth(1).unwrap()).join("demo");
    demo::run_blocking(
        demo::Options {
            dir,
            port: None,
            cross_stream_replay: false,
            idle_exit: None,
        },
        &mut std::io::stdout(),
    )
    .unwrap();
}
