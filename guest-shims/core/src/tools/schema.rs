//! The cost of checking arguments against a schema.
//!
//! A script chooses the arguments, and a check cannot be interrupted. If a schema refers to itself from several places,
//! checking takes exponential time: each level of the arguments multiplies the cost of the level below. The schema is
//! therefore analyzed once, as a graph, for the maximum cost of a value at each depth. Before each check, these costs
//! are summed over the values of the arguments.

use std::{collections::HashMap, ptr};

use serde_json::{Map, Value};

use super::{CallFailure, ToolErrorKind};

/// Maximum number of schemas within one tool's schema. Bounds the time of the analysis, which visits every schema once
/// for each possible depth of the arguments.
const MAX_SCHEMAS: usize = 1_000;

/// Maximum number of regular expressions in one tool's schema. Bounds the memory of the compiled expressions.
const MAX_PATTERNS: usize = 64;

/// Maximum number of nested schemas that apply to the same value, as with `anyOf` in `anyOf`. Together with the depth
/// of the arguments, this limit bounds the recursion of a check.
const MAX_IN_PLACE: usize = 32;

/// Maximum nesting depth of a schema's text. Parsed JSON text has the same limit.
const MAX_DEPTH: usize = 127;

/// Maximum cost of one check, about one second. Each schema, each element of `enum` and each name in `required` costs
/// about 1.
const MAX_COST: u64 = 100_000_000;

/// Rejected keywords, whose schemas depend on the evaluation path or on other documents.
const REFUSED: [&str; 3] = ["$dynamicRef", "$recursiveRef", "discriminator"];

pub(super) struct Costs {
    /// The maximum cost of checking one value, indexed by the value's depth in the arguments.
    by_depth: Vec<u64>,
    /// The number of regular expressions.
    pub(super) patterns: usize,
}

/// A schema in the graph, with references to other schemas by index.
#[derive(Default)]
struct Node {
    /// The cost of the schema itself.
    own: u64,
    /// The maximum number of times that the node is checked for one value.
    times: u64,
    /// Schemas that apply to the same value.
    here: Vec<usize>,
    /// Schemas for the value's members. At most one of these schemas applies to each member.
    either: Vec<usize>,
    /// Schemas for the value's members. All of these schemas apply to each member.
    also: Vec<usize>,
}

/// The schema graph during construction.
struct Graph<'a> {
    root: &'a Value,
    found: Vec<&'a Value>,
    /// Node indices by address, so that a schema with several references is one node.
    index: HashMap<*const Value, usize>,
    patterns: usize,
}

impl Costs {
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        check_depth(schema, MAX_DEPTH, true)?;
        let mut graph = Graph { root: schema, found: Vec::new(), index: HashMap::new(), patterns: 0 };
        graph.add(schema)?;
        let mut nodes = Vec::new();
        while let Some(next) = graph.found.get(nodes.len()) {
            nodes.push(graph.node(next)?);
        }
        let order = in_place(&nodes)?;
        Ok(Self { by_depth: by_depth(&nodes, &order), patterns: graph.patterns })
    }

    /// Rejects arguments whose check would take too long.
    pub(super) fn check(&self, arguments: &Value) -> Result<(), CallFailure> {
        let mut level = vec![arguments];
        let mut sum = 0_u64;
        for cost in &self.by_depth {
            sum = sum.saturating_add(cost.saturating_mul(level.len() as u64));
            if sum > MAX_COST {
                break;
            }
            level = level.into_iter().flat_map(children).collect();
            if level.is_empty() {
                return Ok(());
            }
        }
        let message = "the arguments are too deeply nested or too large to check against the tool's schema; send fewer or \
                       flatter values";
        Err(CallFailure::new(ToolErrorKind::InvalidArguments, message))
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(values) => Box::new(values.iter()),
        Value::Object(values) => Box::new(values.values()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Rejects a schema with too many nesting levels, and subschemas with an `$id`, which would change the meaning of
/// references.
fn check_depth(value: &Value, left: usize, is_root: bool) -> Result<(), String> {
    let Some(left) = left.checked_sub(usize::from(value.is_object() || value.is_array())) else {
        return Err(format!("it is nested more than {MAX_DEPTH} levels deep"));
    };
    if !is_root && value.get("$id").is_some_and(Value::is_string) {
        return Err("`$id` is allowed only at the top level".into());
    }
    children(value).try_for_each(|value| check_depth(value, left, false))
}

/// Returns the number of values within a value, including the value itself.
fn size(value: &Value) -> u64 {
    children(value).fold(1, |sum: u64, value| sum.saturating_add(size(value)))
}

impl<'a> Graph<'a> {
    fn add(&mut self, schema: &'a Value) -> Result<usize, String> {
        if let Some(index) = self.index.get(&ptr::from_ref(schema)) {
            return Ok(*index);
        }
        let index = self.found.len();
        if index == MAX_SCHEMAS {
            return Err(format!("it contains more than {MAX_SCHEMAS} schemas"));
        }
        self.found.push(schema);
        self.index.insert(ptr::from_ref(schema), index);
        Ok(index)
    }

    fn add_all(&mut self, to: &mut Vec<usize>, schemas: impl IntoIterator<Item = &'a Value>) -> Result<(), String> {
        for schema in schemas {
            to.push(self.add(schema)?);
        }
        Ok(())
    }

    fn node(&mut self, schema: &'a Value) -> Result<Node, String> {
        let mut node = Node { own: 1, times: 1, ..Node::default() };
        let Value::Object(keywords) = schema else { return Ok(node) };
        for (keyword, value) in keywords {
            match keyword.as_str() {
                refused if REFUSED.contains(&refused) => return Err(format!("`{refused}` is not supported")),
                "$ref" => {
                    let target = self.resolve(value)?;
                    node.here.push(self.add(target)?);
                }
                "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => {
                    self.add_all(&mut node.here, one_or_several(value))?;
                }
                "dependencies" | "dependentSchemas" => {
                    node.own = node.own.saturating_add(size(value));
                    let schemas = named_schemas(value).filter(|schema| !schema.is_array());
                    self.add_all(&mut node.here, schemas)?;
                }
                "properties" => {
                    node.own = node.own.saturating_add(value.as_object().map_or(0, Map::len) as u64);
                    self.add_all(&mut node.either, named_schemas(value))?;
                }
                "additionalProperties" | "items" | "prefixItems" | "additionalItems" => {
                    self.add_all(&mut node.either, one_or_several(value))?;
                }
                "patternProperties" => {
                    self.add_patterns(value.as_object().map_or(0, Map::len))?;
                    self.add_all(&mut node.also, named_schemas(value))?;
                }
                "contains" | "propertyNames" => self.add_all(&mut node.also, [value])?,
                "unevaluatedItems" | "unevaluatedProperties" => {
                    // The check of this schema may be repeated for each enclosing schema that applies to the same
                    // value.
                    node.times = MAX_IN_PLACE as u64 + 1;
                    self.add_all(&mut node.also, [value])?;
                }
                "pattern" => self.add_patterns(1)?,
                "enum" | "const" | "required" | "dependentRequired" => node.own = node.own.saturating_add(size(value)),
                _ => {}
            }
        }
        Ok(node)
    }

    fn add_patterns(&mut self, more: usize) -> Result<(), String> {
        self.patterns = self.patterns.saturating_add(more);
        if self.patterns > MAX_PATTERNS {
            return Err(format!("it has more than {MAX_PATTERNS} regular expressions"));
        }
        Ok(())
    }

    /// Returns a reference's target.
    fn resolve(&self, reference: &Value) -> Result<&'a Value, String> {
        let wrong =
            || format!("`$ref` {reference}: it must be `#` or `#/…`, and refer to an existing part of the schema");
        let pointer = reference.as_str().and_then(|text| text.strip_prefix('#')).ok_or_else(wrong)?;
        // A percent-encoded pointer would have to be decoded exactly as in the validator.
        if pointer.contains('%') {
            return Err(format!("`$ref` {reference}: it must not contain `%`"));
        }
        self.root.pointer(pointer).ok_or_else(wrong)
    }
}

fn one_or_several(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(schemas) => Box::new(schemas.iter()),
        schema => Box::new(std::iter::once(schema)),
    }
}

fn named_schemas(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_object().into_iter().flat_map(Map::values)
}

/// Sorts the schemas so that each one follows the schemas that it applies to the same value. Fails if more than
/// [`MAX_IN_PLACE`] of them are nested, or if a schema refers to itself.
fn in_place(nodes: &[Node]) -> Result<Vec<usize>, String> {
    let mut depths = vec![0_usize; nodes.len()];
    for _ in 0..=MAX_IN_PLACE {
        let deeper =
            |node: &Node| node.here.iter().filter_map(|at| depths.get(*at)).max().map_or(0, |deepest| deepest + 1);
        let next: Vec<usize> = nodes.iter().map(deeper).collect();
        if next == depths {
            let mut order: Vec<usize> = (0..nodes.len()).collect();
            order.sort_by_key(|at| depths.get(*at).copied());
            return Ok(order);
        }
        depths = next;
    }
    Err(format!("more than {MAX_IN_PLACE} nested schemas apply to one value, or a schema refers to itself"))
}

/// Returns the maximum cost of the first schema for one value, indexed by the value's depth in the arguments.
fn by_depth(nodes: &[Node], order: &[usize]) -> Vec<u64> {
    let mut above = vec![0_u64; nodes.len()];
    let mut costs = Vec::new();
    for depth in 0..=MAX_DEPTH {
        let mut level = vec![0_u64; nodes.len()];
        for at in order {
            let Some(node) = nodes.get(*at) else { continue };
            let of = |costs: &[u64], at: &usize| costs.get(*at).copied().unwrap_or_default();
            let below = if depth == 0 {
                node.own
            } else {
                let either = node.either.iter().map(|at| of(&above, at)).max().unwrap_or_default();
                node.also.iter().fold(either, |sum, at| sum.saturating_add(of(&above, at)))
            };
            let all = node.here.iter().fold(below, |sum, at| sum.saturating_add(of(&level, at)));
            if let Some(cost) = level.get_mut(*at) {
                *cost = all.saturating_mul(node.times);
            }
        }
        costs.push(level.first().copied().unwrap_or_default());
        above = level;
    }
    costs
}
