require('fs').writeFileSync('/app/output.txt', 'data');
