//! Files of profiles: many operations, machines and links in one.

use std::collections::BTreeSet;
use std::fs;

use windrow_collective::{Measured, Operation, Profile, Profiles, ProfilesErrorKind, Shape, Stage};
use windrow_tiling::tile::Contention;

use crate::common::OPERATIONS;

fn shape(operation: Operation, ranks: usize, n: usize) -> Shape {
    Shape { operation, element: "f32".to_owned(), ranks, n, k: 512 }
}

fn profile(shape: &Shape, fixed: f64) -> Profile {
    let sample = |stage, m: u64| Measured { stage, m, microseconds: fixed + 0.2 * m as f64 / 3.0 };
    let samples = [256, 512, 1024].into_iter().flat_map(|m| [sample(Stage::Compute, m), sample(Stage::Communicate, m)]);
    let contention = Contention { compute: 1.1, communicate: 1.3 };
    Profile::new(shape.clone(), samples.collect(), contention).unwrap()
}

/// Three operations on two machines over two links, of two widths and for two numbers of ranks.
fn many() -> Profiles {
    let mut profiles = Profiles::default();
    let mut fixed = 1.0;
    for operation in OPERATIONS {
        for (machine, link, ranks, n) in
            [("a", "ib0", 2, 512), ("a", "eth0", 2, 512), ("b", "ib0", 2, 512), ("a", "ib0", 4, 1024)]
        {
            assert_eq!(profiles.insert(machine, link, profile(&shape(operation, ranks, n), fixed)), None);
            fixed += 1.0;
        }
    }
    profiles
}

#[test]
fn a_profile_is_found_by_machine_link_and_shape_alone() {
    let profiles = many();
    assert_eq!(profiles.iter().len(), 12);
    let found: BTreeSet<String> = profiles
        .iter()
        .map(|entry| {
            let found = profiles.get(&entry.machine, &entry.link, entry.profile.shape());
            assert_eq!(found, Some(&entry.profile), "{entry}");
            entry.to_string()
        })
        .collect();
    assert_eq!(found.len(), 12);
    assert!(found.contains("matmul-all-reduce of f32, 4 ranks, n = 1024, k = 512, over ib0 on a"), "{found:?}");
    let known = shape(Operation::MatmulAllReduce, 2, 512);
    assert!(profiles.get("a", "ib0", &known).is_some());
    for (machine, link, shape) in [
        ("c", "ib0", known.clone()),
        ("b", "eth0", known.clone()),
        ("a", "ib0", Shape { ranks: 3, ..known.clone() }),
        ("a", "ib0", Shape { n: 511, ..known.clone() }),
        ("a", "ib0", Shape { k: 511, ..known.clone() }),
        ("a", "ib0", Shape { element: "f64".to_owned(), ..known.clone() }),
        ("a", "ib0", Shape { operation: Operation::AllGatherMatmul, ranks: 4, ..known.clone() }),
    ] {
        assert_eq!(profiles.get(machine, link, &shape), None, "{machine} {link} {shape:?}");
    }
}

#[test]
fn what_is_written_is_read_and_merged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profiles.json");
    let profiles = many();
    profiles.write(&path).unwrap();
    assert_eq!(Profiles::read(&path).unwrap(), profiles);
    // A profile a line, and no part of the file is left.
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 12 + 2);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

    let (old, new) = (shape(Operation::MatmulAllReduce, 2, 512), shape(Operation::MatmulAllReduce, 2, 2048));
    let mut others = Profiles::default();
    others.insert("a", "ib0", profile(&old, 99.0));
    others.insert("a", "ib0", profile(&new, 98.0));
    let mut merged = profiles.clone();
    merged.merge(others);
    assert_eq!(merged.iter().len(), 13);
    assert_eq!(merged.get("a", "ib0", &old), Some(&profile(&old, 99.0)));
    assert_eq!(merged.get("a", "ib0", &new), Some(&profile(&new, 98.0)));
    assert_eq!(merged.get("b", "ib0", &old), profiles.get("b", "ib0", &old));
    merged.write(&path).unwrap();
    assert_eq!(Profiles::read(&path).unwrap(), merged);
    assert_eq!(merged.insert("a", "ib0", profile(&old, 1.0)), Some(profile(&old, 99.0)));
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profiles.json");
    let refused = |text: &str, kind, says: &str| {
        fs::write(&path, text).unwrap();
        let error = Profiles::read(&path).unwrap_err();
        let said = error.to_string();
        assert_eq!(error.kind(), kind, "{said}");
        assert!(said.starts_with(&format!("{}:", path.display())) && said.contains(says), "{said}");
        assert!(said.len() < 600, "{} bytes", said.len());
    };
    let good = many().to_json();
    refused("", ProfilesErrorKind::Json, ":1:0: EOF");
    refused("{\n\"profiles\": []}", ProfilesErrorKind::Json, ":2:15: missing field `schema`");
    refused("{\"schema\": 1}", ProfilesErrorKind::Json, "missing field `profiles`");
    refused(
        &good.replace("\"schema\":1", "\"schema\":2"),
        ProfilesErrorKind::Version,
        "version 2, but this windrow reads version 1",
    );
    refused(&good.replacen("\"compute\":1.1", "\"compute\":0.5", 1), ProfilesErrorKind::Json, ":2:");
    refused(
        &good.replacen("\"compute\":1.1", "\"compute\":0.5", 1),
        ProfilesErrorKind::Json,
        "slowdown of the computation is 0.5",
    );
    refused(&good.replacen("\"link\"", "\"line\"", 1), ProfilesErrorKind::Json, "missing field `link`");
    refused(&format!("[\"{}\"]", "x".repeat(1_000_000)), ProfilesErrorKind::Json, ":1:");
    refused(&good.replacen("matmul-all-reduce", &"x".repeat(1_000_000), 1), ProfilesErrorKind::Json, "unknown variant");
    let missing = Profiles::read(folder.path().join("none.json")).unwrap_err();
    assert_eq!((missing.kind(), missing.place()), (ProfilesErrorKind::Io, None));
    assert!(missing.to_string().contains("none.json: cannot read it: "), "{missing}");
    let nowhere = many().write(folder.path().join("no/folder.json")).unwrap_err();
    assert!(nowhere.kind() == ProfilesErrorKind::Io && nowhere.to_string().contains("cannot write it"), "{nowhere}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn this_machine_has_one_name() {
    let name = Profiles::this_machine();
    assert_eq!(name, Profiles::this_machine());
    assert!(name.ends_with(" CPUs") && name.len() > " CPUs".len() + 3, "{name}");
}
