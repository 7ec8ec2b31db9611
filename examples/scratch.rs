use longhaul::{
    app::Setup,
    demo,
    domain::*,
    engine::{Clock, Options},
    shell::real::{Opening, open},
    store::Paths,
};
fn main() {
    let dir = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let url = std::env::args().nth(2).unwrap();
    let mut asks = vec![];
    if std::env::args().nth(3).is_some() {
        for (bits, args, tool, name) in [
            (
                1234567u64,
                r#"{"dataset_name":"eu","total_records":50,"batch_size":5}"#,
                "resumable_data_processing",
                "thirty",
            ),
            (
                987654321,
                r#"{"dataset_name":"us","total_records":900,"batch_size":10}"#,
                "resumable_data_processing",
                "long",
            ),
            (
                55555555,
                r#"{"city":"Lisbon","delay_ms":5000}"#,
                "get_forecast",
                "fc",
            ),
        ] {
            asks.push(Ask::Start(Box::new(NewCall {
                id: TaskId::from_bits(bits),
                server: ServerName::new("demo"),
                tool: tool.into(),
                arguments: args.into(),
                name: Some(name.into()),
                tag: None,
                once: None,
                origin: None,
                must_survive: false,
                limits: Limits::default(),
            })));
        }
    }
    let out = open(Opening {
        engine: Options {
            paths: Paths::resolve(Some(dir.join("state")), "demo").unwrap(),
            servers: vec![ServerRef {
                name: ServerName::new("demo"),
                url: Some(url),
                headers: vec![],
                protocol: None,
            }],
            protocol: None,
            seed: std::process::id() as u64,
            clock: Clock::start(),
            die_after: None,
        },
        setup: Setup {
            session: "demo".into(),
            is_demo: true,
            seed: std::process::id() as u64,
            ..Setup::default()
        },
        attach: None,
        demo_dir: Some(dir.join("demo")),
        asks,
    })
    .unwrap();
    eprintln!("{out:?}");
}
