//! `compose OUT APPLICATION COMPONENT…`: one component in which each one's imports are the exports of those named after it, as far as
//! they have them; each is there once, whoever imports it. What nobody has is imported, and what the application exports is exported.

use std::{env, error::Error, fs, path::Path};

use wac_graph::{CompositionGraph, EncodeOptions, NodeId, PackageId, types::Package};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [out, components @ ..] = args.as_slice() else { return Err(usage()) };
    if components.len() < 2 {
        return Err(usage());
    }
    let mut graph = CompositionGraph::new();
    let mut instances: Vec<(PackageId, NodeId)> = Vec::new();
    // From the last to the application: what one imports is there before it.
    for (number, file) in components.iter().enumerate().rev() {
        let package = Package::from_file(&format!("component{number}"), None, file, graph.types_mut())?;
        let package = graph.register_package(package)?;
        let instance = graph.instantiate(package);
        connect(&mut graph, package, instance, &instances)?;
        instances.push((package, instance));
    }
    let (package, application) = *instances.last().ok_or_else(usage)?;
    for name in exports(&graph, package) {
        let export = graph.alias_instance_export(application, &name)?;
        graph.export(export, &name)?;
    }
    // Written beside and renamed: a build that was broken off leaves no half component.
    let out = Path::new(out);
    let beside = out.with_extension("part");
    fs::write(&beside, graph.encode(EncodeOptions::default())?)?;
    fs::rename(&beside, out)?;
    Ok(())
}

fn usage() -> Box<dyn Error> {
    "usage: compose OUT APPLICATION COMPONENT…".into()
}

/// Gives an instance what it imports and one of the others exports: of several the one that is named first.
fn connect(
    graph: &mut CompositionGraph,
    package: PackageId,
    instance: NodeId,
    others: &[(PackageId, NodeId)],
) -> Result<(), Box<dyn Error>> {
    let imports: Vec<String> = graph.types()[graph[package].ty()].imports.keys().cloned().collect();
    for name in imports {
        let has = |other: &&(PackageId, NodeId)| exports(graph, other.0).contains(&name);
        if let Some((_, other)) = others.iter().rev().find(has).copied() {
            let export = graph.alias_instance_export(other, &name)?;
            graph.set_instantiation_argument(instance, &name, export)?;
        }
    }
    Ok(())
}

fn exports(graph: &CompositionGraph, package: PackageId) -> Vec<String> {
    graph.types()[graph[package].ty()].exports.keys().cloned().collect()
}
