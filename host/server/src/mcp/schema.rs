//! JSON Schemas of what tools are given and give back.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

/// The schema of what a tool is given. Its own title and description are left out: the tool has those.
pub(super) fn input<T: JsonSchema>() -> JsonObject {
    of::<T>(SchemaSettings::draft2020_12())
}

/// The schema of what a tool gives back.
pub(super) fn output<T: JsonSchema>() -> Arc<JsonObject> {
    Arc::new(of::<T>(SchemaSettings::draft2020_12().for_serialize()))
}

fn of<T: JsonSchema>(settings: SchemaSettings) -> JsonObject {
    let mut object = match settings.into_generator().into_root_schema_for::<T>().to_value() {
        Value::Object(object) => object,
        // No type of ours has a schema that is `true`.
        _ => JsonObject::new(),
    };
    // The dialect is the protocol's default.
    for name in ["$schema", "title", "description"] {
        object.remove(name);
    }
    object.values_mut().for_each(simplify);
    object
}

/// Leaves out what says nothing to a model, and what some clients refuse: defaults of `null`, and widths of numbers.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            if object.get("format").is_some_and(Value::is_string) {
                object.remove("format");
            }
            object.values_mut().for_each(simplify);
        }
        Value::Array(values) => values.iter_mut().for_each(simplify),
        _ => {}
    }
}
