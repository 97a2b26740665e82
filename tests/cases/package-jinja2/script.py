from jinja2 import Environment, StrictUndefined

environment = Environment(autoescape=True, trim_blocks=True, undefined=StrictUndefined)
template = environment.from_string("""\
{% macro item(name) %}<li>{{ name|upper }}</li>{% endmacro %}
<ul>
{% for name in names if name %}
{{ item(name) }}
{% else %}
none
{% endfor %}
</ul>
{{ note }}""")
print(template.render(names=["a", "", "b"], note="1 < 2"))
try:
    template.render(names=[])
except Exception as error:
    print(type(error).__name__, error)
