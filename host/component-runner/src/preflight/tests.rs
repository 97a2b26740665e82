//! Tests of the checks, with components in text form. The expected instance sizes come from Wasmtime itself.

use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, component::Component};

use super::{
    COMPONENT, CORE_MODULE, MAX_CANONICAL, MAX_INSTANCES, MAX_ITEMS, MAX_PARTS, MAX_TABLE_ELEMENTS, MAX_TYPES, Refusal,
    TYPE, check, check_headers, is_concurrent,
};

fn checked(text: &str) -> Result<u64, Refusal> {
    check(&wat::parse_str(format!("(component {text})")).unwrap())
}

/// Concatenates the text of `count` items.
fn repeat(count: u64, each: impl Fn(u64) -> String) -> String {
    (0..count).map(each).collect()
}

#[test]
fn nested_instances_under_at_and_over_the_limit() {
    // Each `$c` adds 99 instances: itself and 98 modules. 100 copies and the outermost component make 9,901 instances.
    let inner = repeat(98, |_| "(core instance (instantiate $m))".into());
    let text = |more: u64| {
        let outer = repeat(100, |_| "(instance (instantiate $c))".into());
        let more = repeat(more, |_| "(core instance (instantiate $m))".into());
        format!("(core module $m) (component $c (core module $m) {inner}) {outer}{more}")
    };
    let at = MAX_INSTANCES - 9_901;
    for (more, refused) in
        [(at - 1, None), (at, None), (at + 1, Some(Refusal::Instances)), (at + 9_000, Some(Refusal::Instances))]
    {
        assert_eq!(checked(&text(more)).err(), refused, "{more}");
    }
}

/// Returns components that each instantiate the previous one twice. The first one instantiates a core module.
fn doubling(levels: u64) -> String {
    let level = |n: u64| {
        let of = n - 1;
        format!(
            "(component $c{n} (alias outer 1 $c{of} (component $c)) (instance (instantiate $c)) (instance (instantiate $c)))"
        )
    };
    let first = "(component $c0 (core module $m) (core instance (instantiate $m)))";
    format!("{first}{}(instance (instantiate $c{levels}))", repeat(levels, |n| level(n + 1)))
}

#[test]
fn repeated_instantiation_is_counted_each_time() {
    assert!(checked(&doubling(10)).is_ok());
    for levels in [13, 26, 64] {
        assert_eq!(checked(&doubling(levels)), Err(Refusal::Instances), "{levels}");
    }
    assert_eq!(checked(&doubling(900)), Err(Refusal::Items), "each component captures all earlier ones");
}

#[test]
fn passed_modules_count_where_instantiated() {
    let module = "(core module $m)";
    let twice = "(instance (instantiate $x)) (instance (instantiate $x))";
    // A component that is passed as an argument.
    let leaf = "(component $leaf (core module $m) (core instance (instantiate $m)))";
    let by_argument = |levels: u64| {
        // Each level imports a component and exports a component that instantiates the import twice.
        let level = |n: u64| {
            format!(
                "(component $a{n} (import \"x\" (component $x)) (component $y (alias outer 1 $x (component $x)) {twice}) \
                 (export \"y\" (component $y)))
                 (instance $i{n} (instantiate $a{n} (with \"x\" (component $l{n}))))
                 (alias export $i{n} \"y\" (component $l{}))",
                n + 1
            )
        };
        format!(
            "{leaf}(alias outer 0 $leaf (component $l0)){}(instance (instantiate $l{levels}))",
            repeat(levels, level)
        )
    };
    let least = checked(&by_argument(1)).unwrap();
    assert!(checked(&by_argument(2)).unwrap() > least);
    assert!(checked(&by_argument(9)).is_ok());
    for levels in [13, 40] {
        assert_eq!(checked(&by_argument(levels)), Err(Refusal::Instances), "{levels}");
    }
    // A component that a nested instance exports under another name.
    let exported = |count: u64| {
        let instances = repeat(count, |_| "(instance (instantiate $x))".into());
        format!(
            "(component $c {leaf} (export \"leaf\" (component $leaf)))
             (instance $i (instantiate $c)) (instance $j (export \"inner\" (instance $i)))
             (alias export $j \"inner\" (instance $k)) (alias export $k \"leaf\" (component $x)) {instances}"
        )
    };
    assert!(checked(&exported((MAX_INSTANCES - 2) / 2)).is_ok());
    assert_eq!(checked(&exported((MAX_INSTANCES - 2) / 2 + 1)), Err(Refusal::Instances));
    // A module that is captured from two levels up.
    let outer = format!(
        "{module} (component $c (component $d (alias outer 2 $m (core module $x)) {})
         (instance (instantiate $d)) (instance (instantiate $d))) (instance (instantiate $c))",
        repeat(4_997, |_| "(core instance (instantiate $x))".into())
    );
    assert!(checked(&outer).is_ok());
    let one_more = outer.replace("(instance (instantiate $c))", "(instance (instantiate $c)) (core instance (instantiate $m)) (core instance (instantiate $m)) (core instance (instantiate $m))");
    assert_eq!(checked(&one_more), Err(Refusal::Instances));
}

#[test]
fn instantiating_an_import_is_rejected() {
    assert_eq!(checked("(import \"c\" (component $c)) (instance (instantiate $c))"), Err(Refusal::Imported));
    assert_eq!(checked("(import \"m\" (core module $m)) (core instance (instantiate $m))"), Err(Refusal::Imported));
    let within = "(import \"i\" (instance $i (export \"m\" (core module))))
                  (alias export $i \"m\" (core module $m))
                  (component $c (import \"m\" (core module $m)) (core instance (instantiate $m)))
                  (instance (instantiate $c (with \"m\" (core module $m))))";
    assert_eq!(checked(within), Err(Refusal::Imported));
    assert!(
        checked("(import \"c\" (component $c)) (import \"m\" (core module))").is_ok(),
        "an import that is not instantiated"
    );
}

#[test]
fn functions_per_instance_under_at_and_over_the_limit() {
    let text = |count: u64| {
        let inner = repeat(100, |_| "(core func (canon resource.drop $r))".into());
        let more = repeat(count % 100, |_| "(core func (canon resource.drop $r))".into());
        let outer = repeat(count / 100, |_| "(instance (instantiate $c))".into());
        format!("(type $r (resource (rep i32))) (component $c (type $r (resource (rep i32))) {inner}) {outer}{more}")
    };
    for (count, refused) in [(MAX_CANONICAL - 1, false), (MAX_CANONICAL, false), (MAX_CANONICAL + 1, true)] {
        assert_eq!(checked(&text(count)).err(), refused.then_some(Refusal::Canonical), "{count}");
    }
}

#[test]
fn copies_are_counted_each_time() {
    const FUNCTION: &str = "(core module $m (func (export \"f\"))) (core instance $i (instantiate $m))
                            (func $f (canon lift (core func $i \"f\"))) (instance $b0 (export \"f\" (func $f)))";
    // Each instance contains the previous instance twice.
    let bundles = |levels: u64| {
        let level =
            |n: u64| format!("(instance $b{} (export \"a\" (instance $b{n})) (export \"b\" (instance $b{n})))", n + 1);
        format!("{FUNCTION}{}", repeat(levels, level))
    };
    assert!(checked(&bundles(10)).is_ok());
    for levels in [20, 40, 900] {
        assert_eq!(checked(&bundles(levels)), Err(Refusal::Items), "{levels}");
    }
    // Each component captures the previous two, including everything that they captured.
    let closures = |count: u64| {
        let closure = |n: u64| {
            format!("(component $c{} (alias outer 1 $c{n} (component)) (alias outer 1 $c{} (component)))", n + 2, n + 1)
        };
        format!("(component $c0) (component $c1){}", repeat(count, closure))
    };
    assert!(checked(&closures(15)).is_ok());
    for count in [30, 90, 900] {
        assert_eq!(checked(&closures(count)), Err(Refusal::Items), "{count}");
    }
    // A large instance is the argument of many instantiations.
    let many = |count: u64| {
        let exports = repeat(1_000, |n| format!("(export \"f{n}\" (func $f))"));
        let instances = repeat(count, |_| "(instance (instantiate $c (with \"x\" (instance $large))))".into());
        let types = repeat(1_000, |n| format!("(export \"f{n}\" (func))"));
        format!("{FUNCTION}(instance $large {exports})(component $c (import \"x\" (instance {types}))){instances}")
    };
    assert!(checked(&many(40)).is_ok());
    assert_eq!(checked(&many(100)), Err(Refusal::Items));
}

#[test]
fn initial_table_elements_under_at_and_over_the_limit() {
    let text = |more: u64| {
        let tables = "(core module (table 1000000 funcref) (table 1000000 1000000 externref))".to_owned();
        format!("{tables} (component {tables} (core module (table i64 {more} funcref)))")
    };
    assert!(checked(&text(0)).is_ok());
    assert_eq!(checked(&text(1)), Err(Refusal::TableElements));
    let at = |more: u64| {
        checked(&format!(
            "(core module (table {} funcref) (table 1000000 funcref) (table 1000000 funcref) (table 1000000 funcref))",
            MAX_TABLE_ELEMENTS - 3_000_000 + more
        ))
    };
    assert!(at(0).is_ok());
    assert_eq!(at(1), Err(Refusal::TableElements));
    // Wasmtime does not initialize larger tables at compile time.
    assert!(checked("(core module (table 4294967295 funcref) (table i64 0xffffffffffffffff funcref))").is_ok());
}

#[test]
fn items_of_unused_definitions_are_counted() {
    // A type section with `count` types in a nested component. The nested component itself is one more item.
    let types = |count: u64| {
        let mut types = vec![];
        let mut left = count;
        loop {
            let byte = u8::try_from(left & 0x7f).unwrap();
            left >>= 7;
            types.push(if left == 0 { byte } else { byte | 0x80 });
            if left == 0 {
                break;
            }
        }
        types.extend(std::iter::repeat_n(0x7f, usize::try_from(count).unwrap()));
        let section = |id: u8, content: &[u8]| {
            let len = u32::try_from(content.len()).unwrap();
            let len: Vec<u8> =
                (0..5).map(|n| u8::try_from((len >> (7 * n)) & 0x7f).unwrap() | if n < 4 { 0x80 } else { 0 }).collect();
            [&[id], len.as_slice(), content].concat()
        };
        const BEGIN: &[u8] = b"\0asm\x0d\0\x01\0";
        [BEGIN, &section(4, &[BEGIN, &section(7, &types)].concat())].concat()
    };
    assert!(check(&types(MAX_ITEMS - 2)).is_ok());
    assert!(check(&types(MAX_ITEMS - 1)).is_ok());
    assert_eq!(check(&types(MAX_ITEMS)), Err(Refusal::Items));
}

#[test]
fn inconsistent_components_are_rejected() {
    let whole = wat::parse_str(format!("(component {})", doubling(3))).unwrap();
    assert!(check(&whole).is_ok());
    let mut malformed = 0;
    for at in 8..whole.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            malformed += u32::from(matches!(check(&bytes), Err(Refusal::Malformed(_))));
        }
        // A prefix that ends at a section boundary can be a valid component.
        malformed += u32::from(check(&whole[..at]).is_err());
    }
    assert!(malformed > 100, "{malformed}");
    // No valid type allows a component that receives itself as an argument.
    let endless = wat::parse_str(
        "(component (component $c (import \"x\" (component $x)) (instance (instantiate $x (with \"x\" (component $x)))))
           (instance (instantiate $c (with \"x\" (component $c)))))",
    )
    .unwrap();
    assert_eq!(check(&endless), Err(Refusal::Instances));
}

/// Returns the size in bytes that Wasmtime reports for one instance, including `VMContext` and `VMComponentContext`.
fn wasmtime_bytes(component: &[u8]) -> u64 {
    let mut pool = PoolingAllocationConfig::default();
    pool.max_component_instance_size(0).max_core_instance_size(1 << 30).max_memory_size(1 << 20);
    pool.total_core_instances(1).total_memories(100).total_tables(100).total_stacks(1).total_gc_heaps(1);
    pool.max_memories_per_module(100).max_tables_per_module(100);
    pool.max_core_instances_per_component(10_000).max_memories_per_component(1_000).max_tables_per_component(1_000);
    let mut config = Config::new();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool)).memory_reservation(1 << 20);
    let Err(error) = Component::new(&Engine::new(&config).unwrap(), component) else {
        panic!("the pool must reject the component")
    };
    let words = format!("{error:#}");
    let (_, after) = words.split_once("requires ").unwrap_or_else(|| panic!("{words}"));
    after.split_once(' ').unwrap().0.parse().unwrap()
}

#[test]
fn instance_size_estimate_is_an_upper_bound() {
    let of = |module: &str| format!("(core module $m {module}) (core instance (instantiate $m))");
    let with = |given: &str, module: &str| {
        format!(
            "(core module $g {given}) (core instance $g (instantiate $g)) (core module $m {module})
             (core instance (instantiate $m (with \"\" (instance $g))))"
        )
    };
    let functions = repeat(2_000, |n| format!("(func (export \"f{n}\"))"));
    let shapes = [
        ("nothing", of("")),
        ("globals", of(&repeat(5_000, |_| "(global v128 (v128.const i64x2 1 2))".into()))),
        ("functions", of(&repeat(5_000, |_| "(func)".into()))),
        ("exported functions", of(&functions)),
        ("declared functions", of(&format!("(func $f) {} (elem declare func {})", repeat(3_000, |n| format!("(func $f{n})")), repeat(3_000, |n| format!("$f{n} "))))),
        ("functions in expressions", of(&format!("{} (elem funcref {})", repeat(3_000, |n| format!("(func $f{n})")), repeat(3_000, |n| format!("(ref.func $f{n})"))))),
        ("functions in globals", of(&format!("{}{}", repeat(3_000, |n| format!("(func $f{n})")), repeat(3_000, |n| format!("(global funcref (ref.func $f{n}))"))))),
        ("functions in structures", of(&format!("(type $s (struct (field funcref) (field funcref))) {} {}", repeat(2_000, |n| format!("(func $f{n})")), repeat(1_000, |n| format!("(global (ref $s) (struct.new $s (ref.func $f{}) (ref.func $f{})))", 2 * n, 2 * n + 1))))),
        ("functions in tables", of(&format!("{}{}", repeat(90, |n| format!("(func $f{n})")), repeat(90, |n| format!("(table 1 1 funcref (ref.func $f{n}))"))))),
        ("imported functions", with(&functions, &repeat(2_000, |n| format!("(import \"\" \"f{n}\" (func))")))),
        ("imported globals", with(&repeat(2_000, |n| format!("(global (export \"g{n}\") i32 (i32.const 0))")), &repeat(2_000, |n| format!("(import \"\" \"g{n}\" (global i32))")))),
        ("tables", of(&repeat(100, |_| "(table 1 funcref)".into()))),
        ("imported tables", with(&repeat(100, |n| format!("(table (export \"t{n}\") 1 funcref)")), &repeat(100, |n| format!("(import \"\" \"t{n}\" (table 1 funcref))")))),
        ("memories", of(&repeat(100, |_| "(memory 1)".into()))),
        ("imported memories", with(&repeat(100, |n| format!("(memory (export \"m{n}\") 1)")), &repeat(100, |n| format!("(import \"\" \"m{n}\" (memory 1))")))),
        ("tags", of(&repeat(3_000, |_| "(tag)".into()))),
        ("imported tags", with(&repeat(2_000, |n| format!("(tag (export \"t{n}\"))")), &repeat(2_000, |n| format!("(import \"\" \"t{n}\" (tag))")))),
        ("passive data", of(&format!("(memory 1) {}", repeat(3_000, |_| "(data \"a\")".into())))),
        ("active data", of(&format!("(global (import \"\" \"g\") i32) (memory 1) {}", repeat(3_000, |_| "(data (global.get 0) \"a\")".into()))).replace("(core module $m", "(core module $g (global (export \"g\") i32 (i32.const 0))) (core instance $g (instantiate $g)) (core module $m").replace("(instantiate $m)", "(instantiate $m (with \"\" (instance $g)))")),
        ("resources", format!("{}{}", repeat(900, |n| format!("(type $r{n} (resource (rep i32)))")), repeat(900, |n| format!("(core func (canon resource.new $r{n})) (core func (canon resource.drop $r{n})) (core func (canon resource.rep $r{n}))")))),
        ("components", format!("(component $c) {}", repeat(900, |_| "(instance (instantiate $c))".into()))),
        (
            "lowered functions",
            format!(
                "(import \"f\" (func $f (param \"s\" string) (result string)))
                 (core module $l (memory (export \"m\") 1) (func (export \"r\") (param i32 i32 i32 i32) (result i32) unreachable))
                 (core instance $l (instantiate $l)) {}",
                repeat(900, |_| "(core func (canon lower (func $f) (memory (core memory $l \"m\")) (realloc (core func $l \"r\"))))".into())
            ),
        ),
        (
            "functions of another component",
            format!(
                "(component $a (core module $m (func (export \"f\") (param i32))) (core instance $i (instantiate $m))
                   (func (export \"f\") (param \"p\" u8) (canon lift (core func $i \"f\")))) (instance $a (instantiate $a))
                 (component $b (import \"f\" (func $f (param \"p\" u8))) {lowered}
                   (core module $m {imports}) (core instance (instantiate $m (with \"\" (instance {given})))))
                 (instance (instantiate $b (with \"f\" (func $a \"f\"))))",
                lowered = repeat(300, |n| format!("(core func $l{n} (canon lower (func $f)))")),
                imports = repeat(300, |n| format!("(import \"\" \"{n}\" (func (param i32)))")),
                given = repeat(300, |n| format!("(export \"{n}\" (func $l{n}))")),
            ),
        ),
    ];
    for (name, text) in shapes {
        let component = wat::parse_str(format!("(component {text})")).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (bound, actual) = (check(&component).unwrap(), wasmtime_bytes(&component));
        assert!(bound >= actual, "{name}: the bound is {bound}, Wasmtime needs {actual}");
    }
}

#[test]
fn passive_elements_and_globals_take_sixteen_bytes_each() {
    let passive = |count| {
        let text =
            format!("(core module $m (func $f) (elem func {})) (core instance (instantiate $m))", "$f ".repeat(count));
        checked(&text).unwrap()
    };
    assert_eq!(passive(1_001) - passive(1), 16_000);
    let twice = |instances| {
        let globals = repeat(1_000, |_| "(global v128 (v128.const i64x2 1 2))".into());
        let text =
            format!("(core module $m {globals}) {}", repeat(instances, |_| "(core instance (instantiate $m))".into()));
        checked(&text).unwrap()
    };
    assert!(twice(300) - twice(200) >= 100 * 16_000, "each instance is counted");
    assert_eq!(twice(0), checked("").unwrap(), "a module without instances is not counted");
}

const MODULE: [u8; 8] = *b"\0asm\x01\0\0\0";
const BEGIN: [u8; 8] = *b"\0asm\x0d\0\x01\0";

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![id];
    let mut left = content.len();
    while left >= 0x80 {
        bytes.push(u8::try_from(left & 0x7f).unwrap() | 0x80);
        left >>= 7;
    }
    bytes.push(u8::try_from(left).unwrap());
    bytes.extend_from_slice(content);
    bytes
}

fn component(sections: &[Vec<u8>]) -> Vec<u8> {
    [BEGIN.to_vec(), sections.concat()].concat()
}

#[test]
fn parts_are_counted_at_every_depth_under_at_and_over_the_limit() {
    let side_by_side = |count| component(&vec![section(CORE_MODULE, &MODULE); count]);
    let nested = |count| (0..count).fold(component(&[]), |inner, _| component(&[section(COMPONENT, &inner)]));
    // A component with nine modules counts as ten parts.
    let both = |count: usize| component(&vec![section(COMPONENT, &side_by_side(9)); count / 10]);
    for (name, make) in [("nested", &nested as &dyn Fn(usize) -> Vec<u8>), ("beside", &side_by_side), ("both", &both)] {
        assert_eq!(check_headers(&make(MAX_PARTS - 10)), Ok(()), "{name}");
        assert_eq!(check_headers(&make(MAX_PARTS)), Ok(()), "{name}");
        assert_eq!(check_headers(&make(MAX_PARTS + 10)), Err(Refusal::Parts), "{name}");
    }
    assert_eq!(check_headers(&nested(MAX_PARTS + 1)), Err(Refusal::Parts));
    assert_eq!(check_headers(&side_by_side(MAX_PARTS + 1)), Err(Refusal::Parts));
}

#[test]
fn types_within_types_are_counted_under_at_and_over_the_limit() {
    for kind in [0x41, 0x42] {
        let types = |levels: usize| {
            let text = [[0x01].as_slice(), &[kind, 0x01, 0x01].repeat(levels), &[kind, 0x00]].concat();
            component(&[section(COMPONENT, &component(&[section(TYPE, &text)]))])
        };
        // The count is one too high, because the number of types precedes the first type and its byte looks like a
        // declaration.
        assert_eq!(check_headers(&types(MAX_TYPES - 2)), Ok(()));
        assert_eq!(check_headers(&types(MAX_TYPES - 1)), Ok(()));
        assert_eq!(check_headers(&types(MAX_TYPES)), Err(Refusal::Types));
    }
}

#[test]
fn truncated_sections_are_left_to_wasmtime() {
    let whole = component(&[section(COMPONENT, &component(&[section(CORE_MODULE, &MODULE)])), section(TYPE, &[0])]);
    for len in 0..=whole.len() {
        assert_eq!(check_headers(&whole[..len]), Ok(()), "{len} bytes");
    }
    for junk in [[0xff; 64].as_slice(), &[COMPONENT; 64], &[0; 64]] {
        assert_eq!(check_headers(junk), Ok(()));
        assert_eq!(check_headers(&[BEGIN.as_slice(), junk].concat()), Ok(()));
    }
}

#[test]
fn asynchronous_components_are_recognized() {
    let table = [
        ("", false),
        (r#"(import "a:b/c@0.2.0" (instance))"#, false),
        (r#"(import "a:b/c@0.3.0" (instance))"#, true),
        (r#"(component (import "a:b/c@0.3.1" (instance)))"#, true),
        (r#"(instance $i) (export "a:b/c@0.3.0" (instance $i))"#, true),
        (r#"(import "f" (func $f)) (core func (canon lower (func $f)))"#, false),
        (r#"(import "f" (func $f)) (core func (canon lower (func $f) async))"#, true),
        (r"(type $r (resource (rep i32))) (core func (canon resource.new $r))", false),
        ("(core func (canon waitable-set.new))", true),
        ("(component (core func (canon task.cancel)))", true),
    ];
    for (text, expected) in table {
        let component = wat::parse_str(format!("(component {text})")).unwrap();
        assert_eq!(is_concurrent(&component), expected, "{text}");
        assert!(!is_concurrent(&component[..8]), "a header only");
    }
}
