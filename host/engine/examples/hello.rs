//! The README's example.
use glovebox::{Engine, EngineConfig, Language, Limits, Sandbox};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::new(EngineConfig::default())?;
    let mut limits = Limits::default();
    limits.timeout_ms = 2_000;
    for (language, source) in [(Language::Python, "print(6 * 7)"), (Language::JavaScript, "console.log(6 * 7)")] {
        let sandbox = Sandbox::builder(&engine).language(language).limits(limits.clone()).build()?;
        let execution = sandbox.execute(source)?;
        assert!(execution.is_success());
        assert_eq!(execution.stdout.text(), "42\n");
    }
    Ok(())
}
