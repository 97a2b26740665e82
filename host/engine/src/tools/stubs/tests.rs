//! Tests of declarations as text. `tests/tests/all/tool_stubs.rs` parses them.

use serde_json::{Map, Value, json};

use super::{
    Declaration, Language, MAX_BYTES, MAX_TOOL_BYTES, Tool, declare_all, description_lines, one_line, tool_stubs,
    types::{
        MAX_ALTERNATIVES, MAX_DEPTH, MAX_LITERAL_CHARS, MAX_MEMBERS, MAX_NAME_CHARS, MAX_OBJECTS, MAX_PARTS, ToolTypes,
        Type,
    },
};

fn tool(name: &str, description: &str, schema: Value) -> Tool {
    Tool::new(name, description).schema(schema).stepped()
}

fn weather() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "city": { "type": "string", "description": "The city's name." },
            "days": { "type": "integer", "default": 3 },
            "units": { "enum": ["c", "f"], "default": "c" },
            "where": { "anyOf": [{ "$ref": "#/$defs/Place" }, { "type": "null" }] },
            "tags": { "type": "array", "items": { "type": "string" } },
        },
        "required": ["city"],
        "$defs": {
            "Place": {
                "type": "object",
                "properties": { "x": { "type": "number" }, "near": { "$ref": "#/$defs/Place" } },
                "required": ["x"],
            },
        },
    });
    let result = json!({ "type": "object", "properties": { "high": { "type": "number" } }, "required": ["high"] });
    tool("weather", "Returns the weather.", schema).result_schema(result)
}

/// Returns the lines of a stub from the first line that contains `first` to the next empty line or the end.
fn part(stub: &str, first: &str) -> String {
    let lines = stub.lines().skip_while(|line| !line.contains(first)).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn python_stub_has_types_defaults_and_documentation() {
    let stub = tool_stubs(&[weather(), tool("any", "", json!({}))], Language::Python).unwrap();
    assert_eq!(
        part(&stub, "class _weather_Place("),
        "class _weather_Place(TypedDict):\n    x: float\n    near: NotRequired[_weather_Place]"
    );
    assert_eq!(part(&stub, "class _weather_result("), "class _weather_result(TypedDict):\n    high: float");
    let parameters = "self, city: str, days: int = 3, tags: list[str] = ..., \
                      units: Literal[\"c\", \"f\"] = \"c\", where: _weather_Place | None = ...";
    let class = format!(
        "class _weather:\n    def __call__({parameters}) -> _weather_result:\n        \
         \"\"\"Returns the weather.\n\n        city: The city's name.\n        \"\"\"\n    \
         async def aio({parameters}) -> _weather_result:\n        \
         \"\"\"Like `tools.weather`, but awaitable: calls run concurrently.\"\"\"\n\n"
    );
    assert!(stub.contains(&class), "{stub}");
    assert!(stub.contains("def __call__(self, **arguments: Any) -> Any: ...\n"), "{stub}");
    let tools = part(&stub, "class _Tools(_ToolsByName):");
    let end = "    search: _Search\n    describe: _Describe\n    weather: _weather\n    any: _any";
    assert!(tools.contains("    ToolError = _ToolError\n") && tools.ends_with(end), "{tools}");
}

#[test]
fn typescript_declarations_have_types_defaults_and_documentation() {
    let stub = tool_stubs(&[weather(), tool("any", "", json!({}))], Language::JavaScript).unwrap();
    let types = part(&stub, "interface weather_Place ");
    let expected = "  interface weather_Place {
    x: number;
    near?: ToolTypes.weather_Place;
  }
  interface weather_result {
    high: number;
  }
  interface weather_arguments {
    /** The city's name. */
    city: string;
    /** Default: 3 */
    days?: number;
    tags?: Array<string>;
    /** Default: \"c\" */
    units?: \"c\" | \"f\";
    where?: ToolTypes.weather_Place | null;
  }
}";
    assert_eq!(types, expected);
    let tools = part(&stub, "declare const tools: {");
    let methods = "  /** Returns the weather. */
  weather(args: ToolTypes.weather_arguments): Promise<ToolTypes.weather_result>;
  weather(...args: [city: string, days?: number, tags?: Array<string>, units?: \"c\" | \"f\", \
                   where?: ToolTypes.weather_Place | null]): Promise<ToolTypes.weather_result>;
  any(args?: { [name: string]: any }): Promise<any>;
};";
    assert!(tools.ends_with(methods), "{tools}");
}

#[test]
fn names_that_are_not_identifiers_are_escaped() {
    let properties = json!({
        "a": {}, "self": {}, "class": {}, "__b": {}, "odd name": {}, "\"\n\u{202e}": {}, "arguments": {},
    });
    let nested = json!({ "type": "object", "properties": properties });
    let schema = json!({ "properties": { "a": nested, "odd name": {}, "z": {} }, "required": ["a", "odd name", "z"] });
    let tools = [tool("f", "", schema), tool("new", "", json!({})), tool("search", "", json!({}))];
    let stub = tool_stubs(&tools, Language::Python).unwrap();
    assert!(stub.contains("def __call__(self, a: _f_a, *, z: Any, **arguments: Any) -> Any: ...\n"), "{stub}");
    let object = part(&stub, "_f_a = TypedDict(");
    assert!(
        object.starts_with("_f_a = TypedDict(\"_f_a\", {\n    \"\\\"\\n\\U0000202e\": NotRequired[Any],\n"),
        "{object}"
    );
    assert!(object.contains("\n    \"odd name\": NotRequired[Any],\n") && object.ends_with("\n})"), "{object}");
    assert!(stub.contains("    search: _search\n") && !stub.contains("    search: _Search\n"), "{stub}");

    let stub = tool_stubs(&tools, Language::JavaScript).unwrap();
    assert!(
        stub.contains("\n    \"odd name\"?: any;\n") && stub.contains("\n    \"\\\"\\n\\u{202e}\"?: any;\n"),
        "{stub}"
    );
    assert!(stub.contains("  f(...args: [(ToolTypes.f_a), (any), (any)]): Promise<any>;\n"), "{stub}");
    assert!(stub.contains("  \"new\"(args?: { [name: string]: any }): Promise<any>;\n"), "{stub}");
    assert_eq!(stub.matches("  search(").count(), 1, "{stub}");
}

#[test]
fn descriptions_cannot_end_their_literal_or_comment() {
    let schema = json!({ "properties": { "a": { "description": "x */ \"\"\"\ny\\" } } });
    let tools = [tool("f", "One.\r\n\r\n\r\n  \"\"\" two \\ */ \u{1b}[2J\u{2028}\u{200b}", schema)];
    let python = tool_stubs(&tools, Language::Python).unwrap();
    let expected = "        \"\"\"One.\n\n        \\\"\\\"\\\" two \\\\ */ [2J\n\n        \
                    a: x */ \\\"\\\"\\\" y\\\\\n        \"\"\"\n";
    assert!(python.contains(expected), "{python}");
    let typescript = tool_stubs(&tools, Language::JavaScript).unwrap();
    let expected = "  /**\n   * One.\n   *\n   * \"\"\" two \\ *\\/ [2J\n   */\n";
    assert!(typescript.contains(expected), "{typescript}");
    assert!(typescript.contains("    /** x *\\/ \"\"\" y\\ */\n"), "{typescript}");
}

#[test]
fn long_descriptions_are_shortened() {
    assert_eq!(one_line("abc", 3), "abc");
    assert_eq!(one_line("abcd", 3), "abc…");
    assert_eq!(description_lines(""), Vec::<String>::new());
    assert_eq!(description_lines(&"é".repeat(2_000)), ["é".repeat(2_000)]);
    assert_eq!(description_lines(&"é".repeat(2_001)), [format!("{}…", "é".repeat(2_000))]);
}

/// Returns the type of the `a` argument, and the number of object types.
fn argument(schema: Value) -> (Type, usize) {
    let types = ToolTypes::of(&tool("f", "", json!({ "properties": { "a": schema } })));
    let kind = types.arguments.members.into_iter().next().unwrap().kind;
    (kind, types.objects.len())
}

#[test]
fn nesting_depth_is_limited() {
    let lists = |depth: usize| {
        (0..depth).fold(json!({ "type": "string" }), |items, _| json!({ "type": "array", "items": items }))
    };
    let innermost = |schema: Value| {
        let mut kind = argument(schema).0;
        while let Type::List(items) = kind {
            kind = *items;
        }
        kind
    };
    assert_eq!(innermost(lists(MAX_DEPTH - 1)), Type::String);
    assert_eq!(innermost(lists(MAX_DEPTH)), Type::String);
    assert_eq!(innermost(lists(MAX_DEPTH + 1)), Type::Any);
    assert_eq!(innermost(json!({ "type": "array", "items": { "$ref": "#/properties/a" } })), Type::Any);
    assert_eq!(argument(json!({ "$ref": "#/properties/a" })).0, Type::Any);
}

#[test]
fn numbers_of_members_alternatives_and_characters_are_limited() {
    let object = |count: usize| {
        let properties: Map<String, Value> = (0..count).map(|at| (format!("p{at}"), json!({}))).collect();
        json!({ "type": "object", "properties": properties })
    };
    let dictionary = Type::Dictionary(Box::new(Type::Any));
    for (count, kind) in
        [(MAX_MEMBERS - 1, Type::Object(0)), (MAX_MEMBERS, Type::Object(0)), (MAX_MEMBERS + 1, dictionary)]
    {
        assert_eq!(argument(object(count)).0, kind, "{count}");
        let arguments = ToolTypes::of(&tool("f", "", object(count))).arguments;
        assert_eq!(
            (arguments.members.is_empty(), arguments.accepts_others),
            (count > MAX_MEMBERS, count > MAX_MEMBERS)
        );
    }
    for count in [MAX_ALTERNATIVES - 1, MAX_ALTERNATIVES, MAX_ALTERNATIVES + 1] {
        let values: Vec<Value> = (0..count).map(Value::from).collect();
        let is_literal = count <= MAX_ALTERNATIVES;
        let kind = if is_literal { Type::Literals(values.clone()) } else { Type::Integer };
        assert_eq!(argument(json!({ "enum": values, "type": "integer" })).0, kind, "{count}");
        let schemas: Vec<Value> = values.iter().map(|value| json!({ "const": value })).collect();
        assert_eq!(matches!(argument(json!({ "anyOf": schemas })).0, Type::Union(_)), is_literal, "{count}");
    }
    for length in [MAX_LITERAL_CHARS - 1, MAX_LITERAL_CHARS, MAX_LITERAL_CHARS + 1] {
        let literal = json!("é".repeat(length));
        let is_literal = length <= MAX_LITERAL_CHARS;
        assert_eq!(matches!(argument(json!({ "const": literal })).0, Type::Literals(_)), is_literal, "{length}");
    }
    for length in [MAX_NAME_CHARS - 1, MAX_NAME_CHARS, MAX_NAME_CHARS + 1] {
        let schema = json!({ "properties": { ("x".repeat(length)): {} } });
        let arguments = ToolTypes::of(&tool("f", "", schema)).arguments;
        let is_listed = length <= MAX_NAME_CHARS;
        assert_eq!(
            (arguments.members.len(), arguments.accepts_others),
            (usize::from(is_listed), !is_listed),
            "{length}"
        );
    }
}

#[test]
fn number_of_object_types_is_limited() {
    // A chain of objects, each of which has the next object as its member.
    let chain = |count: usize| {
        let leaf = json!({ "type": "string" });
        (0..count).fold(leaf, |inner, _| json!({ "type": "object", "properties": { "b": inner } }))
    };
    for (count, objects) in
        [(MAX_OBJECTS - 1, MAX_OBJECTS - 1), (MAX_OBJECTS, MAX_OBJECTS), (MAX_OBJECTS + 1, MAX_OBJECTS)]
    {
        assert_eq!(argument(chain(count)).1, objects, "{count}");
    }
}

#[test]
fn number_of_schemas_is_limited() {
    // Each level doubles the number of references. Without a limit, there would be 2^50 of them.
    let mut definitions = Map::new();
    for level in 0..50 {
        let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
        definitions.insert(format!("d{level}"), json!({ "anyOf": [{ "type": "array", "items": next }, next] }));
    }
    definitions.insert("d50".to_owned(), json!({ "type": "string" }));
    let schema = json!({ "properties": { "a": { "$ref": "#/$defs/d0" } }, "$defs": definitions });
    let types = ToolTypes::of(&tool("f", "", schema));
    assert_eq!(types.arguments.members.len(), 1);

    // A list of strings counts as two schemas: the list and its items.
    let typed = |count: usize| {
        let members =
            (0..50).map(|at| (format!("m{at:02}"), json!({ "type": "array", "items": { "type": "string" } })));
        let members: Map<String, Value> = members.collect();
        let mut objects: Map<String, Value> =
            (0..20).map(|at| (format!("p{at:02}"), json!({ "type": "object", "properties": members }))).collect();
        objects.insert("a".to_owned(), json!({ "enum": (0..count).collect::<Vec<_>>() }));
        let types = ToolTypes::of(&tool("f", "", json!({ "properties": objects })));
        types
            .objects
            .into_iter()
            .flat_map(|object| object.members)
            .filter(|member| member.kind == Type::List(Box::new(Type::String)))
            .count()
    };
    // The first argument and its literals, and the objects, are counted before the lists.
    let lists = |literals: usize| (MAX_PARTS - 1 - literals - 20) / 2;
    for literals in [1, 11, 31] {
        assert_eq!(typed(literals), lists(literals), "{literals}");
    }
}

/// Declares one tool for each of these declaration sizes. Returns the size of each resulting declaration.
fn declared(bytes: &[usize]) -> Vec<usize> {
    let tools: Vec<Tool> = bytes.iter().map(|bytes| tool("f", &bytes.to_string(), json!({}))).collect();
    let all = declare_all(&tools, |_, description, _| {
        // A declaration over a limit is replaced by a declaration without a description.
        let bytes: usize = description.parse().unwrap_or(1);
        Declaration { types: format!("{}|", "x".repeat(bytes - 1)), members: String::new() }
    });
    all.types.split_terminator('|').map(|declaration| declaration.len() + 1).collect()
}

#[test]
fn size_of_declarations_is_limited() {
    for (bytes, found) in
        [(MAX_TOOL_BYTES - 1, MAX_TOOL_BYTES - 1), (MAX_TOOL_BYTES, MAX_TOOL_BYTES), (MAX_TOOL_BYTES + 1, 1)]
    {
        assert_eq!(declared(&[bytes]), [found], "{bytes}");
    }
    let full = [MAX_TOOL_BYTES; MAX_BYTES / MAX_TOOL_BYTES - 1];
    for (last, found) in [(99, 99), (100, 100), (101, 1)] {
        let bytes = [&full[..], &[MAX_TOOL_BYTES - 100, last]].concat();
        assert_eq!(declared(&bytes).last(), Some(&found), "{last}");
    }
}

#[test]
fn tool_with_large_types_is_declared_without_types() {
    let values: Vec<String> = (0..MAX_ALTERNATIVES).map(|at| format!("{at:060}")).collect();
    let properties: Map<String, Value> = (0..50).map(|at| (format!("p{at}"), json!({ "$ref": "#/$defs/e" }))).collect();
    let schema = json!({ "properties": properties, "$defs": { "e": { "enum": values } } });
    let tools = [tool("f", "Does f.", schema), tool("g", "Does g.", json!({}))];
    for language in Language::ALL {
        let stub = tool_stubs(&tools, language).unwrap();
        assert!(!stub.contains("Does f.") && stub.contains("Does g.") && stub.len() < MAX_TOOL_BYTES, "{language}");
    }
}

#[test]
fn invalid_tools_are_rejected() {
    for tools in [vec![tool("a b", "", json!({}))], vec![tool("a", "", json!({})), tool("a", "", json!({}))]] {
        assert!(tool_stubs(&tools, Language::Python).is_err());
    }
}

#[test]
fn hostile_schemas_have_declarations() {
    for schema in [
        json!({ "properties": 7, "required": "x" }),
        json!({ "properties": { "a": 7, "b": { "type": 7, "enum": {}, "anyOf": 1, "$ref": 2, "items": [] } } }),
        json!({ "properties": { "a": { "anyOf": [], "type": [] } }, "required": ["missing", 3] }),
        json!({ "properties": { "a": { "allOf": [{ "type": "string" }] } }, "additionalProperties": {} }),
    ] {
        let types = ToolTypes::of(&tool("f", "", schema));
        assert!(types.objects.is_empty(), "{types:?}");
    }
}
