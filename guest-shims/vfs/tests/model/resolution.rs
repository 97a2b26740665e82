//! Compares the resolution of random paths in random trees full of symlinks with a resolver that rewrites text.

use std::sync::Arc;

use glovebox_vfs::{Access, Follow, Vfs, VfsLimits};
use proptest::prelude::*;

use crate::reference::{End, Kind, Reference};
use crate::runner;
use crate::support::{FakeHost, HostNode};

fn path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        5 => Just("a"), 5 => Just("b"), 5 => Just("c"), 2 => Just("."), 4 => Just(".."),
        1 => Just(""),
    ];
    prop::collection::vec(part, 1..7).prop_map(|parts| parts.join("/"))
}

/// Generates paths and nodes. Entries whose parent is not a directory are skipped.
fn tree() -> impl Strategy<Value = Vec<(String, HostNode)>> {
    let name = prop_oneof![Just("a"), Just("b"), Just("c")];
    let place = prop::collection::vec(name, 1..4).prop_map(|parts| parts.join("/"));
    let node = prop_oneof![
        3 => Just(HostNode::Dir),
        1 => Just(HostNode::File(Vec::new())),
        4 => path().prop_map(HostNode::Link),
    ];
    prop::collection::vec((place, node), 1..20)
}

#[test]
fn a_path_never_leaves_its_directory_and_leads_where_it_says() {
    let strategy = (tree(), prop::collection::vec((path(), any::<bool>()), 20));
    let test = "a_path_never_leaves_its_directory_and_leads_where_it_says";
    runner(test)
        .run(&strategy, |(nodes, paths)| {
            let host = Arc::new(FakeHost::default());
            let mut model = Reference::default();
            for (path, node) in nodes {
                let parent = path.rsplit_once('/').map_or("", |(dir, _)| dir);
                if model.kind(parent) == Some(Kind::Dir) && model.kind(&path).is_none() {
                    model.put(&path, &node);
                    host.put(&path, node);
                }
            }
            let mut vfs = Vfs::new(VfsLimits::default());
            let root = vfs.add_mount(host, Access::ReadOnly).unwrap();
            let top = vfs.root_dir(root).unwrap();
            let mut bases = vec![String::new()];
            let dirs = model.tree.iter().filter(|(_, (_, kind))| *kind == Kind::Dir);
            bases.extend(dirs.map(|(path, _)| path.clone()));
            for base in &bases {
                let dir = if base.is_empty() { top } else { vfs.lookup(top, base.as_bytes(), Follow::No).unwrap() };
                for (path, follow) in &paths {
                    let (follow, end) = if *follow { (Follow::Yes, End::Target) } else { (Follow::No, End::Node) };
                    let found = vfs.lookup(dir, path.as_bytes(), follow).map(|inode| vfs.path_of(inode).unwrap());
                    let expected = model.lookup(base, path, end);
                    prop_assert_eq!(&found, &expected, "`{}` beneath `{}`", path, base);
                    if let Ok(found) = found {
                        let inside = base.is_empty() || found == *base || found.starts_with(&format!("{base}/"));
                        prop_assert!(inside, "`{}` left `{}` for `{}`", path, base, found);
                    }
                }
            }
            Ok(())
        })
        .unwrap();
}
