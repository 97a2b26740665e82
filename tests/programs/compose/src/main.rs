//! `compose APPLICATION PROVIDER OUT`: one component in which the application's imports are the provider's exports, as far as it
//! has them. What is missing of either is imported.

use std::{env, error::Error, fs, path::Path};

use wac_graph::{CompositionGraph, EncodeOptions, PackageId, plug, types::Package};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [application, provider, out] = args.as_slice() else {
        return Err("usage: compose APPLICATION PROVIDER OUT".into());
    };
    let mut graph = CompositionGraph::new();
    let [application, provider] =
        [add(&mut graph, "application", application.as_ref())?, add(&mut graph, "provider", provider.as_ref())?];
    plug(&mut graph, vec![provider], application)?;
    // Written beside and renamed: a build that was broken off leaves no half component.
    let out = Path::new(out);
    let beside = out.with_extension("part");
    fs::write(&beside, graph.encode(EncodeOptions::default())?)?;
    fs::rename(&beside, out)?;
    Ok(())
}

fn add(graph: &mut CompositionGraph, name: &str, file: &Path) -> Result<PackageId, Box<dyn Error>> {
    let package = Package::from_file(name, None, file, graph.types_mut())?;
    Ok(graph.register_package(package)?)
}
