//! JSON Schemas of the tools' arguments and results.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

/// The schema of a tool's arguments. Its title and description are omitted, because the tool has its own.
pub(super) fn input<T: JsonSchema>() -> JsonObject {
    of::<T>(SchemaSettings::draft2020_12())
}

/// The schema of a tool's structured content.
pub(super) fn output<T: JsonSchema>() -> Arc<JsonObject> {
    Arc::new(of::<T>(SchemaSettings::draft2020_12().for_serialize()))
}

fn of<T: JsonSchema>(settings: SchemaSettings) -> JsonObject {
    let mut object = match settings.into_generator().into_root_schema_for::<T>().to_value() {
        Value::Object(object) => object,
        // The schemas of these types are all objects.
        _ => JsonObject::new(),
    };
    // The protocol's default dialect needs no `$schema`.
    for name in ["$schema", "title", "description"] {
        object.remove(name);
    }
    object.values_mut().for_each(simplify);
    object
}

/// Removes keywords that are useless to models and that some clients reject: defaults of `null`, and formats of
/// numbers.
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
