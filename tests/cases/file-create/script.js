const f = std.open('/app/output.json', 'w');
f.puts('{"data": 1}');
f.close();
