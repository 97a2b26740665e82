from markupsafe import Markup, escape

print(escape("<a href='x'>&</a>"), escape(Markup("<b>")))
print(Markup("<em>%s</em>") % "<script>", Markup("a &lt; b").unescape(), Markup("<b>x</b>").striptags())
import markupsafe

print(markupsafe._escape_inner.__module__)
