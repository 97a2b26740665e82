use serde_json::{Map, json};

use super::{check::MAX_STEPS, *};

fn compiled(schema: &Value) -> Result<Validator, String> {
    Validator::of(schema, 64 << 10, MAX_PROVIDER_LEVELS)
}

/// A xorshift generator, with the same sequence on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }

    fn pick(&mut self, of: &[Value]) -> Value {
        of[self.below(of.len())].clone()
    }

    fn value(&mut self, depth: usize) -> Value {
        let plain = [
            json!(null),
            json!(true),
            json!(0),
            json!(1),
            json!(1.0),
            json!(-2),
            json!(2.5),
            json!(7),
            json!(""),
            json!("a"),
            json!("äöü"),
            json!("abc"),
        ];
        match self.below(if depth == 0 { 2 } else { 4 }) {
            2 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
            3 => {
                let names = ["a", "b", "c"];
                let members = (0..self.below(4)).map(|_| (names[self.below(3)].to_owned(), self.value(depth - 1)));
                Value::Object(members.collect())
            }
            _ => self.pick(&plain),
        }
    }

    fn schemas(&mut self, depth: usize) -> Value {
        (0..=self.below(3)).map(|_| self.schema(depth)).collect()
    }

    fn schema(&mut self, depth: usize) -> Value {
        if depth == 0 || self.below(12) == 0 {
            return self.pick(&[json!(true), json!(false), json!({}), json!({"type": "integer"}), json!({"const": 1})]);
        }
        let mut schema = Map::new();
        for _ in 0..=self.below(3) {
            let (keyword, value) = self.keyword(depth - 1);
            schema.insert(keyword.to_owned(), value);
        }
        Value::Object(schema)
    }

    fn keyword(&mut self, depth: usize) -> (&'static str, Value) {
        let number = self.pick(&[json!(0), json!(1), json!(2), json!(2.5), json!(-1)]);
        let count = self.pick(&[json!(0), json!(1), json!(2), json!(3)]);
        let names = self.pick(&[json!([]), json!(["a"]), json!(["a", "b"])]);
        match self.below(36) {
            0 => (
                "type",
                self.pick(&[
                    json!("string"),
                    json!("number"),
                    json!(["integer", "null"]),
                    json!("object"),
                    json!("array"),
                ]),
            ),
            1 => ("enum", (0..3).map(|_| self.value(1)).collect()),
            2 => ("const", self.value(1)),
            3 => ("minimum", number),
            4 => ("maximum", number),
            5 => ("exclusiveMinimum", number),
            6 => ("exclusiveMaximum", number),
            7 => ("multipleOf", self.pick(&[json!(1), json!(2), json!(0.5)])),
            8 => ("minLength", count),
            9 => ("maxLength", count),
            10 => ("minItems", count),
            11 => ("maxItems", count),
            12 => ("minProperties", count),
            13 => ("maxProperties", count),
            14 => ("uniqueItems", self.pick(&[json!(true), json!(false)])),
            15 => ("required", names),
            16 => ("dependentRequired", json!({"a": names})),
            17 => ("propertyNames", json!({"maxLength": self.below(2), "enum": ["a", "b"]})),
            18 | 19 => ("properties", json!({"a": self.schema(depth), "b": self.schema(depth)})),
            20 => ("additionalProperties", self.schema(depth)),
            21 => ("items", self.schema(depth)),
            22 => ("prefixItems", self.schemas(depth)),
            23 => ("contains", self.schema(depth)),
            24 => ("allOf", self.schemas(depth)),
            25 => ("anyOf", self.schemas(depth)),
            26 => ("oneOf", self.schemas(depth)),
            27 => ("not", self.schema(depth)),
            28 => ("if", self.schema(depth)),
            29 => ("pattern", self.pick(&[json!("^a"), json!("b|c"), json!("^[a-c]*$"), json!("\\d")])),
            30 => ("patternProperties", json!({"^[ab]": self.schema(depth), "c$": self.schema(depth)})),
            31 => ("dependentSchemas", json!({"a": self.schema(depth), "b": self.schema(depth)})),
            32 => ("unevaluatedProperties", self.schema(depth)),
            33 => ("unevaluatedItems", self.schema(depth)),
            _ => (["then", "else", "title", "$comment"][self.below(2)], self.schema(depth)),
        }
    }
}

#[test]
fn validator_agrees_with_the_reference_library() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut valid, mut invalid) = (0, 0);
    for round in 0..4_000 {
        let schema = random.schema(3);
        let library = jsonschema::options().should_validate_formats(false).offline().build(&schema).unwrap();
        let plain = compiled(&schema).unwrap();
        for _ in 0..8 {
            let value = random.value(3);
            let result = plain.check(&value);
            assert_eq!(result.is_ok(), library.is_valid(&value), "round {round}: {schema} {value} {result:?}");
            if result.is_ok() { valid += 1 } else { invalid += 1 }
        }
    }
    assert!(valid > 5_000 && invalid > 5_000, "too few valid or invalid values to compare: {valid}, {invalid}");
}

#[test]
fn a_schema_may_refer_to_itself() {
    let schema = json!({
        "$ref": "#/$defs/tree",
        "$defs": {"tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}, "additionalProperties": false}},
    });
    let plain = compiled(&schema).unwrap();
    assert!(plain.check(&json!({"left": {"left": {}}})).is_ok());
    let wrong = plain.check(&json!({"left": {"left": {"right": 1}}})).unwrap_err();
    assert_eq!(
        wrong.location_and_message(),
        ("/left/left".into(), "additional properties are not allowed ('right' was unexpected)")
    );
}

#[test]
fn violations_name_their_location() {
    let schema =
        json!({"properties": {"a/b": {"items": {"type": "integer"}}, "c": {"minLength": 2}}, "required": ["c"]});
    let plain = compiled(&schema).unwrap();
    for (value, place, message) in [
        (json!({}), "", "\"c\" is a required property"),
        (json!({"c": "xy", "a/b": [1, "x"]}), "/a~1b/1", "value is not of type \"integer\""),
        (json!({"c": "x"}), "/c", "the number of characters is 1; the minimum is 2"),
    ] {
        assert_eq!(plain.check(&value).unwrap_err().location_and_message(), (place.to_owned(), message));
    }
}

#[test]
fn violated_bounds_are_named_with_their_kind() {
    for (keyword, within, beyond, message) in [
        ("minimum", json!(5), json!(4), "value is less than the minimum of 5"),
        ("exclusiveMinimum", json!(6), json!(5), "value is not greater than 5"),
        ("maximum", json!(5), json!(6), "value is greater than the maximum of 5"),
        ("exclusiveMaximum", json!(4), json!(5), "value is not less than 5"),
    ] {
        let plain = compiled(&json!({ keyword: 5 })).unwrap();
        assert!(plain.check(&within).is_ok(), "{keyword}");
        assert_eq!(plain.check(&beyond).unwrap_err().location_and_message(), (String::new(), message));
    }
}

#[test]
fn unsupported_keywords_and_invalid_schemas_are_rejected() {
    for (schema, words) in [
        (json!({"properties": {"a": {"$dynamicRef": "#x"}}}), "`$dynamicRef` is not supported"),
        (json!({"pattern": 7}), "`pattern` has the invalid value `7`"),
        (json!({"$schema": "https://example.com/meta.json"}), "`$schema` does not name a known draft of JSON Schema"),
        (json!({"type": "text"}), "`type` has the invalid value `\"text\"`"),
        (json!({"minLength": -1}), "`minLength` has the invalid value `-1`"),
        (json!({"items": 3}), "a schema is neither an object nor a boolean"),
        (json!({"required": "a"}), "`required` has the invalid value `\"a\"`"),
        (json!({"multipleOf": 0}), "`multipleOf` has the invalid value `0`"),
    ] {
        assert_eq!(compiled(&schema).err().as_deref(), Some(words), "{schema}");
    }
}

#[test]
fn validation_depth_is_limited() {
    let plain = compiled(&json!({"items": {"$ref": "#"}})).unwrap();
    let nested = |levels: usize| (0..levels).fold(json!([]), |inner, _| json!([inner]));
    // Each level of the value takes two levels of schemas, because the reference counts as a level.
    assert!(plain.check(&nested(MAX_PROVIDER_LEVELS / 2 - 1)).is_ok(), "at");
    let over = plain.check(&nested(MAX_PROVIDER_LEVELS / 2)).unwrap_err();
    assert_eq!(
        over.location_and_message().1,
        "the value is too deeply nested to check against the schema; flatten it",
        "over"
    );
    assert!(plain.check(&nested(3)).is_ok(), "usable afterwards");
}

#[test]
fn patterns_match_in_linear_time_or_are_rejected() {
    let fits = |pattern: &str, text: &str| compiled(&json!({"pattern": pattern})).unwrap().check(&json!(text)).is_ok();
    for (pattern, text, expected) in [
        ("b+", "abbc", true),
        ("^b+$", "abbc", false),
        (r"^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}$", "a.b@example.org", true),
        (r"^\d{4}-\d{2}-\d{2}$", "2026-11-23", true),
        (r"^\d$", "٣", false),
        (r"^\/a\/\w+$", "/a/b_1", true),
        ("^(a+)+$", &("a".repeat(5_000) + "!"), false),
    ] {
        assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
    }
    for pattern in ["(", r"(a+)\1", "(?=a)b", "(((a{1000}){1000}){1000})", r"\p{L}"] {
        let error = compiled(&json!({"pattern": pattern})).err().unwrap();
        assert!(error.starts_with("a regular expression is not supported: "), "{pattern}: {error}");
    }
}

#[test]
fn regex_steps_are_limited_per_check() {
    let schema = json!({"properties": {"a": {"not": {"pattern": "^b*$"}}}});
    let validator = compiled(&schema).unwrap();
    let text = |steps: u64| json!({"a": "a".repeat(usize::try_from(steps / 32 - 1).unwrap())});
    assert!(validator.check(&text(MAX_STEPS - 32)).is_ok(), "under");
    assert!(validator.check(&text(MAX_STEPS)).is_ok(), "at");
    // The limit also applies inside `not`, where a mismatch is valid.
    let over = validator.check(&text(MAX_STEPS + 32)).unwrap_err();
    assert_eq!(
        over.location_and_message().1,
        "the value's strings are too long for the schema's regular expressions",
        "over"
    );
    assert!(validator.check(&json!({"a": "a"})).is_ok(), "usable afterwards");
}

#[test]
fn dependencies_of_both_drafts_are_checked() {
    let validator = compiled(&json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}})).unwrap();
    for (value, expected) in [
        (json!({"a": 1}), false),
        (json!({"a": 1, "b": 1}), true),
        (json!({"c": 1}), false),
        (json!({"c": 1, "d": 1}), true),
    ] {
        assert_eq!(validator.check(&value).is_ok(), expected, "{value}");
    }
}
