//! `compose OUT APPLICATION COMPONENT…`: creates a component in which the imports of each component are connected to
//! the exports of the components after it. Each component is instantiated once, for all its importers. Unconnected
//! imports become imports of the result, and the application's exports become its exports.

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
    // Starts with the last component and ends with the application, so that the exporters exist before their importers.
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
    // Writes a new file and renames it, so that an interrupted build does not leave an incomplete component.
    let out = Path::new(out);
    let beside = out.with_extension("part");
    fs::write(&beside, graph.encode(EncodeOptions::default())?)?;
    fs::rename(&beside, out)?;
    Ok(())
}

fn usage() -> Box<dyn Error> {
    "usage: compose OUT APPLICATION COMPONENT…".into()
}

/// Connects an instance's imports to exports of the other instances. If several export an interface, uses the first on
/// the command line.
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
